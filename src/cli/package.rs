//! The installed package that a program belongs to.
//!
//! Found by looking at files alone; nothing is started. A program on `PATH` is
//! often a few lines that load a package elsewhere: the package is what
//! decides the answers, so it is what a lock file pins.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::fsio::tree::{self, Entry, Node, Tree, plain};
use crate::fsio::{self, FsError};
use crate::manifest::server::Registry;

/// Largest file that is read as text.
const LARGEST: u64 = 16 << 20;
/// Most files of a package.
const MOST: usize = 200_000;
/// Folders of a package's place that say nothing of what it does.
const SKIPPED: [&str; 8] =
    [".git", ".venv", "venv", "__pycache__", ".proofline", ".mypy_cache", ".pytest_cache", ".ruff_cache"];

/// What a program is part of.
#[derive(Clone, Debug)]
pub(super) struct Installed {
    /// The program's own file, links followed.
    pub(super) program: PathBuf,
    /// The registry's client that manages it; none for a lone file.
    pub(super) registry: Registry,
    /// Name of the package; of a lone file its name.
    pub(super) name: String,
    /// Version; empty for a lone file.
    pub(super) version: String,
    /// What there is to say, e.g. that it is an editable installation.
    pub(super) note: Option<String>,
    files: Files,
}

#[derive(Clone, Debug)]
enum Files {
    /// Only the program.
    One,
    /// A folder, whole.
    Folder(PathBuf),
    /// These files below a folder.
    Listed(PathBuf, Vec<String>),
}

impl Installed {
    /// The installed files as a tree: paths relative to where packages lie,
    /// in order, so that the same package is the same on every machine.
    pub(super) fn tree(&self) -> Result<Tree, FsError> {
        let (root, paths) = match &self.files {
            Files::One => {
                let name = self.program.file_name().unwrap_or_default().to_string_lossy().into_owned();
                let folder = self.program.parent().unwrap_or(Path::new("/"));
                (folder.to_owned(), vec![name])
            }
            Files::Folder(folder) => (folder.clone(), walk(folder)),
            Files::Listed(folder, paths) => (folder.clone(), paths.clone()),
        };
        let mut entries = Vec::new();
        for path in paths {
            let full = root.join(&path);
            let Ok(meta) = full.metadata() else { continue };
            if meta.is_file() {
                let digest = tree::hash_file(&full)?;
                entries.push(Entry { path, node: Node::File { size: meta.len(), exec: false, digest } });
            }
        }
        Ok(Tree { entries })
    }
}

/// The package of a program that was found at `program`; `args` are the words after it.
pub(super) fn of(program: &Path, args: &[String]) -> Installed {
    let real = program.canonicalize().unwrap_or_else(|_| program.to_owned());
    let named = name_of(program);
    if let Some(found) = module(program, &real, &named, args) {
        return found;
    }
    let script =
        args.first().filter(|_| is_runner(&named)).map(PathBuf::from).filter(|path| path.is_absolute());
    let subject = script.and_then(|path| path.canonicalize().ok()).unwrap_or_else(|| real.clone());
    node(&subject)
        .or_else(|| python(program, &subject))
        .or_else(|| if subject == real { None } else { python(&subject, &subject) })
        .unwrap_or_else(|| lone(&subject, &named))
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn is_python(name: &str) -> bool {
    name.strip_prefix("python").is_some_and(|rest| rest.chars().all(|c| c.is_ascii_digit() || c == '.'))
}

/// Programs that run a script which is named after them.
fn is_runner(name: &str) -> bool {
    is_python(name) || matches!(name, "node" | "bun" | "deno" | "ruby" | "sh" | "bash")
}

fn lone(file: &Path, named: &str) -> Installed {
    let note = match named {
        "npx" | "uvx" | "bunx" | "pipx" | "uv" | "docker" => Some(format!(
            "`{named}` decides at each start what it runs, which no lock can pin: install the server and name its own program"
        )),
        name if is_runner(name) => Some(format!("only `{name}` itself is pinned, not what it runs")),
        _ => None,
    };
    Installed {
        program: file.to_owned(),
        registry: Registry::None,
        name: name_of(file),
        version: String::new(),
        note,
        files: Files::One,
    }
}

/// A file below `node_modules/NAME`, or of a linked package.
fn node(file: &Path) -> Option<Installed> {
    let folder = file.ancestors().skip(1).find(|folder| {
        folder.join("package.json").is_file()
            && folder.parent().is_some_and(|above| {
                let scoped = above.file_name().is_some_and(|n| n.to_string_lossy().starts_with('@'));
                let home = if scoped { above.parent() } else { Some(above) };
                home.and_then(Path::file_name).is_some_and(|n| n == "node_modules")
            })
    });
    // `npm link` leads out of node_modules: then a script's own package.json counts.
    let script = file.extension().is_some_and(|e| ["js", "mjs", "cjs", "ts"].iter().any(|s| e == *s));
    let linked = || file.ancestors().skip(1).take(4).find(|f| script && f.join("package.json").is_file());
    let found = folder.or_else(linked)?;
    let bytes = fsio::read_limited(&found.join("package.json"), LARGEST).ok()?;
    let about: Value = serde_json::from_slice(&bytes).ok()?;
    Some(Installed {
        program: file.to_owned(),
        registry: Registry::Npm,
        name: about["name"].as_str().map_or_else(|| name_of(found), str::to_owned),
        version: about["version"].as_str().unwrap_or_default().to_owned(),
        note: folder.is_none().then(|| "linked from a folder of its own".to_owned()),
        files: Files::Folder(found.to_owned()),
    })
}

/// `python -m MODULE`.
fn module(program: &Path, real: &Path, named: &str, args: &[String]) -> Option<Installed> {
    if !is_python(named) {
        return None;
    }
    let at = args.iter().position(|word| word == "-m")?;
    let module = args.get(at + 1)?;
    let head = format!("{}/", module.split('.').next()?);
    let lone = format!("{}.py", head.trim_end_matches('/'));
    for packages in site_packages(program).into_iter().chain(site_packages(real)) {
        for info in dist_infos(&packages) {
            let record = record(&info);
            if record.iter().any(|path| path.starts_with(&head) || *path == lone) {
                return Some(distribution(real, &packages, &info, record));
            }
        }
    }
    None
}

/// A console script of a Python environment, found in a distribution's list of files.
fn python(program: &Path, real: &Path) -> Option<Installed> {
    for place in [real, program] {
        let script = name_of(place);
        for packages in site_packages(place) {
            for info in dist_infos(&packages) {
                let record = record(&info);
                let ends = |path: &String| {
                    path.starts_with("..")
                        && path.rsplit('/').next() == Some(script.as_str())
                        && path.contains("/bin/")
                };
                if record.iter().any(ends) {
                    return Some(distribution(real, &packages, &info, record));
                }
            }
        }
    }
    None
}

/// Where the environment of a program in `PREFIX/bin` keeps its packages.
fn site_packages(program: &Path) -> Vec<PathBuf> {
    let Some(lib) = program.parent().and_then(Path::parent).map(|prefix| prefix.join("lib")) else {
        return Vec::new();
    };
    let mut out: Vec<PathBuf> = std::fs::read_dir(&lib)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("python3"))
        .flat_map(|entry| ["site-packages", "dist-packages"].map(|name| entry.path().join(name)))
        .filter(|folder| folder.is_dir())
        .collect();
    out.sort();
    out
}

fn dist_infos(packages: &Path) -> Vec<PathBuf> {
    let mut out: Vec<PathBuf> = std::fs::read_dir(packages)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|e| e == "dist-info"))
        .collect();
    out.sort();
    out
}

/// Paths of a distribution's RECORD.
fn record(info: &Path) -> Vec<String> {
    let bytes = fsio::read_limited(&info.join("RECORD"), LARGEST).unwrap_or_default();
    // Columns are path, hash and size; a path with a comma in it is quoted.
    String::from_utf8_lossy(&bytes)
        .lines()
        .take(MOST)
        .filter_map(|line| match line.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').map(|(path, _)| path.to_owned()),
            None => line.split_once(',').map(|(path, _)| path.to_owned()),
        })
        .collect()
}

fn distribution(real: &Path, packages: &Path, info: &Path, record: Vec<String>) -> Installed {
    let metadata = fsio::read_limited(&info.join("METADATA"), LARGEST).unwrap_or_default();
    let metadata = String::from_utf8_lossy(&metadata).into_owned();
    let field = |name: &str| {
        let head = metadata.lines().take_while(|line| !line.is_empty());
        head.filter_map(|line| line.strip_prefix(name)).map(str::trim).next().unwrap_or_default().to_owned()
    };
    let direct: Value = fsio::read_limited(&info.join("direct_url.json"), LARGEST)
        .ok()
        .and_then(|bytes| serde_json::from_slice(&bytes).ok())
        .unwrap_or_default();
    let source = direct["url"].as_str().and_then(|url| url.strip_prefix("file://")).map(PathBuf::from);
    let editable = direct["dir_info"]["editable"].as_bool() == Some(true);
    let (files, note) = match source {
        Some(folder) if editable && folder.is_dir() => {
            (Files::Folder(folder), Some("an editable installation: its source folder is pinned".to_owned()))
        }
        _ => {
            let mut paths: Vec<String> = record.into_iter().filter(|path| decides(path)).collect();
            paths.sort();
            paths.dedup();
            (Files::Listed(packages.to_owned(), paths), None)
        }
    };
    let (name, version) = (field("Name:"), field("Version:"));
    Installed { program: real.to_owned(), registry: Registry::Pypi, name, version, note, files }
}

/// Whether a file of a distribution is the same on every machine and says what
/// it does: scripts hold the path of their Python, and the list of files their hashes.
fn decides(path: &str) -> bool {
    let compiled = Path::new(path).extension().is_some_and(|e| e == "pyc");
    let of_the_installation =
        ["RECORD", "RECORD.jws", "RECORD.p7s", "INSTALLER", "REQUESTED", "direct_url.json", "uv_cache.json"];
    let bookkeeping = path.contains(".dist-info/")
        && of_the_installation.iter().any(|name| path.rsplit('/').next() == Some(*name));
    plain(path).is_ok() && !compiled && !bookkeeping
}

/// Regular files of a package's folder, relative to it, in bytewise order.
fn walk(root: &Path) -> Vec<String> {
    let mut out = Vec::new();
    let mut pending = vec![(root.to_owned(), String::new())];
    while let Some((folder, prefix)) = pending.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let (Ok(kind), Ok(name)) = (entry.file_type(), entry.file_name().into_string()) else { continue };
            let path = if prefix.is_empty() { name.clone() } else { format!("{prefix}/{name}") };
            if kind.is_dir() && !SKIPPED.contains(&name.as_str()) {
                pending.push((entry.path(), path));
            } else if kind.is_file() && Path::new(&name).extension().is_none_or(|e| e != "pyc") {
                out.push(path);
            }
        }
        if out.len() > MOST {
            break;
        }
    }
    out.sort_unstable();
    out.truncate(MOST);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(root: &Path, path: &str, text: &str) -> PathBuf {
        let full = root.join(path);
        fsio::write_plain(&full, text.as_bytes()).unwrap();
        full
    }

    #[test]
    fn a_console_script_leads_to_its_distribution() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        let script = put(root, "v/bin/serve", "#!/somewhere/python\n");
        put(root, "v/lib/python3.12/site-packages/serve_mcp/__init__.py", "x = 1\n");
        put(
            root,
            "v/lib/python3.12/site-packages/serve_mcp-2.0.dist-info/METADATA",
            "Metadata-Version: 2.1\nName: serve-mcp\nVersion: 2.0\n\nName: no\n",
        );
        let record = "../../../bin/serve,sha256=a,1\nserve_mcp/__init__.py,sha256=b,6\nserve_mcp/__pycache__/a.pyc,,\nserve_mcp-2.0.dist-info/RECORD,,\nserve_mcp-2.0.dist-info/METADATA,,\n";
        put(root, "v/lib/python3.12/site-packages/serve_mcp-2.0.dist-info/RECORD", record);
        let found = of(&script, &[]);
        assert_eq!(
            (found.registry, found.name.as_str(), found.version.as_str()),
            (Registry::Pypi, "serve-mcp", "2.0")
        );
        let first = found.tree().unwrap();
        let paths: Vec<&str> = first.entries.iter().map(|e| e.path.as_str()).collect();
        assert_eq!(paths, ["serve_mcp-2.0.dist-info/METADATA", "serve_mcp/__init__.py"]);
        // The script says where its Python is, which is no part of the package.
        put(root, "v/bin/serve", "#!/elsewhere/python\n");
        assert_eq!(of(&script, &[]).tree().unwrap().digest(), first.digest());
        put(root, "v/lib/python3.12/site-packages/serve_mcp/__init__.py", "x = 2\n");
        assert_ne!(of(&script, &[]).tree().unwrap().digest(), first.digest());
        // A link to the script, and a run by the module's name, mean the same.
        let link = root.join("serve");
        tree::make_link(&link, &script.to_string_lossy()).unwrap();
        assert_eq!(of(&link, &[]).name, "serve-mcp");
        let python = put(root, "v/bin/python3", "");
        assert_eq!(of(&python, &["-m".to_owned(), "serve_mcp.main".to_owned()]).name, "serve-mcp");
        assert_eq!(of(&python, &[]).registry, Registry::None);
    }

    #[test]
    fn a_bin_of_npm_leads_to_its_package() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        let main = put(root, "lib/node_modules/@probe/serve/build/main.js", "1\n");
        put(
            root,
            "lib/node_modules/@probe/serve/package.json",
            "{\"name\": \"@probe/serve\", \"version\": \"0.6.0\"}",
        );
        fsio::create_dir(&root.join("bin")).unwrap();
        tree::make_link(&root.join("bin/serve"), &main.to_string_lossy()).unwrap();
        let found = of(&root.join("bin/serve"), &[]);
        assert_eq!(
            (found.registry, found.name.as_str(), found.version.as_str()),
            (Registry::Npm, "@probe/serve", "0.6.0")
        );
        assert_eq!(found.tree().unwrap().entries.len(), 2);
        let node = put(root, "bin/node", "");
        assert_eq!(of(&node, &[main.to_string_lossy().into_owned()]).name, "@probe/serve");
    }

    #[test]
    fn anything_else_is_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = put(dir.path(), "bin/tool", "binary");
        let found = of(&file, &[]);
        assert_eq!((found.registry, found.name.as_str()), (Registry::None, "tool"));
        assert_eq!(found.tree().unwrap().entries.len(), 1);
        let npx = put(dir.path(), "bin/npx", "");
        assert!(of(&npx, &["x".to_owned()]).note.unwrap().contains("npx"));
    }
}
