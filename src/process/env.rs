//! The environment that children get, and the little that is read from ours.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Where programs are looked for when we have no `PATH` ourselves.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// What every child sees: our `PATH`, a private `HOME` with the XDG folders
/// under it, `TMPDIR`, `LC_CTYPE=C.UTF-8`, `TERM=dumb`, and nothing else. The
/// folders are not made.
#[must_use]
pub fn base_env(home: &Path, tmp: &Path) -> BTreeMap<String, String> {
    let text = |path: PathBuf| path.to_string_lossy().into_owned();
    BTreeMap::from([
        ("PATH".to_owned(), own_path()),
        ("HOME".to_owned(), text(home.to_owned())),
        ("XDG_DATA_HOME".to_owned(), text(home.join(".local/share"))),
        ("XDG_STATE_HOME".to_owned(), text(home.join(".local/state"))),
        ("XDG_CONFIG_HOME".to_owned(), text(home.join(".config"))),
        ("XDG_CACHE_HOME".to_owned(), text(home.join(".cache"))),
        ("TMPDIR".to_owned(), text(tmp.to_owned())),
        // Only what says how bytes are read: order, numbers and messages are those of `C` either way, and a
        // program that is told so by name opens twenty files of its locale at each start.
        ("LC_CTYPE".to_owned(), "C.UTF-8".to_owned()),
        ("TERM".to_owned(), "dumb".to_owned()),
    ])
}

/// The value of a variable of ours that a preset passes on by name, when it is set.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "process reads the environment for the rest")]
pub fn secret(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Our own `PATH`.
#[expect(clippy::disallowed_methods, reason = "process reads the environment for the rest")]
pub(super) fn own_path() -> String {
    std::env::var_os("PATH")
        .map(|path| path.to_string_lossy().into_owned())
        .filter(|path| !path.is_empty())
        .unwrap_or_else(|| DEFAULT_PATH.to_owned())
}

/// Our own `HOME`, which no sandbox opens as a whole.
#[expect(clippy::disallowed_methods, reason = "process reads the environment for the rest")]
pub(super) fn own_home() -> Option<PathBuf> {
    std::env::var_os("HOME").map(PathBuf::from)
}

/// The executable file that `name` means: itself when it holds a slash
/// (relative to `cwd`), else the first one of that name in the folders of `path`.
#[must_use]
pub fn find_program(name: &str, path: &str, cwd: &Path) -> Option<PathBuf> {
    let runnable = |file: &Path| {
        file.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    };
    if name.is_empty() {
        return None;
    }
    if name.contains('/') {
        let file = cwd.join(name);
        return runnable(&file).then_some(file);
    }
    path.split(':').map(|dir| cwd.join(dir).join(name)).find(|file| runnable(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_get_a_private_home_and_little_else() {
        let env = base_env(Path::new("/h"), Path::new("/t"));
        assert_eq!(env["XDG_CACHE_HOME"], "/h/.cache");
        assert_eq!(env["TMPDIR"], "/t");
        assert_eq!(env.len(), 9);
    }

    #[test]
    fn programs_are_found_on_the_given_path_only() {
        let here = Path::new("/");
        assert!(find_program("sh", "/nowhere:/bin", here).is_some());
        assert!(find_program("sh", "/nowhere", here).is_none());
        assert!(find_program("/bin/sh", "", here).is_some());
        assert!(find_program("/bin", "", here).is_none());
        assert!(find_program("", "/bin", here).is_none());
    }
}
