//! The private place of a server that is tried.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::Trial;
use crate::cli::context;
use crate::cli::exit::CliError;
use crate::corpus::Corpus;
use crate::fsio::{self, Scratch, tree};
use crate::manifest::server::Server;
use crate::mcp::{Client, Launch, free_port};
use crate::process::{self, Spec};
use crate::stage::identity;
use crate::store::Store;

/// Where the server runs: its own home and its own copy of the corpus.
pub(super) struct Place {
    scratch: Scratch,
    port: u16,
    marker: String,
    exe: PathBuf,
}

impl Place {
    pub(super) fn make(corpus: Option<&Corpus>, trial: &Trial<'_>, store: &Store) -> Result<Self, CliError> {
        let scratch = Scratch::new_in(&store.tmp())?;
        let marker = format!("probe-{}-{}", std::process::id(), trial.preset.name);
        let place = Self { scratch, port: free_port().unwrap_or(0), marker, exe: context::exe()? };
        for folder in ["corpus", "home", "tmp", "state"] {
            fsio::create_dir(&place.at(folder))?;
        }
        if let Some(corpus) = corpus {
            tree::copy(&corpus.path, &place.at("corpus"))?;
        }
        Ok(place)
    }

    pub(super) fn at(&self, folder: &str) -> PathBuf {
        self.scratch.path().join(folder)
    }

    fn fill(&self, text: &str) -> String {
        let mut out = text.to_owned();
        for name in ["corpus", "state", "home", "tmp"] {
            out = out.replace(&format!("{{{name}}}"), &self.at(name).to_string_lossy());
        }
        out.replace("{proofline}", &self.exe.to_string_lossy()).replace("{port}", &self.port.to_string())
    }

    fn command(&self, words: &[String], root: &Path) -> Vec<String> {
        let one = |word: &String| match identity::file_of(word, root) {
            Some(path) => path.to_string_lossy().into_owned(),
            None => self.fill(word),
        };
        words.iter().map(one).collect()
    }

    fn env(&self, preset: &Server) -> BTreeMap<String, String> {
        let mut env = process::base_env(&self.at("home"), &self.at("tmp"));
        env.extend(preset.env.iter().map(|(name, value)| (name.clone(), self.fill(value))));
        env.extend(preset.secrets.iter().filter_map(|name| Some((name.clone(), process::secret(name)?))));
        env
    }

    pub(super) async fn start(&self, trial: &Trial<'_>, log: &str) -> Result<Client, CliError> {
        let preset = trial.preset;
        let launch = Launch {
            transport: preset.transport,
            command: self.command(&preset.command, &trial.root),
            url: preset.url.as_deref().map(|url| self.fill(url)),
            cwd: self.at("corpus"),
            env: self.env(preset),
            marker: self.marker.clone(),
            lifecycle: preset.lifecycle,
            start_timeout: preset.start_timeout.0,
            wire_log: self.scratch.path().join(format!("{log}-wire.jsonl")),
            stderr_log: self.scratch.path().join(format!("{log}-stderr.log")),
            max_reply_bytes: Launch::MAX_REPLY,
        };
        Client::start(&launch).await.map_err(|e| CliError::Infrastructure(e.to_string()))
    }

    /// Runs the commands that the preset wants before its server.
    pub(super) async fn prepare(&self, trial: &Trial<'_>) -> Result<(), CliError> {
        for step in &trial.preset.pre_ingest {
            let cwd =
                step.cwd.as_deref().map_or_else(|| self.at("corpus"), |cwd| PathBuf::from(self.fill(cwd)));
            let argv = self.command(&step.run, &trial.root);
            let name = argv.first().cloned().unwrap_or_default();
            let spec = Spec::new(argv, cwd, self.env(trial.preset), &self.marker);
            let failed = |words: String| CliError::Infrastructure(format!("pre-ingest `{name}`: {words}"));
            let said = process::capture(&spec, step.timeout.0, 16 * 1024)
                .await
                .map_err(|e| failed(e.to_string()))?;
            if !said.exit.ok() {
                let words = if said.stderr.is_empty() { said.stdout } else { said.stderr };
                return Err(failed(format!(
                    "{}: {}",
                    said.exit.words(),
                    String::from_utf8_lossy(&words).trim()
                )));
            }
        }
        Ok(())
    }

    /// Bytes of what the server left outside its copy of the corpus.
    pub(super) fn left(&self) -> u64 {
        ["home", "tmp", "state"]
            .iter()
            .filter_map(|folder| tree::scan(&self.at(folder)).ok())
            .map(|tree| tree.bytes())
            .sum()
    }
}
