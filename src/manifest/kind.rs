//! The kinds of files, and which kind a file is.

use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::dataset::{QuestionSet, Repos};
use super::lock::Lock;
use super::pipeline::Pipeline;
use super::prices::Prices;
use super::recording::Recording;
use super::rubric::Rubric;
use super::scenario::Scenario;
use super::server::Server;
use super::trust::Trust;

/// A kind of file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileKind {
    /// `pipelines/*.toml`.
    Pipeline,
    /// `presets/servers/*.toml`.
    Server,
    /// `datasets/repos.toml`.
    Repos,
    /// `datasets/questions/*.toml`.
    Questions,
    /// `scenarios/**/*.toml`.
    Scenario,
    /// `rubrics/*.toml`.
    Rubric,
    /// `recordings/*.toml`.
    Recording,
    /// `presets/prices.toml`.
    Prices,
    /// `proofline.lock`.
    Lock,
    /// `trust.toml`.
    Trust,
}

/// A type that is a whole file.
pub trait Manifest: DeserializeOwned + JsonSchema {
    /// Its kind.
    const KIND: FileKind;

    /// Puts in what a faulty file lacks, so that the rest of it can be checked.
    fn fill(_root: &mut Map<String, Value>) {}
}

impl Manifest for Pipeline {
    const KIND: FileKind = FileKind::Pipeline;

    fn fill(root: &mut Map<String, Value>) {
        for (key, value) in
            [("format", 1.into()), ("name", "unnamed".into()), ("stage", Value::Object(Map::new()))]
        {
            root.entry(key).or_insert(value);
        }
    }
}

macro_rules! whole_file {
    ($type:ty, $kind:ident) => {
        impl Manifest for $type {
            const KIND: FileKind = FileKind::$kind;
        }
    };
}
whole_file!(Server, Server);
whole_file!(Repos, Repos);
whole_file!(QuestionSet, Questions);
whole_file!(Scenario, Scenario);
whole_file!(Rubric, Rubric);
whole_file!(Recording, Recording);
whole_file!(Prices, Prices);
whole_file!(Lock, Lock);
whole_file!(Trust, Trust);

impl FileKind {
    /// Every kind.
    pub const ALL: [Self; 10] = [
        Self::Pipeline,
        Self::Server,
        Self::Repos,
        Self::Questions,
        Self::Scenario,
        Self::Rubric,
        Self::Recording,
        Self::Prices,
        Self::Lock,
        Self::Trust,
    ];

    /// Name of its schema under `schemas/`, without `.json`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Pipeline => "pipeline",
            Self::Server => "server",
            Self::Repos => "repos",
            Self::Questions => "questions",
            Self::Scenario => "scenario",
            Self::Rubric => "rubric",
            Self::Recording => "recording",
            Self::Prices => "prices",
            Self::Lock => "lock",
            Self::Trust => "trust",
        }
    }

    /// Its JSON Schema, as editors and the structural check read it.
    #[must_use]
    pub fn schema(self) -> Value {
        let generator = || SchemaGenerator::new(SchemaSettings::draft2020_12());
        let schema = match self {
            Self::Pipeline => generator().into_root_schema_for::<Pipeline>(),
            Self::Server => generator().into_root_schema_for::<Server>(),
            Self::Repos => generator().into_root_schema_for::<Repos>(),
            Self::Questions => generator().into_root_schema_for::<QuestionSet>(),
            Self::Scenario => generator().into_root_schema_for::<Scenario>(),
            Self::Rubric => generator().into_root_schema_for::<Rubric>(),
            Self::Recording => generator().into_root_schema_for::<Recording>(),
            Self::Prices => generator().into_root_schema_for::<Prices>(),
            Self::Lock => generator().into_root_schema_for::<Lock>(),
            Self::Trust => generator().into_root_schema_for::<Trust>(),
        };
        schema.to_value()
    }

    /// The kind of a file: by the schema that its first lines name
    /// (`#:schema ../schemas/KIND.json`), else by its name and folder.
    #[must_use]
    pub fn of(path: &str, text: &str) -> Option<Self> {
        let named = text.lines().take(5).find_map(|line| line.trim().strip_prefix("#:schema"));
        if let Some(schema) = named {
            let file = schema.trim().rsplit('/').next().unwrap_or_default();
            return Self::ALL.into_iter().find(|kind| file.strip_suffix(".json") == Some(kind.name()));
        }
        let mut parts = path.rsplit(['/', '\\']);
        let (file, folder) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        match (folder, file) {
            (_, "repos.toml") => Some(Self::Repos),
            (_, "prices.toml") => Some(Self::Prices),
            (_, "proofline.lock") => Some(Self::Lock),
            (_, "trust.toml") => Some(Self::Trust),
            ("pipelines", _) => Some(Self::Pipeline),
            ("servers", _) => Some(Self::Server),
            ("questions", _) => Some(Self::Questions),
            ("rubrics", _) => Some(Self::Rubric),
            ("recordings", _) => Some(Self::Recording),
            // Held-out scenarios lie in a folder of their own below the others.
            _ if folder == "scenarios" || parts.any(|part| part == "scenarios") => Some(Self::Scenario),
            _ => None,
        }
    }
}
