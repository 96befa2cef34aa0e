//! Fetches one commit from another machine with the git program.
//!
//! Only https is spoken; no settings, hooks, prompts, filters or submodules
//! of this machine or of the repository have a say. The result is a bare
//! repository that nothing is ever checked out of.

use std::path::{Path, PathBuf};

use super::client::{self, Call};
use super::error::CorpusError;
use super::git;

/// Certificate settings that are git's own.
const PASS: [&str; 3] = ["GIT_SSL_CAINFO", "GIT_SSL_CAPATH", "GIT_PROXY_SSL_CAINFO"];

/// Fetches `commit` of `url` into a bare repository inside `scratch`; its path.
/// `protocol` is `https`; tests use `file`.
pub(crate) fn fetch(url: &str, commit: &str, protocol: &str, scratch: &Path) -> Result<PathBuf, CorpusError> {
    let bare = scratch.join("repository.git");
    let place = bare.to_string_lossy().into_owned();
    let what = format!("{url} at {commit}");
    let run = |words: &[&str]| {
        let mut argv = vec!["git".to_owned()];
        for setting in [
            "core.hooksPath=/dev/null",
            "core.fsmonitor=false",
            "core.attributesFile=/dev/null",
            "credential.helper=",
            "gc.auto=0",
            "maintenance.auto=false",
            "submodule.recurse=false",
            "fetch.recurseSubmodules=false",
            "fetch.writeCommitGraph=false",
            "transfer.credentialsInUrl=die",
            "protocol.allow=never",
            &format!("protocol.{protocol}.allow=always"),
        ] {
            argv.extend(["-c".to_owned(), setting.to_owned()]);
        }
        argv.extend(words.iter().map(|word| (*word).to_owned()));
        let mut env: Vec<_> = client::git_env().into_iter().collect();
        env.push(("GIT_ALLOW_PROTOCOL", protocol.to_owned()));
        Call { program: "git", argv, scratch, pass: &PASS, env, what: &what }.run()
    };
    run(&["init", "--quiet", "--bare", "--template=", "--", &place])?;
    let common = ["-C", &place, "fetch", "--quiet", "--no-tags", "--no-recurse-submodules", "--no-auto-gc"];
    let exact = [&common[..], &["--depth=1", "--", url, commit]].concat();
    let Err(first) = run(&exact) else { return holds(bare, commit, &what) };
    // Servers may refuse a commit that is no branch's end; then all branches and tags are asked for.
    let all =
        [&common[..], &["--", url, "+refs/heads/*:refs/remotes/o/*", "+refs/tags/*:refs/tags/*"]].concat();
    match run(&all) {
        // What the server says to the exact request tells more than that the commit isn't among all.
        Ok(_) => holds(bare, commit, &what).map_err(|_| first),
        Err(_) => Err(first),
    }
}

fn holds(bare: PathBuf, commit: &str, what: &str) -> Result<PathBuf, CorpusError> {
    let repository = git::open(&bare)?;
    let found = git::resolve(&repository, commit, what)?;
    if found == commit {
        return Ok(bare);
    }
    Err(CorpusError::Git {
        repository: what.to_owned(),
        said: format!("`{commit}` is no commit but leads to {found}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use git2::{Repository, Signature};

    fn commit(repository: &Repository, file: &str, text: &str) -> String {
        let root = repository.workdir().unwrap();
        crate::fsio::write_plain(&root.join(file), text.as_bytes()).unwrap();
        let mut index = repository.index().unwrap();
        index.add_path(Path::new(file)).unwrap();
        index.write().unwrap();
        let tree = repository.find_tree(index.write_tree().unwrap()).unwrap();
        let who = Signature::now("a", "a@example.org").unwrap();
        let parent = repository.head().ok().and_then(|head| head.peel_to_commit().ok());
        let parents: Vec<_> = parent.iter().collect();
        repository.commit(Some("HEAD"), &who, &who, "x", &tree, &parents).unwrap().to_string()
    }

    #[test]
    fn a_commit_that_is_no_tip_is_found_and_no_hook_runs() {
        let dir = tempfile::tempdir().unwrap();
        let origin = dir.path().join("origin");
        let repository = Repository::init(&origin).unwrap();
        let first = commit(&repository, "a.py", "x = 1\n");
        let second = commit(&repository, "b.py", "y = 1\n");
        let url = format!("file://{}", origin.display());
        for (nth, wanted) in [&first, &second].into_iter().enumerate() {
            let scratch = dir.path().join(format!("s{nth}"));
            let bare = fetch(&url, wanted, "file", &scratch).unwrap();
            assert_eq!(git::resolve(&git::open(&bare).unwrap(), wanted, "x").unwrap(), *wanted);
            assert!(!bare.join("hooks").exists());
        }
        let absent = "0123456789abcdef0123456789abcdef01234567";
        let error = fetch(&url, absent, "file", &dir.path().join("s9")).unwrap_err();
        assert!(error.to_string().contains("git could not fetch"), "{error}");
        let error = fetch(&url, &second, "https", &dir.path().join("s10")).unwrap_err();
        assert!(error.to_string().contains("not allowed"), "{error}");
    }
}
