//! Axes and their values.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::arms::Arms;
use super::data::{AXIS, Data};
use super::params::Params;
use super::recordings::Answers;
use super::texts::{self, Placed};
use super::{Cx, Unknown, short};
use crate::diag::{Diagnostic, Place, names, nearest};
use crate::digest::Digest;
use crate::manifest::axis::{ANSWER, ARM, REPO};
use crate::manifest::dataset::{Question, QuestionSet};
use crate::manifest::names::LONGEST_VALUE;
use crate::manifest::path::KeyPath;
use crate::manifest::pipeline::{Axis as Wire, Questions, Recorded, Scenarios};
use crate::manifest::templated::{OneOrMany, Templated};
use crate::plan::compiled::{Axis, AxisValue};
use crate::plan::template::{self, Reference};

/// The largest count of an axis.
const MOST: u32 = 100_000;
/// The most cells that a matrix may have.
const MOST_CELLS: u64 = 10_000_000;
/// Names that templates know already.
const RESERVED: [&str; 2] = ["params", "item"];
/// Fields of a question that `where` may name.
const FIELDS: [&str; 3] = ["id", "kind", "difficulty"];

/// The axes, and what is unsure of them.
#[derive(Debug, Default)]
pub(super) struct Axes {
    pub(super) all: Vec<Axis>,
    /// Whether all values of each are known, in the order of `all`.
    pub(super) sure: Vec<bool>,
    /// Names under `[axes]`, faulty ones included.
    pub(super) declared: Vec<String>,
    /// Of each repository, the questions that are on an axis.
    pub(super) tasks: BTreeMap<String, BTreeSet<String>>,
    places: BTreeMap<String, Place>,
}

impl Axes {
    /// The index of an axis.
    pub(super) fn index(&self, name: &str) -> Option<usize> {
        self.all.iter().position(|axis| axis.name == name)
    }

    /// Where a repository is named.
    pub(super) fn place_of_repo(&self, name: &str) -> Option<Place> {
        self.places.get(name).cloned()
    }
}

/// Finds the values of every axis.
pub(super) fn read(
    cx: &mut Cx<'_>,
    params: &Params,
    data: Data,
    arms: &Arms,
    answers: &mut Answers,
) -> (Axes, Data) {
    let declared: Vec<String> = cx.declared("axes").into_iter().filter(|name| name != "exclude").collect();
    let mut reader = Reader { params, arms, data, answers, out: Axes { declared, ..Axes::default() } };
    for (name, axis) in cx.pipeline.axes.axes.clone() {
        let path = KeyPath::of(&["axes", &name]);
        if RESERVED.contains(&name.as_str()) {
            let message = format!("an axis can't be named `{name}`");
            cx.error("bad-name", message, cx.key(&path), "templates use that name for something else");
        }
        reader.axis(cx, &name, &axis, &path);
    }
    reader.without_axis(cx);
    reader.size(cx);
    reader.data.check_corpora(cx, params);
    (reader.out, reader.data)
}

/// A repository's name and where it was written.
type Named = (String, Place);

struct Reader<'a> {
    params: &'a Params,
    arms: &'a Arms,
    data: Data,
    answers: &'a mut Answers,
    out: Axes,
}

impl Reader<'_> {
    fn axis(&mut self, cx: &mut Cx<'_>, name: &str, axis: &Wire, path: &KeyPath) {
        let mut of = None;
        let values = match axis {
            Wire::Arms => self.arm_names(cx, name, path),
            Wire::Count(count) => texts::count(cx, self.params, count, &path.key("count"), (1, MOST))
                .map(|count| (1..=count).map(|n| plain(n.to_string())).collect()),
            Wire::Values(list) => self.values(cx, name, list, path),
            Wire::Questions(questions) => self.questions(cx, name, questions, path, &mut of),
            Wire::Scenarios(scenarios) => self.scenarios(cx, name, scenarios, path, &mut of),
            Wire::Recorded(recorded) => self.recorded(cx, name, recorded, path, &mut of),
        };
        let sure = values.is_some() && (name != ARM || self.arms.complete());
        let values: Vec<AxisValue> = values.unwrap_or_default();
        if sure && values.is_empty() {
            let help = "give it at least one value";
            cx.error("empty", format!("the axis `{name}` has no values"), cx.at(path), help);
        }
        self.out.all.push(Axis { name: name.to_owned(), of, values });
        self.out.sure.push(sure);
    }

    fn arm_names(&self, cx: &mut Cx<'_>, name: &str, path: &KeyPath) -> Option<Vec<AxisValue>> {
        if name != ARM {
            let message = format!("\"all\" means all arms, and only the axis `{ARM}` runs over them");
            cx.error(
                "bad-axis",
                message,
                cx.at(path),
                format!("rename `{name}` to `{ARM}`, or list its values"),
            );
            return None;
        }
        if !self.arms.declared {
            let help = "declare arms as `[arm.NAME]`, or take this axis out";
            cx.error("no-arms", "the pipeline has no arms to run over", cx.at(path), help);
            return None;
        }
        Some(self.arms.all.iter().map(|arm| plain(arm.name.clone())).collect())
    }

    fn values(
        &mut self,
        cx: &mut Cx<'_>,
        name: &str,
        list: &Templated<Vec<String>>,
        path: &KeyPath,
    ) -> Option<Vec<AxisValue>> {
        let placed = texts::list(cx, self.params, list, path)?;
        let mut sound = true;
        let known_arms = self.arms.names();
        let mut seen: HashMap<&str, &Placed> = HashMap::with_capacity(placed.len());
        for value in &placed {
            if let Some(first) = seen.get(value.text.as_str()) {
                let message = format!("the axis `{name}` has the value `{}` twice", short(&value.text));
                let error = Diagnostic::error("duplicate-value", message).at(value.place(cx), "again here");
                cx.found.push(error.at(first.place(cx), "first here").help("take one out"));
                sound = false;
            } else {
                seen.insert(&value.text, value);
            }
            sound &= self.one_value(cx, name, value, &known_arms);
        }
        sound.then(|| placed.into_iter().map(|value| plain(value.text)).collect())
    }

    fn one_value(&mut self, cx: &mut Cx<'_>, axis: &str, value: &Placed, arms: &[String]) -> bool {
        let text = &value.text;
        if is_odd(text) {
            let message = format!("`{}` can't be a value of the axis `{axis}`", short(text));
            cx.error("bad-value", message, value.place(cx), ODD_HELP);
            return false;
        }
        if axis == ARM && !arms.contains(text) && !self.arms.unsure {
            cx.unknown(&super::metrics::ARM_NAME, text, arms, value.place(cx));
            return false;
        }
        // A pipeline of commands alone may use the axis for what it likes.
        if axis == REPO && (!cx.only_commands() || self.data.has(text)) {
            let place = value.place(cx);
            self.out.places.insert(text.clone(), place.clone());
            return self.data.repository(cx, text, &place).is_some();
        }
        true
    }

    fn questions(
        &mut self,
        cx: &mut Cx<'_>,
        name: &str,
        wire: &Questions,
        path: &KeyPath,
        of: &mut Option<usize>,
    ) -> Option<Vec<AxisValue>> {
        let at = path.key("questions");
        let keep = Keep::read(cx, &wire.keep, &path.key("where"));
        let sample = match &wire.sample {
            None => Some(None),
            Some(sample) => texts::count(cx, self.params, sample, &path.key("sample"), (1, MOST)).map(Some),
        };
        let (repos, parent) = self.repos_of(cx, name, ("questions", &wire.questions), &at)?;
        *of = parent;
        let (keep, sample) = (keep?, sample?);
        let mut out = Vec::new();
        let mut sound = true;
        for (index, (repo, place)) in repos.iter().enumerate() {
            let Some(repository) = self.data.repository(cx, repo, place) else {
                sound = false;
                continue;
            };
            let set = repository.questions.clone();
            let picked = pick(&set, &keep, sample, cx.pipeline.seed);
            if picked.is_empty() {
                let message = format!("the axis `{name}` takes no question of `{repo}`");
                let help = if set.question.is_empty() {
                    "it has none: write questions for it"
                } else {
                    "widen `where`"
                };
                cx.warning("no-questions", message, cx.at(path), help);
            }
            self.out.tasks.entry(repo.clone()).or_default().extend(picked.iter().cloned());
            let parent = parent.map(|_| index);
            out.extend(picked.into_iter().map(|text| AxisValue { text, parent }));
        }
        sound.then_some(out)
    }

    /// The repositories whose questions are meant, and the axis that lists them.
    fn repos_of(
        &mut self,
        cx: &mut Cx<'_>,
        name: &str,
        (key, text): (&str, &str),
        path: &KeyPath,
    ) -> Option<(Vec<Named>, Option<usize>)> {
        let place = cx.at(path);
        let parent =
            template::lone(text).filter(|e| e.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'));
        let Some(parent) = parent.filter(|p| !RESERVED.contains(p)) else {
            let others = template::references(text).unwrap_or_default();
            if let Some(Reference::Name(axis)) = others.iter().find(|r| matches!(r, Reference::Name(_))) {
                let help = format!("write `{{{{ {axis} }}}}` alone, or the name of a repository");
                let message = format!("the template of `{key}` is more than one axis");
                cx.error("bad-template", message, place, help);
                return None;
            }
            let repo = texts::text(cx, self.params, None, text, path)?;
            self.out.places.insert(repo.clone(), place.clone());
            return Some((vec![(repo, place)], None));
        };
        let index = self.above(cx, name, parent, &place)?;
        if parent != REPO {
            let message = format!("the axis `{parent}` holds no repositories");
            cx.error(
                "bad-axis",
                message,
                place,
                format!("{key} come from the axis `{REPO}`, or from one repository by name"),
            );
            return None;
        }
        if !self.out.sure[index] {
            return None;
        }
        let values = &self.out.all[index].values;
        let placed = |v: &AxisValue| {
            (v.text.clone(), self.out.places.get(&v.text).cloned().unwrap_or_else(|| place.clone()))
        };
        Some((values.iter().map(placed).collect(), Some(index)))
    }

    /// The index of the axis that another depends on.
    fn above(&self, cx: &mut Cx<'_>, name: &str, parent: &str, place: &Place) -> Option<usize> {
        let index = self.out.index(parent);
        if index.is_some() {
            return index;
        }
        if !self.out.declared.iter().any(|d| d == parent) {
            let declared = self.out.declared.clone();
            cx.unknown(&AXIS, parent, &declared, place.clone());
        } else if cx.pipeline.axes.axes.contains_key(parent) {
            let message = format!("the axis `{name}` depends on `{parent}`, which stands below it");
            cx.error("axis-order", message, place.clone(), format!("move `{parent}` above `{name}`"));
        }
        None
    }

    fn scenarios(
        &mut self,
        cx: &mut Cx<'_>,
        name: &str,
        wire: &Scenarios,
        path: &KeyPath,
        of: &mut Option<usize>,
    ) -> Option<Vec<AxisValue>> {
        let (repos, parent) =
            self.repos_of(cx, name, ("scenarios", &wire.scenarios), &path.key("scenarios"))?;
        *of = parent;
        let known: Vec<String> = cx.project.names_in("scenarios", &[]).into_iter().collect();
        for (at, wanted) in wire.only.iter().enumerate() {
            if !known.contains(wanted) {
                let what = Unknown {
                    code: "unknown-scenario",
                    noun: "scenario",
                    table: None,
                    none: "write scenarios/NAME.toml",
                };
                cx.unknown(&what, wanted, &known, cx.at(&path.key("only").index(at)));
                return None;
            }
        }
        let picked: Vec<&String> =
            known.iter().filter(|k| wire.only.is_empty() || wire.only.contains(k)).collect();
        let mut out = Vec::new();
        let mut sound = true;
        for (index, (repo, place)) in repos.iter().enumerate() {
            sound &= self.data.repository(cx, repo, place).is_some();
            let before = out.len();
            for scenario in &picked {
                let found = self.answers.scenario(cx, &format!("scenarios/{scenario}.toml"));
                if found.is_some_and(|found| found.task.repo == *repo) {
                    out.push(AxisValue { text: (*scenario).clone(), parent: parent.map(|_| index) });
                }
            }
            if out.len() == before {
                let message = format!("the axis `{name}` takes no scenario of `{repo}`");
                cx.warning(
                    "no-scenarios",
                    message,
                    cx.at(path),
                    "write scenarios/NAME.toml with that `repo`",
                );
            }
        }
        sound.then_some(out)
    }

    fn recorded(
        &mut self,
        cx: &mut Cx<'_>,
        name: &str,
        wire: &Recorded,
        path: &KeyPath,
        of: &mut Option<usize>,
    ) -> Option<Vec<AxisValue>> {
        let place = cx.at(&path.key("recorded"));
        if template::lone(&wire.recorded) != Some(ARM) || name != ANSWER {
            let help =
                format!("write `{ANSWER} = {{ recorded = \"{{{{ {ARM} }}}}\" }}`, below the axis `{ARM}`");
            cx.error("bad-axis", "recorded answers are those of each arm", place, help);
            return None;
        }
        let index = self.above(cx, name, ARM, &place)?;
        *of = Some(index);
        if !self.answers.declared && !self.answers.unsure {
            let help = "name them: `recordings = [\"recordings/NAME.toml\"]`";
            cx.error("no-recording", "the pipeline takes no recordings", place, help);
            return None;
        }
        let mut out = Vec::new();
        for (parent, arm) in self.out.all[index].values.iter().enumerate() {
            let ids = self.answers.of_arm(&arm.text);
            out.extend(ids.map(|id| AxisValue { text: id.to_owned(), parent: Some(parent) }));
        }
        if let Some(value) = out.iter().find(|value| is_odd(&value.text)) {
            let message = format!("`{}` can't be the id of an answer", short(&value.text));
            cx.error("bad-value", message, place, ODD_HELP);
            return None;
        }
        (!self.answers.unsure).then_some(out)
    }

    /// Arms without an axis.
    fn without_axis(&mut self, cx: &mut Cx<'_>) {
        if self.arms.declared && !self.out.declared.iter().any(|d| d == ARM) && !cx.document.excuses(ARM) {
            let place = cx.table(&KeyPath::of(&["axes"]));
            let message = "the pipeline has arms, but no axis runs over them";
            cx.error("no-arm-axis", message, place, format!("add `{ARM} = \"all\"` under `[axes]`"));
            // Stages that name it need no error of their own.
            self.out.declared.push(ARM.to_owned());
        }
    }

    /// A dependent axis counts for its parent as well: its values are spread over the parent's.
    fn size(&self, cx: &mut Cx<'_>) {
        let axes = &self.out.all;
        let counted = (0..axes.len()).filter(|at| !axes.iter().any(|axis| axis.of == Some(*at)));
        let cells = counted.fold(1u64, |n, at| n.saturating_mul(axes[at].values.len().max(1) as u64));
        if cells > MOST_CELLS {
            let message = format!("the matrix has {cells} cells, more than {MOST_CELLS}");
            cx.error(
                "too-many-cells",
                message,
                cx.table(&KeyPath::of(&["axes"])),
                "take smaller samples or fewer replicates",
            );
        }
    }
}

/// Whether a text can't stand in the name of a node.
fn is_odd(text: &str) -> bool {
    let odd = |c: char| c.is_control() || c.is_whitespace() || ",[]={}\"'\\*".contains(c);
    text.is_empty() || text.len() > LONGEST_VALUE || text.contains(odd)
}

const ODD_HELP: &str =
    "values stand in the names of nodes, so they have no spaces and none of , [ ] = { } * and quotes";

fn plain(text: String) -> AxisValue {
    AxisValue { text, parent: None }
}

/// `where`, checked.
struct Keep(Vec<(&'static str, Vec<String>)>);

impl Keep {
    fn read(cx: &mut Cx<'_>, keep: &BTreeMap<String, OneOrMany>, path: &KeyPath) -> Option<Self> {
        let kinds = words(&crate::manifest::kind::FileKind::Questions.schema(), "QuestionKind");
        let difficulties = words(&crate::manifest::kind::FileKind::Questions.schema(), "Difficulty");
        let mut out = Vec::new();
        let mut sound = true;
        for (field, wanted) in keep {
            let Some(known) = FIELDS.into_iter().find(|f| f == field) else {
                let what =
                    Unknown { code: "unknown-field", noun: "field of a question", table: None, none: "" };
                cx.unknown(&what, field, &FIELDS.map(str::to_owned), cx.key(&path.key(field)));
                sound = false;
                continue;
            };
            let allowed: &[String] = match known {
                "kind" => &kinds,
                "difficulty" => &difficulties,
                _ => &[],
            };
            for (at, value) in wanted.0.iter().enumerate() {
                if allowed.is_empty() || allowed.contains(value) {
                    continue;
                }
                let all = names(allowed.iter().map(String::as_str), 24);
                let help = match nearest(value, allowed.iter().map(String::as_str)) {
                    Some(near) => format!("did you mean `{near}`? allowed: {all}"),
                    None => format!("allowed: {all}"),
                };
                let here = path.key(field).index(at);
                let place = if cx.has(&here) { cx.at(&here) } else { cx.at(&path.key(field)) };
                cx.error(
                    "not-a-choice",
                    format!("no question has the {field} `{}`", short(value)),
                    place,
                    help,
                );
                sound = false;
            }
            out.push((known, wanted.0.clone()));
        }
        sound.then_some(Self(out))
    }

    fn takes(&self, question: &Question) -> bool {
        self.0.iter().all(|(field, wanted)| {
            let value = match *field {
                "kind" => word(&question.kind),
                "difficulty" => word(&question.difficulty),
                _ => question.id.clone(),
            };
            wanted.contains(&value)
        })
    }
}

fn word<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_value(value).ok().and_then(|v| v.as_str().map(str::to_owned)).unwrap_or_default()
}

/// The texts that an enumeration of a schema allows.
fn words(schema: &serde_json::Value, definition: &str) -> Vec<String> {
    let branches = schema["$defs"][definition]["oneOf"].as_array();
    branches.into_iter().flatten().filter_map(|b| b["const"].as_str().map(str::to_owned)).collect()
}

/// The questions that are kept; of a sample the smallest by a seeded hash of
/// their ids, so that a larger sample contains every smaller one.
fn pick(set: &QuestionSet, keep: &Keep, sample: Option<u32>, seed: u64) -> Vec<String> {
    let mut kept: Vec<&str> = set.question.iter().filter(|q| keep.takes(q)).map(|q| q.id.as_str()).collect();
    if let Some(sample) = sample {
        let rank = |id: &str| Digest::tagged("proofline/sample/1", format!("{seed}\n{id}").as_bytes());
        let mut ranked = kept.clone();
        ranked.sort_by_cached_key(|id| rank(id));
        ranked.truncate(sample as usize);
        let chosen: BTreeSet<&str> = ranked.into_iter().collect();
        kept.retain(|id| chosen.contains(id));
    }
    kept.into_iter().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::dataset::{Difficulty, QuestionKind};

    fn set(n: usize) -> QuestionSet {
        let question = |at: usize| Question {
            id: format!("q-{at:03}"),
            kind: if at.is_multiple_of(2) { QuestionKind::Locate } else { QuestionKind::Callers },
            difficulty: Difficulty::Easy,
            prompt: "where?".to_owned(),
            files: vec!["a".to_owned()],
            symbols: Vec::new(),
            mentions: Vec::new(),
            content: Vec::new(),
        };
        QuestionSet {
            format: 1,
            repo: "r".to_owned(),
            profile: None,
            warmup: Vec::new(),
            question: (0..n).map(question).collect(),
        }
    }

    #[test]
    fn a_larger_sample_contains_the_smaller() {
        let set = set(60);
        let all = Keep(Vec::new());
        for seed in 0..20 {
            let samples: Vec<Vec<String>> = (1..60).map(|n| pick(&set, &all, Some(n), seed)).collect();
            for pair in samples.windows(2) {
                assert_eq!(pair[1].len(), pair[0].len() + 1);
                assert!(pair[0].iter().all(|id| pair[1].contains(id)));
            }
        }
        assert_ne!(pick(&set, &all, Some(5), 1), pick(&set, &all, Some(5), 2));
    }

    #[test]
    fn a_sample_keeps_the_order_of_the_file_and_what_where_says() {
        let keep = Keep(vec![("kind", vec!["callers".to_owned()])]);
        let picked = pick(&set(20), &keep, Some(6), 7);
        let mut sorted = picked.clone();
        sorted.sort();
        assert_eq!(picked, sorted);
        assert!(picked.iter().all(|id| id[2..].parse::<usize>().unwrap() % 2 == 1));
        assert_eq!(pick(&set(20), &keep, Some(900), 7).len(), 10);
    }
}
