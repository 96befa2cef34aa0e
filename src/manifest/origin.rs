//! Where a corpus comes from, and how a command line says so.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::server::Registry;

/// Where a corpus comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Compiled into the program, by name.
    Embedded(String),
    /// A folder.
    Folder(PathBuf),
    /// A local git repository at a commit (a full or short hash, or a tag).
    Checkout {
        /// The repository.
        path: PathBuf,
        /// The commit.
        commit: String,
    },
    /// What citations are held against: a local git repository at a commit's id, or a folder's files as
    /// they are. What can't be taken of it is passed over.
    Cited {
        /// The repository or folder.
        path: PathBuf,
        /// Id of the commit, 4 to 40 hex digits; none: the files as they are.
        commit: Option<String>,
    },
    /// A git address at a commit.
    Git {
        /// The address; https only.
        url: String,
        /// The commit, 40 hex digits.
        commit: String,
    },
    /// A registry's archive.
    Archive {
        /// Which registry's client.
        registry: Registry,
        /// Name of the package.
        name: String,
        /// Version.
        version: String,
        /// SHA-256 of the archive, hex; none when the user named the source by `--set`.
        sha256: Option<String>,
    },
    /// A `.tar.gz`, `.tgz` or `.crate` file.
    File(PathBuf),
}

/// A description that names no source.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// Nothing was written.
    #[error("the source is empty; {FORMS}")]
    Nothing,
    /// A registry form without an exact version.
    #[error("`{0}` names no exact version; write {1}")]
    NoVersion(String, &'static str),
    /// A name that the registry cannot hold.
    #[error("`{0}` is no package name of {1}")]
    BadName(String, &'static str),
    /// A git form without a commit.
    #[error("`{0}` names no commit; write git:URL@COMMIT")]
    NoCommit(String),
    /// A commit that is none.
    #[error("`{0}` is no commit: {1}")]
    BadCommit(String, &'static str),
    /// An address that is not fetched from.
    #[error("git address `{0}` is not supported: {1}")]
    BadUrl(String, &'static str),
    /// A folder that leaves the source.
    #[error("subdir `{0}` is not a plain path inside the source")]
    BadSubdir(String),
    /// A pin that is none.
    #[error("`{0}` is no SHA-256 of 64 lower-case hex digits")]
    BadPin(String),
}

/// The forms of a source, for messages.
pub const FORMS: &str = "write a folder's or a .tar.gz file's PATH, PATH@COMMIT for a local checkout, pypi:NAME==VERSION, npm:NAME@VERSION, crate:NAME@VERSION or git:URL@COMMIT";

/// Reads the right side of `--set corpus.NAME=...`; a relative path starts
/// from `cwd`. Only to tell `PATH@COMMIT` from a path with an `@` in it is it
/// looked up whether the path exists.
///
/// # Errors
/// When the text is none of [`FORMS`].
pub fn parse_set(text: &str, cwd: &Path) -> Result<Source, SourceError> {
    let text = text.trim();
    if text.is_empty() {
        return Err(SourceError::Nothing);
    }
    if let Some(spec) = text.strip_prefix("pypi:") {
        return archive(Registry::Pypi, spec, None);
    }
    if let Some(spec) = text.strip_prefix("npm:") {
        return archive(Registry::Npm, spec, None);
    }
    if let Some(spec) = text.strip_prefix("crate:") {
        return archive(Registry::Crate, spec, None);
    }
    if let Some(spec) = text.strip_prefix("git:") {
        return git(spec, cwd);
    }
    let path = cwd.join(text);
    if let Some((place, commit)) = text.rsplit_once('@')
        && !(place.is_empty() || place.ends_with('/') || commit.contains('/') || path.exists())
    {
        check_revision(commit)?;
        return Ok(Source::Checkout { path: cwd.join(place), commit: commit.to_owned() });
    }
    Ok(if is_archive_name(text) { Source::File(path) } else { Source::Folder(path) })
}

/// A registry's archive from `NAME==VERSION` (PyPI) or `NAME@VERSION` (npm, crates).
///
/// # Errors
/// When the name or version is not exact and plain, or the pin is no SHA-256.
pub fn archive(registry: Registry, spec: &str, sha256: Option<&str>) -> Result<Source, SourceError> {
    let (separator, form, place) = match registry {
        Registry::Pypi => ("==", "pypi:NAME==VERSION", "PyPI"),
        Registry::Npm => ("@", "npm:NAME@VERSION", "npm"),
        Registry::Crate | Registry::None => ("@", "crate:NAME@VERSION", "crates"),
    };
    let unversioned = || SourceError::NoVersion(spec.to_owned(), form);
    let (name, version) = spec.rsplit_once(separator).ok_or_else(unversioned)?;
    let (name, version) = (name.trim(), version.trim());
    // An exact version starts with a digit; tags such as `latest` and ranges are refused.
    let exact = version.starts_with(|c: char| c.is_ascii_digit())
        && version.len() <= 100
        && version.chars().all(|c| c.is_ascii_alphanumeric() || "._+-!".contains(c));
    // `crate:x@1` would be a range for cargo: three numbers make it exact.
    let exact = exact && (registry == Registry::Pypi || version.split('.').count() >= 3);
    if name.is_empty() || !exact {
        return Err(unversioned());
    }
    if !good_name(registry, name) {
        return Err(SourceError::BadName(name.to_owned(), place));
    }
    if let Some(pin) = sha256 {
        check_pin(pin)?;
    }
    Ok(Source::Archive {
        registry,
        name: name.to_owned(),
        version: version.to_owned(),
        sha256: sha256.map(str::to_owned),
    })
}

fn good_name(registry: Registry, name: &str) -> bool {
    let plain = |part: &str, more: &str| {
        part.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
            && part.chars().all(|c| c.is_ascii_alphanumeric() || more.contains(c))
    };
    if name.len() > 214 {
        return false;
    }
    match registry {
        Registry::Npm => match name.strip_prefix('@') {
            Some(scoped) => scoped.split_once('/').is_some_and(|(s, n)| plain(s, "-._~") && plain(n, "-._~")),
            None => plain(name, "-._~"),
        },
        Registry::Pypi => plain(name, "-._"),
        Registry::Crate | Registry::None => plain(name, "-_"),
    }
}

fn git(spec: &str, cwd: &Path) -> Result<Source, SourceError> {
    let (place, commit) = spec.rsplit_once('@').ok_or_else(|| SourceError::NoCommit(spec.to_owned()))?;
    // `git:https://user@host/x` has an `@`, but no commit behind it.
    if place.is_empty() || commit.is_empty() || commit.contains("://") || commit.contains(':') {
        return Err(SourceError::NoCommit(spec.to_owned()));
    }
    let local = place.strip_prefix("file://").unwrap_or(place);
    if local.contains("://") {
        check_url(place)?;
        check_commit(commit)?;
        return Ok(Source::Git { url: place.to_owned(), commit: commit.to_owned() });
    }
    if local.contains(':') && !local.starts_with(['/', '.']) {
        return Err(SourceError::BadUrl(place.to_owned(), "only https addresses are fetched from"));
    }
    check_revision(commit)?;
    Ok(Source::Checkout { path: cwd.join(local), commit: commit.to_owned() })
}

/// Checks a git address: https, no credentials, nothing that a shell or git could take for an option.
///
/// # Errors
/// With the reason.
pub(crate) fn check_url(url: &str) -> Result<(), SourceError> {
    let bad = |why| Err(SourceError::BadUrl(url.to_owned(), why));
    let Some(rest) = url.strip_prefix("https://") else {
        return bad("only https addresses are fetched from");
    };
    let host = rest.split('/').next().unwrap_or_default();
    if host.contains('@') {
        // The address is printed in reports and kept in the store.
        return Err(SourceError::BadUrl("https://...".to_owned(), "it holds credentials"));
    }
    if host.is_empty() || url.len() > 2000 || url.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return bad("it is malformed");
    }
    Ok(())
}

/// Checks a full commit hash.
///
/// # Errors
/// When it is not 40 lower-case hex digits.
pub(crate) fn check_commit(commit: &str) -> Result<(), SourceError> {
    if commit.len() == 40 && is_hex(commit) {
        return Ok(());
    }
    Err(SourceError::BadCommit(
        commit.to_owned(),
        "a commit of another machine is pinned by its 40 hex digits",
    ))
}

/// Checks a revision of a local repository: a hash, tag or branch, no expression.
///
/// # Errors
/// When it holds other characters than such names do.
pub(crate) fn check_revision(commit: &str) -> Result<(), SourceError> {
    let plain = commit.starts_with(|c: char| c.is_ascii_alphanumeric())
        && commit.len() <= 200
        && !commit.contains("..")
        && commit.chars().all(|c| c.is_ascii_alphanumeric() || "._/+-".contains(c));
    if plain { Ok(()) } else { Err(SourceError::BadCommit(commit.to_owned(), "write a hash or a tag")) }
}

/// Checks a pin.
///
/// # Errors
/// When it is not 64 lower-case hex digits.
pub(crate) fn check_pin(pin: &str) -> Result<(), SourceError> {
    if pin.len() == 64 && is_hex(pin) { Ok(()) } else { Err(SourceError::BadPin(pin.to_owned())) }
}

/// Whether a text is a commit's id, whole or shortened: names of branches and tags move.
#[must_use]
pub fn is_commit_id(text: &str) -> bool {
    (4..=40).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_hexdigit())
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

/// Whether a path's name is that of a packed source tree.
#[must_use]
pub fn is_archive_name(path: &str) -> bool {
    let lower = path.to_ascii_lowercase();
    [".tar.gz", ".tgz", ".crate"].iter().any(|end| lower.ends_with(end))
}

impl Source {
    /// What identifies the content, independent of the machine; none for what
    /// is identified by its content alone (folders, files, embedded ones).
    pub(crate) fn identity(&self) -> Option<Value> {
        match self {
            Self::Git { commit, .. } => Some(json!({ "git": commit })),
            Self::Archive { registry, name, version, .. } => {
                Some(json!({ "registry": registry, "name": name, "version": version }))
            }
            Self::Checkout { .. }
            | Self::Cited { .. }
            | Self::Embedded(_)
            | Self::Folder(_)
            | Self::File(_) => None,
        }
    }

    /// The source in words, without a path of this machine.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::Embedded(name) => format!("embedded corpus {name}"),
            Self::Folder(path) | Self::Cited { path, commit: None } => format!("folder {}", last_name(path)),
            Self::File(path) => format!("archive {}", last_name(path)),
            Self::Checkout { path, commit } | Self::Cited { path, commit: Some(commit) } => {
                format!("local git repository {} at {commit}", last_name(path))
            }
            Self::Git { url, commit } => format!("{url} at {commit}"),
            Self::Archive { registry, name, version, .. } => {
                let kind = match registry {
                    Registry::Pypi => "source distribution",
                    Registry::Npm => "npm package",
                    Registry::Crate | Registry::None => "crate",
                };
                format!("{name} {version} {kind}")
            }
        }
    }
}

/// The last component of a path, for people: reports say nothing of the folders above.
pub(crate) fn last_name(path: &Path) -> String {
    path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_hex_digits_are_an_id() {
        for good in ["abcd", "0123456789abcdef0123456789abcdef01234567", "DEADBEEF"] {
            assert!(is_commit_id(good), "{good}");
        }
        for bad in ["", "HEAD", "main", "abc", "v1.0", "abcd~1", "0123456789abcdef0123456789abcdef012345678"]
        {
            assert!(!is_commit_id(bad), "{bad}");
        }
    }

    #[test]
    fn every_form_is_read() {
        let archive = |registry, name: &str, version: &str| Source::Archive {
            registry,
            name: name.into(),
            version: version.into(),
            sha256: None,
        };
        let commit = "0123456789abcdef0123456789abcdef01234567";
        for (text, wanted) in [
            ("pypi:flask==3.1.0", archive(Registry::Pypi, "flask", "3.1.0")),
            ("npm:express@5.0.1", archive(Registry::Npm, "express", "5.0.1")),
            ("npm:@scope/a.b@1.0.0-rc.1", archive(Registry::Npm, "@scope/a.b", "1.0.0-rc.1")),
            ("crate:ripgrep@14.1.0", archive(Registry::Crate, "ripgrep", "14.1.0")),
            ("../flask", Source::Folder("../flask".into())),
            ("modules/@types", Source::Folder("modules/@types".into())),
            ("../flask@v3", Source::Checkout { path: "../flask".into(), commit: "v3".into() }),
            ("a/flask-3.1.0.tar.gz", Source::File("a/flask-3.1.0.tar.gz".into())),
            (
                &format!("git:https://example.org/a.git@{commit}"),
                Source::Git { url: "https://example.org/a.git".into(), commit: commit.into() },
            ),
            ("git:/r/a@v1.0", Source::Checkout { path: "/r/a".into(), commit: "v1.0".into() }),
            ("git:file:///r/a@v1.0", Source::Checkout { path: "/r/a".into(), commit: "v1.0".into() }),
            ("git:../a@abc123", Source::Checkout { path: "../a".into(), commit: "abc123".into() }),
        ] {
            assert_eq!(parse_set(text, Path::new("")).unwrap(), wanted, "{text}");
        }
    }

    #[test]
    fn other_texts_are_refused_with_a_way_out() {
        let commit = "0123456789abcdef0123456789abcdef01234567";
        for text in [
            "",
            "pypi:flask",
            "pypi:flask>=3",
            "pypi:flask==latest",
            "pypi:flask[async]==3.1.0",
            "pypi:-r==1",
            "pypi:flask==3.1.0 --index",
            "npm:express@latest",
            "npm:express@^5",
            "npm:../x@1.0.0",
            "crate:x@1",
            "git:https://example.org/a.git",
            "git:https://example.org/a.git@main",
            &format!("git:http://example.org/a.git@{commit}"),
            &format!("git:ssh://example.org/a.git@{commit}"),
            &format!("git:git@example.org:a.git@{commit}"),
            &format!("git:ext::sh -c x@{commit}"),
            &format!("git:https://u:p@example.org/a@{commit}"),
            "git:/r/a@--upload-pack=x",
            "git:/r/a@HEAD~1",
        ] {
            let error = parse_set(text, Path::new("")).unwrap_err().to_string();
            assert!(error.len() > 10, "{text}: {error}");
        }
        let hidden =
            parse_set(&format!("git:https://u:p4ss@example.org/a@{commit}"), Path::new("")).unwrap_err();
        assert!(!hidden.to_string().contains("p4ss"));
    }
}
