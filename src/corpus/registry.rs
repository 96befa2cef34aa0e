//! Archives from package registries, by the registries' own clients, without
//! running anything of the package.
//!
//! - **PyPI**: pip would run a source distribution's build code to learn its
//!   metadata, also for `pip download`. A small program (`sdist.py`) runs
//!   pip's finder and downloader and stops before that step; an audit hook
//!   refuses to start any process. The bytes are those that pip verified
//!   against the index. It refuses a pip whose internals it does not know.
//! - **npm**: `npm pack NAME@VERSION --ignore-scripts` writes the registry's
//!   tarball as it is.
//! - **crates**: `cargo info NAME@VERSION` fetches the `.crate` file to read
//!   its manifest, and nothing that it depends on; it is taken from the cache
//!   of a private `CARGO_HOME`. Needs cargo 1.82.
//!
//! Each runs in a private home, with the proxy and certificate variables and
//! the client's own settings (files of the user's home, variables) that say
//! where its registry is, so that mirrors work. Variables that hold only
//! secrets are not passed.

use std::fs;
use std::path::{Path, PathBuf};

use super::client::{self, Call};
use super::error::CorpusError;
use crate::fsio;
use crate::manifest::server::Registry;

const SDIST: &str = include_str!("sdist.py");
const NO_PIP: i32 = 90;
const UNKNOWN_PIP: i32 = 91;
/// A package that asks a registry's client where it is; cargo wants one around.
const CARGO_TOML: &str = "[package]\nname = \"fetch\"\nversion = \"0.0.0\"\nedition = \"2021\"\n\n[lib]\npath = \"lib.rs\"\n\n[workspace]\n";

/// Downloads an archive into `scratch`; its path.
pub(crate) fn fetch(
    registry: Registry,
    name: &str,
    version: &str,
    what: &str,
    scratch: &Path,
) -> Result<PathBuf, CorpusError> {
    let home = Call::home(scratch);
    let cwd = Call::cwd(scratch);
    fsio::create_dir(&home)?;
    fsio::create_dir(&cwd)?;
    match registry {
        Registry::Pypi => pypi(name, version, what, scratch, &home),
        Registry::Npm => npm(name, version, what, scratch, &home, &cwd),
        Registry::Crate => krate(name, version, what, scratch, &home, &cwd),
        Registry::None => Err(CorpusError::Client {
            program: "no client",
            what: what.to_owned(),
            said: "the source names no registry".to_owned(),
        }),
    }
}

fn pypi(name: &str, version: &str, what: &str, scratch: &Path, home: &Path) -> Result<PathBuf, CorpusError> {
    let script = scratch.join("sdist.py");
    fsio::write_plain(&script, SDIST.as_bytes())?;
    let out = scratch.join("out");
    fsio::create_dir(&out)?;
    if let Some(user) = client::user_home() {
        client::lend(&user, home, &[".config/pip/pip.conf", ".pip/pip.conf", ".netrc"])?;
    }
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let call = Call {
        program: "pip",
        // -I: neither our folder nor the user's packages are on the module path.
        argv: vec![
            "python3".to_owned(),
            "-I".to_owned(),
            text(&script),
            name.to_owned(),
            version.to_owned(),
            text(&out),
        ],
        scratch,
        pass: &[
            "PIP_CONFIG_FILE",
            "PIP_INDEX_URL",
            "PIP_EXTRA_INDEX_URL",
            "PIP_FIND_LINKS",
            "PIP_NO_INDEX",
            "PIP_TRUSTED_HOST",
            "PIP_PROXY",
            "PIP_CERT",
            "PIP_CLIENT_CERT",
            "PIP_DEFAULT_TIMEOUT",
            "PIP_RETRIES",
            "REQUESTS_CA_BUNDLE",
            "PYENV_ROOT",
            "PYENV_VERSION",
            "VIRTUAL_ENV",
        ],
        env: Vec::new(),
        what,
    };
    call.run().map_err(|error| match error {
        CorpusError::Client { program, what, said } if said.starts_with(&format!("exited with code {NO_PIP}:")) => {
            CorpusError::Client { program, what, said: format!("python3 has no pip; install it ({said})") }
        }
        CorpusError::Client { program, what, said } if said.starts_with(&format!("exited with code {UNKNOWN_PIP}:")) => {
            CorpusError::Client {
                program,
                what,
                said: format!("this pip is not known to stop before running build code ({said}); give the archive by `--set corpus.NAME=FILE.tar.gz`"),
            }
        }
        other => other,
    })?;
    one_file(&out, "pip", what, |name| name == "archive")
}

fn npm(
    name: &str,
    version: &str,
    what: &str,
    scratch: &Path,
    home: &Path,
    cwd: &Path,
) -> Result<PathBuf, CorpusError> {
    if let Some(user) = client::user_home() {
        client::lend(&user, home, &[".npmrc"])?;
    }
    // Without one, npm looks for a project in the folders above.
    fsio::write_plain(&cwd.join("package.json"), b"{\"private\": true}\n")?;
    let out = scratch.join("out");
    fsio::create_dir(&out)?;
    Call {
        program: "npm",
        argv: [
            "npm",
            "pack",
            &format!("{name}@{version}"),
            "--ignore-scripts",
            "--no-audit",
            "--no-fund",
            "--no-update-notifier",
            "--loglevel=error",
            "--pack-destination",
            &out.to_string_lossy(),
        ]
        .map(str::to_owned)
        .to_vec(),
        scratch,
        pass: &[
            "NPM_CONFIG_USERCONFIG",
            "NPM_CONFIG_GLOBALCONFIG",
            "NPM_CONFIG_REGISTRY",
            "NPM_CONFIG_CAFILE",
            "NPM_CONFIG_PROXY",
            "NPM_CONFIG_HTTPS_PROXY",
            "npm_config_userconfig",
            "npm_config_globalconfig",
            "npm_config_registry",
            "npm_config_cafile",
            "NODE_EXTRA_CA_CERTS",
            "NODE_USE_ENV_PROXY",
        ],
        env: Vec::new(),
        what,
    }
    .run()?;
    one_file(&out, "npm", what, super::is_archive_name)
}

fn krate(
    name: &str,
    version: &str,
    what: &str,
    scratch: &Path,
    home: &Path,
    cwd: &Path,
) -> Result<PathBuf, CorpusError> {
    let cargo_home = home.join(".cargo");
    fsio::create_dir(&cargo_home)?;
    let user = client::user_home();
    let user_cargo = crate::process::secret("CARGO_HOME")
        .filter(|path| !path.is_empty())
        .map(PathBuf::from)
        .or_else(|| user.as_ref().map(|home| home.join(".cargo")));
    if let Some(user_cargo) = &user_cargo {
        client::lend(user_cargo, &cargo_home, &["config.toml", "config", "credentials.toml"])?;
    }
    fsio::write_plain(&cwd.join("Cargo.toml"), CARGO_TOML.as_bytes())?;
    fsio::write_plain(&cwd.join("lib.rs"), b"")?;
    let mut env = vec![("CARGO_HOME", cargo_home.to_string_lossy().into_owned())];
    // The proxy that picks a toolchain keeps its own under the user's home.
    if crate::process::secret("RUSTUP_HOME").is_none()
        && let Some(rustup) = user.map(|home| home.join(".rustup")).filter(|path| path.is_dir())
    {
        env.push(("RUSTUP_HOME", rustup.to_string_lossy().into_owned()));
    }
    Call {
        program: "cargo",
        argv: ["cargo", "info", "--quiet", "--color", "never", &format!("{name}@{version}")]
            .map(str::to_owned)
            .to_vec(),
        scratch,
        pass: &[
            "RUSTUP_HOME",
            "RUSTUP_TOOLCHAIN",
            "CARGO_HTTP_PROXY",
            "CARGO_HTTP_CAINFO",
            "CARGO_HTTP_TIMEOUT",
            "CARGO_NET_RETRY",
            "CARGO_REGISTRIES_CRATES_IO_PROTOCOL",
            "CARGO_SOURCE_CRATES_IO_REPLACE_WITH",
        ],
        env,
        what,
    }
    .run()?;
    let caches = cargo_home.join("registry/cache");
    let wanted = format!("{name}-{version}.crate");
    let mut found = Vec::new();
    for entry in fs::read_dir(&caches).into_iter().flatten().flatten() {
        let file = entry.path().join(&wanted);
        if file.is_file() {
            found.push(file);
        }
    }
    match <[PathBuf; 1]>::try_from(found) {
        Ok([file]) => Ok(file),
        Err(found) => Err(CorpusError::Client {
            program: "cargo",
            what: what.to_owned(),
            said: format!("`{wanted}` is in {} places of its cache, not one", found.len()),
        }),
    }
}

/// The only file of a folder that the client was to write one file into.
fn one_file(
    folder: &Path,
    program: &'static str,
    what: &str,
    wanted: impl Fn(&str) -> bool,
) -> Result<PathBuf, CorpusError> {
    let names = fsio::tree::list(folder)?;
    let mut matching = names.iter().filter(|name| wanted(name));
    match (matching.next(), matching.next()) {
        (Some(name), None) => Ok(folder.join(name)),
        _ => Err(CorpusError::Client {
            program,
            what: what.to_owned(),
            said: format!("it wrote no archive but {names:?}"),
        }),
    }
}
