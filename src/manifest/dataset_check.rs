//! Whether repositories have a source and questions an answer.

use std::collections::BTreeMap;

use super::dataset::{Archive, QuestionSet, Repo, Repos, SHORTEST_CONTENT};
use super::path::KeyPath;
use super::pipeline::Profile;
use super::server::Registry;
use super::source::Document;
use crate::diag::Diagnostic;

/// The registry, name and version of an archive; none unless exactly one
/// registry is named, in the form that it wants.
#[must_use]
pub fn archive(archive: &Archive) -> Option<(Registry, &str, &str)> {
    let named = [
        (Registry::Pypi, &archive.pypi, "=="),
        (Registry::Npm, &archive.npm, "@"),
        (Registry::Crate, &archive.krate, "@"),
    ];
    let mut named =
        named.into_iter().filter_map(|(registry, text, sign)| text.as_ref().map(|t| (registry, t, sign)));
    let (registry, text, sign) = named.next()?;
    if named.next().is_some() {
        return None;
    }
    // An npm scope begins with `@` as well, so the last one counts.
    let (name, version) = text.rsplit_once(sign)?;
    (!name.is_empty() && !version.is_empty()).then_some((registry, name, version))
}

/// What is wrong with repositories.
pub(super) fn repos(repos: &Repos, document: &Document) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    for (name, repo) in &repos.repo {
        let path = KeyPath::of(&["repo", name]);
        repository(name, repo, &path, document, &mut found);
    }
    found
}

fn repository(name: &str, repo: &Repo, path: &KeyPath, document: &Document, found: &mut Vec<Diagnostic>) {
    let broken = |key: &str| document.get(&path.key(key)).is_some();
    if repo.archive.is_none() && repo.url.is_none() && repo.path.is_none() {
        if broken("archive") || broken("url") || broken("path") {
            return;
        }
        let message = format!("repository `{name}` has no source");
        let help =
            "add `archive = { pypi = \"NAME==VERSION\", sha256 = \"...\" }`, `url` and `commit`, or `path`";
        found.push(Diagnostic::error("no-source", message).at(document.table_place(path), "").help(help));
    }
    if repo.url.is_some() && repo.path.is_some() {
        let message = format!("repository `{name}` has both `url` and `path`");
        let error = Diagnostic::error("two-sources", message).at(document.key_place(&path.key("path")), "");
        found.push(error.at(document.key_place(&path.key("url")), "beside this").help("keep one of them"));
    }
    if repo.url.is_some() && repo.commit.is_none() && !broken("commit") {
        let message = format!("repository `{name}` has a `url` without a `commit`");
        let help = "add `commit = \"...\"` with all 40 hex digits: a branch would move under the results";
        found.push(Diagnostic::error("missing-key", message).at(document.table_place(path), "").help(help));
    }
    if repo.commit.is_some() && repo.url.is_none() && repo.path.is_none() && !broken("url") && !broken("path")
    {
        let message = format!("repository `{name}` has a `commit` without `url` or `path`");
        let place = document.key_place(&path.key("commit"));
        found.push(
            Diagnostic::error("missing-key", message).at(place, "").help("add `url`, or leave `commit` out"),
        );
    }
    if let Some(of) = &repo.archive {
        let path = path.key("archive");
        let help =
            "write one of `pypi = \"NAME==VERSION\"`, `npm = \"NAME@VERSION\"`, `crate = \"NAME@VERSION\"`";
        if archive(of).is_none() {
            let message = format!("the archive of `{name}` doesn't name one package with its version");
            found.push(
                Diagnostic::error("bad-archive", message).at(document.value_place(&path), "").help(help),
            );
        }
        if of.sha256.is_none() && !broken("archive.sha256") && document.get(&path.key("sha256")).is_none() {
            let message = format!("the archive of `{name}` has no `sha256`");
            let help = "add `sha256 = \"...\"`: without it nobody knows which bytes were measured";
            found.push(
                Diagnostic::error("missing-key", message).at(document.table_place(&path), "").help(help),
            );
        }
    }
    if let Some(subdir) = &repo.subdir {
        inside(subdir, &path.key("subdir"), document, found);
    }
    if let Some(known) = &repo.known {
        inside(&known.file, &path.key("known").key("file"), document, found);
    }
}

/// A path that must stay in the corpus.
fn inside(text: &str, path: &KeyPath, document: &Document, found: &mut Vec<Diagnostic>) {
    if crate::fsio::tree::plain(text.trim_end_matches('/')).is_err() {
        let message = format!("`{text}` doesn't stay inside the corpus");
        let help = "write a path relative to the corpus, with `/` and without `..`";
        found.push(Diagnostic::error("bad-path", message).at(document.value_place(path), "").help(help));
    }
}

/// What is wrong with questions.
pub(super) fn questions(set: &QuestionSet, document: &Document) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    let mut seen: BTreeMap<&str, KeyPath> = BTreeMap::new();
    let warmups = set.warmup.iter().enumerate().map(|(at, w)| (w.id.as_str(), "warmup", at));
    let asked = set.question.iter().enumerate().map(|(at, q)| (q.id.as_str(), "question", at));
    for (id, table, at) in warmups.chain(asked) {
        let path = KeyPath::of(&[table]).index(at).key("id");
        if let Some(first) = seen.get(id) {
            let message = format!("the id `{id}` is given twice");
            let error =
                Diagnostic::error("duplicate-id", message).at(document.value_place(&path), "again here");
            found.push(
                error
                    .at(document.value_place(first), "first here")
                    .help("every question has an id of its own"),
            );
        } else {
            seen.insert(id, path);
        }
    }
    for (at, question) in set.question.iter().enumerate() {
        let path = KeyPath::of(&["question"]).index(at);
        for (index, file) in question.files.iter().enumerate() {
            inside(file, &path.key("files").index(index), document, &mut found);
        }
        if question.files.is_empty()
            && document.get(&path.key("files")).is_none_or(|v| v.as_array().is_some_and(Vec::is_empty))
        {
            let message = format!("question `{}` names no file that answers it", question.id);
            let place = document.table_place(&path);
            found.push(if set.profile == Some(Profile::RagBench) {
                let help =
                    "by the rules of rag-bench it is a hit for every answer, and a miss for every list";
                Diagnostic::warning("no-answer", message).at(place, "").help(help)
            } else {
                let help = "add `files = [\"path/in/the/corpus\"]`: without it no answer can be right";
                Diagnostic::error("no-answer", message).at(place, "").help(help)
            });
        }
        for (index, line) in question.content.iter().enumerate() {
            if line.chars().count() < SHORTEST_CONTENT {
                let place = document.value_place(&path.key("content").index(index));
                let message = format!(
                    "the content line of `{}` has fewer than {SHORTEST_CONTENT} characters",
                    question.id
                );
                let help = "quote a longer line: a short one occurs in too many places";
                found.push(Diagnostic::error("too-short", message).at(place, "").help(help));
            }
        }
    }
    found
}
