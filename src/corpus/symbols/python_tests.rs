//! What the walk over tokens gives is what the grammar gives.

use std::path::{Path, PathBuf};

use super::tests::SAMPLES;
use super::*;
use crate::clock::Stopwatch;

fn by_grammar(text: &str) -> Outline<'_> {
    let mut references = Vec::new();
    let symbols = by_tree(Language::Python, text, Budget::default(), |r| references.push(r)).unwrap();
    Outline { symbols, references }
}

fn same(what: &str, text: &str) -> bool {
    let Some(quick) = python::outline(text) else { return false };
    let slow = by_grammar(text);
    for (a, b) in quick.symbols.iter().zip(&slow.symbols) {
        assert_eq!(a, b, "{what}");
    }
    for (a, b) in quick.references.iter().zip(&slow.references) {
        assert_eq!(a, b, "{what}");
    }
    assert_eq!(quick, slow, "{what}");
    true
}

fn python_files(folder: &Path, out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let (path, kind) = (entry.path(), entry.file_type().unwrap());
        if kind.is_dir() {
            python_files(&path, out);
        } else if kind.is_file() && path.extension().is_some_and(|end| end == "py") {
            out.push(path);
        }
    }
}

/// `PROOFLINE_PYTHON` names a folder with more files to try.
#[test]
#[expect(clippy::disallowed_methods, reason = "a folder of more files may be named")]
fn real_files_are_alike() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut paths = Vec::new();
    for folder in ["benches", "datasets", "examples", "src", "tests"] {
        python_files(&root.join(folder), &mut paths);
    }
    if let Some(more) = std::env::var_os("PROOFLINE_PYTHON") {
        python_files(Path::new(&more), &mut paths);
    }
    let mut quick = 0;
    for path in &paths {
        let Ok(text) = std::fs::read_to_string(path) else { continue };
        if text.len() <= grammar::LARGEST {
            quick += usize::from(same(&path.display().to_string(), &text));
        }
    }
    println!("{quick} of {} files", paths.len());
    assert!(paths.len() >= 15 && quick * 10 >= paths.len() * 7, "{quick} of {} files", paths.len());
}

#[test]
fn odd_but_sound_code_is_alike() {
    for text in [
        "",
        "\n# only a comment\n",
        "x = 1",
        "a = b = c = 1\n",
        "a, (b, *c), [d, e.f, g[h]] = i\n",
        "d[(a, b)] = (e, f).g = h\n",
        "x: int\ny: List[int] = []\nz.w: int = 3\n",
        "class A(B, metaclass=M):  # c\n    x = y = 1\n    def f(self): return self.g(1)  # t\n    z: int = f(2)\n",
        "@a.b(c)\nclass D: pass\n",
        "async def f(a, /, b: int = 2, *c, d=lambda x, y=1: x, **e) -> g(h):\n    async with i() as j, k:\n        await l()\n    async for m in n: yield m\n    return [o async for o in p if not q]\n",
        "def f():\n    '''doc'''\n    def g(): pass\n    x = 1\n    # inside\n\n# outside\ny = f\n",
        "class A:\n    def f(self):\n        pass\n        # of f\n    # of A\n# of none\n",
        "if a:\n    b = 1\nelif c: d = 2; e = 3\nelse:\n    try: f()\n    except (G, H) as i: raise J(k) from l\n    finally: del m\n",
        "f = lambda: (yield)\ng = lambda *a, b=1: a if b else c\n",
        "x = f'{a!r:>{b}} {{c}} {d.e(f)=} {g[\"h\"]:x}' 'i' f\"{j}\"\n",
        "s = '''a\nb''' + \"c\\\nd\" + r'\\\\' + b'e'\n",
        "x = [\n    a,  # b\n    c(d),\n]\ny = {e: f, **g}; z = {h for i in j}\n",
        "from __future__ import annotations\nfrom . import a as b\nfrom ..c.d import (e, f as g,)\nfrom h import *\nimport i.j, k as l\n",
        "x = 0x1f + 1_0.5e-3j + .5 + 1. if a else ...\n",
        "a += b.c(d)\na @= e\nf ** -g // h\nnot i is not j in k\n",
        "global a, b\nassert c, d(e)\nreturn\n",
        "if (a := b(c)) and d[e:f, ::2]: pass\n",
        "while True:\n  x = 1\n  if y:\n        z = 2\n  break\n",
        "a = 1 \\\n    + b\n\nc = d\n",
        "print(a)\ntype = b\nmatch.c = d\n",
    ] {
        assert!(same(text, text), "not tried: {text:?}");
    }
    for (path, text) in SAMPLES {
        if path.ends_with(".py") {
            same(path, text);
        }
    }
}

#[test]
fn what_is_not_sure_is_left_to_the_grammar() {
    for text in [
        "match a:\n    case B(): pass\n",
        "type A = int\n",
        "print a\nexec b\n",
        "if a:\n\tb = 1\n",
        "a = 1\r\nb = 2\r\n",
        "größe = 1\n",
        "def f(:\n    pass\n",
        "def f()\n    pass\n",
        "if a:\nb = 1\n",
        "a = 1\n  b = 2\n",
        "if a:\n    b\n  c\n",
        "a b\n",
        "a = = b\n",
        "(a]\n",
        "a = 'b\n",
        "a = '''b\n",
        "f'{a'\n",
        "f'{a b}'\n",
        "f'}'\n",
        "x = 1abc\n",
        "x = 08z\n",
        "def f():\n",
        "a ? b\n",
        "return a = b\n",
        "\u{feff}a = 1\n",
        "[*f(x)]\n",
        "a = 1 if b else\n",
        "class A:\n    x =\n",
        "\\",
        "'\\",
        "f(",
    ] {
        assert_eq!(python::outline(text), None, "{text:?}");
    }
}

#[test]
fn hostile_files_cost_no_more_than_their_length() {
    let watch = Stopwatch::start();
    for text in [
        format!("{} = 1\n", vec!["a"; 200_000].join(", ")),
        format!("{} = 1\n", vec!["a"; 200_000].join(" = ")),
        format!("{}a{} = 1\n", "(".repeat(500_000), ")".repeat(500_000)),
        format!("x = {}", "[".repeat(500_000)),
        format!("x = {}", "f'{".repeat(300_000)),
        format!("x = {}", "f'{a:{".repeat(200_000)),
        "a;".repeat(500_000),
        "# c\n".repeat(300_000),
        "lambda: ".repeat(200_000),
        (0..1_000).map(|n| format!("{}if a:\n", " ".repeat(n))).collect(),
        (0..1_000).map(|n| format!("{}class a:\n", " ".repeat(n))).collect(),
        "@a\n".repeat(300_000),
    ] {
        let _ = python::outline(&text);
    }
    assert!(watch.elapsed().as_secs() < 20, "{:?}", watch.elapsed());
}
