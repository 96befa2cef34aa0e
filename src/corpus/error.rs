//! What can go wrong when a corpus is brought in.

use std::path::PathBuf;

use super::source::SourceError;
use crate::fsio::FsError;

/// Why a corpus could not be had.
#[derive(Debug, thiserror::Error)]
pub enum CorpusError {
    /// The description of the source is not usable.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// Reading or writing failed.
    #[error("{}", .0.explain())]
    Fs(#[from] FsError),
    /// Nothing in the cache, and the network may not be used.
    #[error("corpus `{repo}` is not in the cache and --offline forbids fetching {what}")]
    Offline {
        /// Name of the repository.
        repo: String,
        /// What would have been fetched.
        what: String,
    },
    /// The program holds no such corpus.
    #[error("no corpus `{0}` is compiled into this program")]
    NotEmbedded(String),
    /// The folder, repository or archive file is not there, or is something else.
    #[error("`{}` is no {expected}", path.display())]
    NotThere {
        /// The path.
        path: PathBuf,
        /// `folder`, `archive file`, `git repository`.
        expected: &'static str,
    },
    /// The source has no such folder, or nothing is in it.
    #[error("{origin} has no file in `{subdir}`")]
    NoSubdir {
        /// The source, for people.
        origin: String,
        /// The folder asked for.
        subdir: String,
    },
    /// Nothing that could be searched.
    #[error("{0} holds no file")]
    Empty(String),
    /// An entry that is unsafe to take in.
    #[error("{origin} is refused: {why}")]
    Refused {
        /// The source, for people.
        origin: String,
        /// The entry and what is wrong with it.
        why: String,
    },
    /// The bytes are others than the pinned ones.
    #[error("{origin} is refused: its SHA-256 is {found}, pinned is {pinned}")]
    Pin {
        /// The source, for people.
        origin: String,
        /// SHA-256 of what came.
        found: String,
        /// SHA-256 that the dataset states.
        pinned: String,
    },
    /// Git could not read the repository or lacks the commit.
    #[error("git repository {repository}: {said}")]
    Git {
        /// The repository, for people.
        repository: String,
        /// Git's own words.
        said: String,
    },
    /// A local repository lacks the commit.
    #[error("commit {commit} isn't in the repository `{}`", path.display())]
    NoCommit {
        /// The repository.
        path: PathBuf,
        /// Id of the commit.
        commit: String,
    },
    /// A registry's client or git failed.
    #[error("{program} could not fetch {what}: {said}")]
    Client {
        /// The program.
        program: &'static str,
        /// What was asked for.
        what: String,
        /// Its own last words.
        said: String,
    },
}
