//! Hand-written expectations for each language.

use tree_sitter::{Query, QueryCursor, StreamingIterator};

use super::*;

/// `kind container.name@line` of all definitions.
pub(super) fn seen(path: &str, text: &str) -> Vec<String> {
    let one = |s: Symbol| {
        let container = s.container.map(|c| format!("{c}.")).unwrap_or_default();
        format!("{} {container}{}@{}", s.kind.as_str(), s.name, s.line)
    };
    definitions(path, text).unwrap().into_iter().map(one).collect()
}

fn calls(path: &str, text: &str) -> Vec<String> {
    let one = |u: Use| format!("{}<{}", u.name, u.enclosing.unwrap_or_default());
    references(path, text).unwrap().into_iter().filter(|u| u.call).map(one).collect()
}

const PYTHON: &str = r#"
"""hidden_in_docstring"""
import os  # hidden_in_comment
LIMIT, other = 3, 4
type Pair = tuple[int, int]
try:
    import json
except ImportError:
    json = None

class App(Base):
    debug: bool = False
    @property
    def name(self):
        local = 1
        return helper(local).strip()

    class Inner: pass

async def helper(x, *, y=LIMIT):
    def nested(): return os.getcwd()
    square = lambda v: v
    return f"{nested()} hidden_in_string"
"#;

#[test]
fn python() {
    assert_eq!(
        seen("a.py", PYTHON),
        [
            "variable LIMIT@4",
            "variable other@4",
            "type Pair@5",
            "variable json@9",
            "class App@11",
            "field App.debug@12",
            "method App.name@14",
            "class App.Inner@18",
            "function helper@20",
            "function helper.nested@21",
        ]
    );
    assert_eq!(calls("a.py", PYTHON), ["helper<name", "strip<name", "getcwd<nested", "nested<helper"]);
    let names: Vec<String> = code_identifiers("a.py", PYTHON).unwrap().into_iter().map(|n| n.0).collect();
    assert!(names.iter().all(|n| !n.starts_with("hidden")));
    assert!(names.contains(&"local".to_owned()) && names.contains(&"getcwd".to_owned()));
    let app = &definitions("a.py", PYTHON).unwrap()[4];
    assert_eq!((app.end_line, &PYTHON[app.start..app.start + 9]), (18, "class App"));
}

const JAVASCRIPT: &str = r"
// hidden
const LIMIT = 3, run = async () => { const inner = 1; work(inner); };
var { unpacked } = require('x');
class Box extends Base {
  #secret = 1;
  constructor(a) { super(a); this.size = a; }
  static make() { return new Box(1); }
}
function* walk() { yield* walk(); }
exports.send = function send(body) { return this.end(body); };
res.alias = res.send;
const api = { get: () => fetch('hidden'), plain: 3 };
export const Panel = () => <Frame title='hidden'><Item /></Frame>;
export default class Shape {}
describe('x', function () { const local = 2; function deep() {} });
";

#[test]
fn javascript() {
    assert_eq!(
        seen("a.jsx", JAVASCRIPT),
        [
            "variable LIMIT@3",
            "function run@3",
            "class Box@5",
            "field Box.secret@6",
            "method Box.constructor@7",
            "method Box.make@8",
            "function walk@10",
            "function send@11",
            "function send.send@11",
            "variable api@13",
            "function api.get@13",
            "function Panel@14",
            "class Shape@15",
            "function deep@16",
        ]
    );
    assert_eq!(
        calls("a.jsx", JAVASCRIPT),
        [
            "work<run",
            "require<",
            "Box<make",
            "walk<walk",
            "end<send",
            "fetch<get",
            "Frame<Panel",
            "Item<Panel",
            "describe<",
        ]
    );
}

const TYPESCRIPT: &str = r"
export interface Store<T> { size: number; get(key: string): T }
export type Key = string | symbol;
export enum Color { Red, Green = 2 }
declare function ambient(x: number): void;
namespace Deep { export const inside = 1; }
abstract class Base { abstract go(): void; private count = 0; }
export class Memory<T> extends Base implements Store<T> {
  constructor(readonly map: Map<string, T>) { super(); }
  get(key: string): T { return this.map.get(key)!; }
  go = () => ambient(1);
}
export const make = <T,>(): Store<T> => new Memory<T>(new Map());
function typed(this: Store<number>) {}
";

#[test]
fn typescript() {
    let expected = [
        "interface Store@2",
        "field Store.size@2",
        "method Store.get@2",
        "type Key@3",
        "enum Color@4",
        "variant Color.Red@4",
        "variant Color.Green@4",
        "function ambient@5",
        "module Deep@6",
        "variable Deep.inside@6",
        "class Base@7",
        "method Base.go@7",
        "field Base.count@7",
        "class Memory@8",
        "method Memory.constructor@9",
        "method Memory.get@10",
        "field Memory.go@11",
        "function make@13",
        "function typed@14",
    ];
    assert_eq!(seen("a.ts", TYPESCRIPT), expected);
    assert_eq!(seen("a.tsx", TYPESCRIPT), expected);
    assert_eq!(calls("a.ts", TYPESCRIPT), ["get<get", "ambient<go", "Memory<make", "Map<make"]);
}

const GO: &str = r#"
package store // hidden

import "fmt"

const Limit, other = 3, 4
var (
	cache map[string]int
	count = 1
)
type Key string
type Alias = Key
type Box[T any] struct { Size int; inner T }
type Walker interface { Walk(n int) error }
func (b *Box[T]) Open() error { const local = 1; return fmt.Errorf("hidden %d", local) }
func Run(b Box[int]) { var x = b.Open(); helper(x) }
"#;

#[test]
fn go() {
    assert_eq!(
        seen("a.go", GO),
        [
            "constant Limit@6",
            "constant other@6",
            "variable cache@8",
            "variable count@9",
            "type Key@11",
            "type Alias@12",
            "struct Box@13",
            "field Box.Size@13",
            "field Box.inner@13",
            "interface Walker@14",
            "method Walker.Walk@14",
            "method Box.Open@15",
            "function Run@16",
        ]
    );
    assert_eq!(calls("a.go", GO), ["Errorf<Open", "Open<Run", "helper<Run"]);
}

const RUST: &str = r#"
/// hidden
pub const LIMIT: usize = 3;
static NAME: &str = "hidden";
pub struct Box<T> { pub size: T }
enum Color { Red, Green(u8) }
trait Walk { type Item; const N: u8 = 1; fn walk(&self) -> Self::Item; }
impl<T> Walk for crate::Box<T> { type Item = T; fn walk(&self) -> T { helper::<T>(1) } }
impl Color { pub fn new() -> Self { Color::make(); let v = Point { x: 1 }; Self::Red } }
mod inner { pub fn deep() { println!("{}", super::LIMIT); } }
macro_rules! shout { () => {} }
type Short = Box<u8>;
union Raw { a: u8 }
fn main() { let shadow = |x: u8| x; fn local() {} }
"#;

#[test]
fn rust() {
    assert_eq!(
        seen("a.rs", RUST),
        [
            "constant LIMIT@3",
            "constant NAME@4",
            "struct Box@5",
            "field Box.size@5",
            "enum Color@6",
            "variant Color.Red@6",
            "variant Color.Green@6",
            "trait Walk@7",
            "type Walk.Item@7",
            "constant Walk.N@7",
            "method Walk.walk@7",
            "type Box.Item@8",
            "method Box.walk@8",
            "method Color.new@9",
            "module inner@10",
            "function inner.deep@10",
            "macro shout@11",
            "type Short@12",
            "union Raw@13",
            "field Raw.a@13",
            "function main@14",
            "function main.local@14",
        ]
    );
    assert_eq!(calls("a.rs", RUST), ["helper<walk", "make<new", "Point<new", "println<deep"]);
}

const JAVA: &str = r#"
package a.b;
@Deprecated
public class Box<T> extends Base implements Walk {
  private static final int LIMIT = 3, OTHER = 4; // hidden
  Box(int size) { int local = size; }
  @Override public void walk() { new Box<Integer>(helper(LIMIT)); this.run("hidden"); }
  enum Color { RED, GREEN { void paint() {} } }
  record Pair(int a, int b) { Pair { check(a); } }
}
interface Walk { int MAX = 1; void walk(); }
@interface Mark { String value() default "hidden"; }
"#;

#[test]
fn java() {
    assert_eq!(
        seen("A.java", JAVA),
        [
            "class Box@4",
            "field Box.LIMIT@5",
            "field Box.OTHER@5",
            "method Box.Box@6",
            "method Box.walk@7",
            "enum Box.Color@8",
            "variant Color.RED@8",
            "variant Color.GREEN@8",
            "method GREEN.paint@8",
            "class Box.Pair@9",
            "method Pair.Pair@9",
            "interface Walk@11",
            "constant Walk.MAX@11",
            "method Walk.walk@11",
            "interface Mark@12",
            "method Mark.value@12",
        ]
    );
    assert_eq!(calls("A.java", JAVA), ["Box<walk", "helper<walk", "run<walk", "check<Pair"]);
}

const RUBY: &str = r#"
# hidden
module Store
  LIMIT = 3
  class Box < Base
    attr_accessor :size, :color
    Name = Struct.new(:a)
    def initialize(size)
      @size = size
      local = helper(size)
    end
    def size=(v); end
    def self.make(*args) = new(*args)
    alias old make
    define_method(:dynamic) { walk }
    def ==(other) = true
  end
  class Deep::Nested; end
end
puts "hidden #{Store::Box.make(1)}"
"#;

#[test]
fn ruby() {
    assert_eq!(
        seen("a.rb", RUBY),
        [
            "module Store@3",
            "constant Store.LIMIT@4",
            "class Store.Box@5",
            "field Box.size@6",
            "field Box.color@6",
            "constant Box.Name@7",
            "method Box.initialize@8",
            "method Box.size@12",
            "method Box.make@13",
            "method Box.old@14",
            "method Box.dynamic@15",
            "method Box.==@16",
            "class Store.Nested@18",
        ]
    );
    let calls = calls("a.rb", RUBY);
    assert!(calls.contains(&"helper<initialize".to_owned()), "{calls:?}");
    assert!(calls.contains(&"make<".to_owned()), "{calls:?}");
    let names: Vec<String> = code_identifiers("a.rb", RUBY).unwrap().into_iter().map(|n| n.0).collect();
    assert!(!names.contains(&"hidden".to_owned()));
}

const C_CODE: &str = r#"
#ifndef BOX_H
#define LIMIT 3
#define WRAP(x) helper(x, "hidden") /* hidden */
typedef struct node { int size; void (*visit)(int depth); } node_t;
enum color { RED, GREEN = 2 };
union raw { int a; };
struct forward;
static const char *names[] = { "hidden" };
int (*callback)(int);
int open_box(struct node *n, int flags);
struct node *make(int n)
{
    int local = n;
    struct node *p = alloc_box(n);
    p->visit(local);
    return p;
}
#endif
"#;

#[test]
fn c() {
    assert_eq!(
        seen("a.h", C_CODE),
        [
            "macro LIMIT@3",
            "macro WRAP@4",
            "struct node@5",
            "field node.size@5",
            "field node.visit@5",
            "type node_t@5",
            "enum color@6",
            "variant color.RED@6",
            "variant color.GREEN@6",
            "union raw@7",
            "field raw.a@7",
            "variable names@9",
            "variable callback@10",
            "declaration open_box@11",
            "function make@12",
        ]
    );
    assert_eq!(calls("a.h", C_CODE), ["helper<WRAP", "alloc_box<make", "visit<make"]);
    let names: Vec<String> = code_identifiers("a.h", C_CODE).unwrap().into_iter().map(|n| n.0).collect();
    assert!(!names.contains(&"hidden".to_owned()));
}

const CPP: &str = r"
namespace deep::er {
class Forward;
template <typename T> class Box : public Base {
public:
  explicit Box(int n);
  ~Box();
  int size() const { return helper(n_); }
  bool operator==(const Box &o) const;
  static Box &make();
private:
  int n_ = 0;
};
using Short = Box<int>;
enum class Color { Red };
}
template <typename T> int deep::Box<T>::grow(int by) { auto f = [](int q) { int inner = q; return inner; }; return by; }
Box::~Box() { delete new Thing(1); ns::run<int>(2); }
int Box::count = 3;
";

#[test]
fn cpp() {
    assert_eq!(
        seen("a.cpp", CPP),
        [
            "module deep@2",
            "module er@2",
            "class er.Box@4",
            "declaration Box.Box@6",
            "declaration Box.~Box@7",
            "method Box.size@8",
            "declaration Box.operator==@9",
            "declaration Box.make@10",
            "field Box.n_@12",
            "type er.Short@14",
            "enum er.Color@15",
            "variant Color.Red@15",
            "method Box.grow@17",
            "method Box.~Box@18",
            "field Box.count@19",
        ]
    );
    let calls = calls("a.cpp", CPP);
    assert_eq!(calls, ["helper<size", "Thing<~Box", "run<~Box"]);
}

const CSHARP: &str = r#"
namespace App.Core; // hidden
public delegate void Done(int n);
public class Box<T> : Base, IWalk {
  private const int Limit = 3;
  public event Done Finished;
  public string Name { get; set; } = "hidden";
  public Box(int n) { var local = n; Run(n); }
  ~Box() {}
  public T Get<T>(int k) => this.inner.Load<T>(k);
  void Outer() { int Inner(int q) => q; other?.Call(); new Thing(); }
}
interface IWalk { void Walk(); }
enum Color { Red, Green }
record Pair(int A, int B);
struct Point { public int X; }
"#;

#[test]
fn csharp() {
    assert_eq!(
        seen("a.cs", CSHARP),
        [
            "module Core@2",
            "type Done@3",
            "class Box@4",
            "field Box.Limit@5",
            "field Box.Finished@6",
            "property Box.Name@7",
            "method Box.Box@8",
            "method Box.Box@9",
            "method Box.Get@10",
            "method Box.Outer@11",
            "function Outer.Inner@11",
            "interface IWalk@13",
            "method IWalk.Walk@13",
            "enum Color@14",
            "variant Color.Red@14",
            "variant Color.Green@14",
            "class Pair@15",
            "struct Point@16",
            "field Point.X@16",
        ]
    );
    assert_eq!(calls("a.cs", CSHARP), ["Run<Box", "Load<Get", "Call<Outer", "Thing<Outer"]);
}

const PHP: &str = r#"<?php
namespace App\Core; // hidden
const LIMIT = 3, OTHER = LIMIT;
interface Walk { public function walk(): void; }
trait Loud { private $volume = 1; }
final class Box extends Base implements Walk {
  use Loud;
  const A = 1;
  public static ?int $size = 2;
  public function __construct(private int $n) { $local = helper($n); }
  public function walk(): void { $this->run("hidden $local"); self::make(); new Thing(); }
}
enum Color: string { case Red = 'hidden'; }
function helper(int $x) { return strlen('hidden'); }
"#;

#[test]
fn php() {
    assert_eq!(
        seen("a.php", PHP),
        [
            "constant LIMIT@3",
            "constant OTHER@3",
            "interface Walk@4",
            "method Walk.walk@4",
            "trait Loud@5",
            "property Loud.volume@5",
            "class Box@6",
            "constant Box.A@8",
            "property Box.size@9",
            "method Box.__construct@10",
            "property __construct.n@10",
            "method Box.walk@11",
            "enum Color@13",
            "variant Color.Red@13",
            "function helper@14",
        ]
    );
    assert_eq!(
        calls("a.php", PHP),
        ["helper<__construct", "run<walk", "make<walk", "Thing<walk", "strlen<helper"]
    );
}

pub(super) const SAMPLES: [(&str, &str); 12] = [
    ("a.py", PYTHON),
    ("a.jsx", JAVASCRIPT),
    ("a.ts", TYPESCRIPT),
    ("a.tsx", TYPESCRIPT),
    ("a.go", GO),
    ("a.rs", RUST),
    ("A.java", JAVA),
    ("a.rb", RUBY),
    ("a.h", C_CODE),
    ("a.cpp", CPP),
    ("a.cs", CSHARP),
    ("a.php", PHP),
];

/// The grammars' own queries are the measure: whatever they call a definition
/// must be one here, but for the listed exceptions.
#[test]
fn all_that_a_tags_query_finds_is_found() {
    let js = tree_sitter_javascript::TAGS_QUERY;
    let ts = format!("{js}\n{}", tree_sitter_typescript::TAGS_QUERY);
    // `(comment)* @doc` doesn't change what is defined.
    let queries: [(&str, &str); 12] = [
        ("a.py", tree_sitter_python::TAGS_QUERY),
        ("a.jsx", js),
        ("a.ts", &ts),
        ("a.tsx", &ts),
        ("a.go", tree_sitter_go::TAGS_QUERY),
        ("a.rs", tree_sitter_rust::TAGS_QUERY),
        ("A.java", tree_sitter_java::TAGS_QUERY),
        ("a.rb", tree_sitter_ruby::TAGS_QUERY),
        ("a.h", tree_sitter_c::TAGS_QUERY),
        ("a.cpp", tree_sitter_cpp::TAGS_QUERY),
        ("a.cs", tree_sitter_c_sharp::TAGS_QUERY),
        ("a.php", tree_sitter_php::TAGS_QUERY),
    ];
    let mut checked = 0;
    for ((path, query), (_, text)) in queries.into_iter().zip(SAMPLES) {
        let language = language_of(path).unwrap();
        let tree = grammar::parse(text, language, Budget::default()).unwrap();
        let query = Query::new(language.grammar(), query).unwrap();
        let ours = definitions(path, text).unwrap();
        let mut cursor = QueryCursor::new();
        let mut matches = cursor.matches(&query, tree.root_node(), text.as_bytes());
        while let Some(found) = matches.next() {
            let named =
                |c: &&tree_sitter::QueryCapture<'_>| query.capture_names()[c.index as usize] == "name";
            let defines = found
                .captures()
                .iter()
                .any(|c| query.capture_names()[c.index as usize].starts_with("definition"));
            let Some(name) = found.captures().iter().find(named).filter(|_| defines) else { continue };
            let line = name.node.start_position().row as u64 + 1;
            let word = text[name.node.byte_range()].trim_start_matches(':');
            let word = if word.starts_with(char::is_alphabetic) { word.trim_end_matches('=') } else { word };
            // PHP's namespace is a path, not a name; `class X;` only mentions.
            if name.node.kind() == "namespace_name" || word == "Forward" {
                continue;
            }
            let found = ours.iter().any(|s| s.line == line && s.name == word);
            assert!(found, "{path}:{line}: {word}");
            checked += 1;
        }
    }
    assert!(checked >= 90, "{checked}");
}
