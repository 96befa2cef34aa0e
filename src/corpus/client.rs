//! Runs git and the registries' clients in a private home.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::error::CorpusError;
use crate::fsio;
use crate::process::{self, Captured, Spec};

/// Longest time of one call.
const LIMIT: Duration = Duration::from_mins(15);
/// Output that is kept.
const KEPT: usize = 1 << 20;

/// How the network is reached from this machine; passed on to every client.
const NETWORK: [&str; 11] = [
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "https_proxy",
    "http_proxy",
    "all_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "CURL_CA_BUNDLE",
];

/// One call of a client.
pub(crate) struct Call<'a> {
    /// The client, for messages.
    pub(crate) program: &'static str,
    /// Program and arguments.
    pub(crate) argv: Vec<String>,
    /// A private folder: working directory, home and temporary files are inside.
    pub(crate) scratch: &'a Path,
    /// Variables of ours that are passed on when set.
    pub(crate) pass: &'a [&'a str],
    /// Further variables.
    pub(crate) env: Vec<(&'static str, String)>,
    /// What is fetched, for messages.
    pub(crate) what: &'a str,
}

impl Call<'_> {
    /// Working directory of the call.
    pub(crate) fn cwd(scratch: &Path) -> PathBuf {
        scratch.join("work")
    }

    /// Home of the call.
    pub(crate) fn home(scratch: &Path) -> PathBuf {
        scratch.join("home")
    }

    /// Runs it to its end; anything but exit code 0 is an error with the client's own words.
    pub(crate) fn run(self) -> Result<Captured, CorpusError> {
        let (home, tmp, cwd) = (Self::home(self.scratch), self.scratch.join("tmp"), Self::cwd(self.scratch));
        for folder in [&home, &tmp, &cwd] {
            fsio::create_dir(folder)?;
        }
        let mut env = process::base_env(&home, &tmp);
        for name in NETWORK.iter().chain(self.pass) {
            if let Some(value) = process::secret(name) {
                env.insert((*name).to_owned(), value);
            }
        }
        env.extend(self.env.into_iter().map(|(name, value)| (name.to_owned(), value)));
        let spec = Spec::new(self.argv, cwd, env, "corpus");
        let failed =
            |said: String| CorpusError::Client { program: self.program, what: self.what.to_owned(), said };
        let captured = capture(&spec).map_err(failed)?;
        if captured.exit.ok() {
            return Ok(captured);
        }
        let said = last_words(&captured.stderr).or_else(|| last_words(&captured.stdout));
        let end = if captured.exit.timed_out {
            format!("it took longer than {} minutes", LIMIT.as_secs() / 60)
        } else {
            captured.exit.words()
        };
        Err(failed(said.map_or_else(|| end.clone(), |said| format!("{end}: {said}"))))
    }
}

/// Waits for the child on a thread of its own, so that it does not matter
/// whether the caller is inside an asynchronous runtime.
fn capture(spec: &Spec) -> Result<Captured, String> {
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .map_err(|e| format!("can't wait for it: {e}"))?;
            runtime.block_on(process::capture(spec, LIMIT, KEPT)).map_err(|e| e.to_string())
        });
        waiting.join().unwrap_or_else(|_| Err("the wait for it failed".to_owned()))
    })
}

/// The last lines that say something, on one line.
fn last_words(output: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(output);
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        // npm's pointer to a log in the private folder, which is gone by then.
        .filter(|line| !line.is_empty() && !line.contains("A complete log of this run"))
        .collect();
    let from = lines.len().saturating_sub(4);
    let said = without_credentials(&lines[from..].join(" / "));
    let said: String = said.chars().filter(|c| !c.is_control()).take(600).collect();
    (!said.is_empty()).then_some(said)
}

/// Addresses may carry a password for a private registry; it is not repeated.
fn without_credentials(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (head, tail) = rest.split_at(at + 3);
        out.push_str(head);
        let end = tail.find(|c: char| c == '/' || c.is_whitespace()).unwrap_or(tail.len());
        let host = &tail[..end];
        match host.rfind('@') {
            Some(split) => {
                out.push_str("***");
                out.push_str(&host[split..]);
            }
            None => out.push_str(host),
        }
        rest = &tail[end..];
    }
    out.push_str(rest);
    out
}

/// The user's own home, whose client settings say where registries are.
pub(crate) fn user_home() -> Option<PathBuf> {
    process::secret("HOME").filter(|home| !home.is_empty()).map(PathBuf::from)
}

/// Makes the user's settings visible at the same place of a private home. A
/// link, not a copy: credentials in them are not spread.
pub(crate) fn lend(user: &Path, private: &Path, names: &[&str]) -> Result<(), CorpusError> {
    for name in names {
        let (from, to) = (user.join(name), private.join(name));
        if let (true, Some(from)) = (from.is_file(), from.to_str()) {
            fsio::tree::make_link(&to, from)?;
        }
    }
    Ok(())
}

/// Variables for git: no settings but these, no prompt, no hook, no filter.
pub(crate) fn git_env() -> BTreeMap<&'static str, String> {
    let mut env = BTreeMap::new();
    for (name, value) in [
        ("GIT_CONFIG_NOSYSTEM", "1"),
        ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ("GIT_CONFIG_SYSTEM", "/dev/null"),
        ("GIT_ATTR_NOSYSTEM", "1"),
        ("GIT_TERMINAL_PROMPT", "0"),
        ("GIT_ASKPASS", "/bin/false"),
        ("SSH_ASKPASS", "/bin/false"),
        ("GIT_LFS_SKIP_SMUDGE", "1"),
        ("GIT_NO_LAZY_FETCH", "1"),
        ("GIT_ADVICE", "0"),
    ] {
        env.insert(name, value.to_owned());
    }
    env
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_in_addresses_are_not_repeated() {
        let text = "could not reach https://me:s3cret@host/simple/ or http://host/x (see https://a@b)";
        assert_eq!(
            without_credentials(text),
            "could not reach https://***@host/simple/ or http://host/x (see https://***@b)"
        );
    }
}
