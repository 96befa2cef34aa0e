//! From rows to one number per replicate.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::artifact::{CellState, GradeRow, Grades};
use crate::grade::metric::{Direction, FOOTPRINT_RSS, Layer, MetricDef, Pool, metric};
use crate::manifest::pipeline::Profile;
use crate::stats;

use super::{Cell, CustomNumber, Summary};

/// Fewest questions of which an interval is given.
const FEWEST: usize = 5;
/// Why a column has no number although its cells have it.
const NO_CALL: &str = "no call succeeded";
/// So many different reasons for missing values are kept.
const MOST_WORDS: usize = 3;
/// Column that every list of results has where all are counted.
const CALLS: &str = "calls";
/// Level of descriptive intervals.
const LEVEL: f64 = 0.95;

/// One row with where it comes from.
#[derive(Clone, Copy)]
pub(super) struct Row<'a> {
    pub(super) repo: &'a str,
    pub(super) replicate: Option<&'a str>,
    pub(super) grade: &'a GradeRow,
    /// Why columns have no value.
    why: &'a BTreeMap<String, String>,
}

/// What is known of one arm.
pub(super) struct Arm<'a> {
    pub(super) name: Option<&'a str>,
    pub(super) cells: Vec<&'a Cell>,
    custom: Vec<&'a CustomNumber>,
    /// Replicates, numbers in their order; one without a label when there is no such axis.
    replicates: Vec<Option<&'a str>>,
    /// It has rows and none of them is valid: nothing about its quality was measured.
    void: bool,
    /// A percentile of no value is 0, where there are lists of results.
    zeros: bool,
    /// Rows sorted by repository, task and replicate, so that sums run in one order.
    sorted: Vec<Row<'a>>,
}

/// One metric of one arm: a number per replicate and what is known of them.
#[derive(Clone, Debug)]
pub(super) struct Series {
    pub(super) name: String,
    pub(super) layer: Layer,
    pub(super) measured: bool,
    pub(super) unit: &'static str,
    pub(super) direction: Option<Direction>,
    pub(super) replicates: Vec<Option<f64>>,
    /// How many of `of` gave a value.
    pub(super) n: u64,
    pub(super) of: &'static str,
    pub(super) unscored: u64,
    /// Why there is no number.
    pub(super) why: Option<String>,
    /// How many answers have no value although they count, and the words of whoever gave none.
    pub(super) silent: u64,
    pub(super) words: Vec<String>,
    interval: Option<stats::Interval>,
    per_protocol: Option<(Option<f64>, u64)>,
}

impl<'a> Arm<'a> {
    pub(super) fn new(name: Option<&'a String>, input: &'a Summary) -> Self {
        let name = name.map(String::as_str);
        let cells: Vec<&Cell> = input.cells.iter().filter(|c| c.arm.as_deref() == name).collect();
        // A number without an arm holds for every arm.
        let custom: Vec<&CustomNumber> =
            input.custom.iter().filter(|c| c.arm.is_none() || c.arm.as_deref() == name).collect();
        let labels: BTreeSet<(usize, &str)> = cells
            .iter()
            .filter_map(|c| c.replicate.as_deref())
            .chain(custom.iter().filter_map(|c| c.replicate.as_deref()))
            .map(|label| (label.len(), label))
            .collect();
        let mut replicates: Vec<Option<&str>> = labels.into_iter().map(|(_, label)| Some(label)).collect();
        if replicates.is_empty() {
            replicates.push(None);
        }
        let mut sorted: Vec<Row<'a>> = cells.iter().flat_map(|cell| rows_of(cell)).collect();
        sorted
            .sort_by(|a, b| (a.repo, &a.grade.task, a.replicate).cmp(&(b.repo, &b.grade.task, b.replicate)));
        let zeros = input.profile == Profile::RagBench;
        let void = !zeros && !sorted.is_empty() && !sorted.iter().any(|r| r.grade.state == CellState::Valid);
        Self { name, cells, custom, replicates, void, zeros, sorted }
    }

    /// The same arm with some of its rows; numbers of whole nodes are left out.
    pub(super) fn only(&self, keep: impl Fn(&Row<'a>) -> bool) -> Self {
        Self {
            name: self.name,
            cells: Vec::new(),
            custom: Vec::new(),
            replicates: self.replicates.clone(),
            void: self.void,
            zeros: self.zeros,
            sorted: self.sorted.iter().copied().filter(|row| keep(row)).collect(),
        }
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = Row<'a>> + '_ {
        self.sorted.iter().copied()
    }

    pub(super) fn replicate_count(&self) -> usize {
        self.replicates.len()
    }

    /// The numbers of a metric of ours.
    pub(super) fn series(&self, def: &MetricDef) -> Series {
        let mut out = match def.pool {
            Pool::Mean(column) => self.over_questions(column, stats::mean, true),
            Pool::Percentile(column, p) => {
                self.over_questions(column, |v| stats::quantile(v, p / 100.0), false)
            }
            Pool::NodeSum(column) => self.over_nodes(column, |v| v.iter().sum()),
            Pool::NodeMax(column) => self.over_nodes(column, |v| v.iter().copied().fold(f64::MIN, f64::max)),
            Pool::Scaled(of, factor) => match metric(of) {
                Some(base) => self.series(base).map(|v| v * factor),
                None => Series::empty("questions"),
            },
            Pool::Footprint => {
                let memory = self.series(&MetricDef { pool: Pool::NodeMax(FOOTPRINT_RSS), ..*def });
                let index = self.series(&MetricDef { pool: Pool::NodeSum("index_mib"), ..*def });
                let mut sum = memory.clone();
                for (i, value) in sum.replicates.iter_mut().enumerate() {
                    *value = value.zip(index.at(i)).map(|(a, b)| (a + b) / 1000.0);
                }
                sum.n = memory.n.min(index.n);
                sum.unscored = memory.unscored.max(index.unscored);
                let name = |what: &str, why: Option<String>| why.map(|w| format!("{what}: {w}"));
                sum.why = name("memory", memory.why).or(name("index size", index.why));
                sum
            }
        };
        if def.layer != Layer::Retrieval && out.why.as_deref() == Some(NO_CALL) {
            out.why = Some("no answer could be scored".to_owned());
        }
        def.name.clone_into(&mut out.name);
        out.layer = def.layer;
        out.measured = def.measured;
        out.unit = def.unit;
        out.direction = Some(def.direction);
        out
    }

    /// The numbers of command stages, by name.
    pub(super) fn custom_series(&self) -> Vec<Series> {
        let names: BTreeSet<&str> = self.custom.iter().map(|c| c.metric.as_str()).collect();
        let lost = self.cells.iter().filter(|c| c.command == Some(false)).count();
        names
            .into_iter()
            .map(|name| {
                let of_metric: Vec<&&CustomNumber> =
                    self.custom.iter().filter(|c| c.metric == name).collect();
                let mut out = Series::empty("nodes");
                name.clone_into(&mut out.name);
                out.layer = Layer::Custom;
                out.measured = of_metric.iter().any(|c| c.measured);
                out.n = count(of_metric.iter().filter(|c| c.value.is_some()));
                out.unscored = count(of_metric.iter().filter(|c| c.value.is_none()));
                out.silent = out.unscored;
                out.quote(of_metric.iter().filter(|c| c.value.is_none()).filter_map(|c| c.why.as_deref()));
                for label in &self.replicates {
                    let mut values: Vec<f64> = of_metric
                        .iter()
                        .filter(|c| c.replicate.is_none() || c.replicate.as_deref() == *label)
                        .filter_map(|c| c.value.filter(|v| v.is_finite()))
                        .collect();
                    values.sort_by(f64::total_cmp);
                    // A mean over the nodes that happened to end would hide those that didn't.
                    out.replicates.push(if lost > 0 { None } else { stats::mean(&values) });
                }
                match lost {
                    0 => out.explain("no node gave a number"),
                    n => out.explain(&format!("{n} of its nodes did not end")),
                }
            })
            .collect()
    }

    fn over_questions(&self, column: &str, pooled: impl Fn(&[f64]) -> Option<f64>, is_mean: bool) -> Series {
        let with_value =
            |row: &Row<'_>| row.grade.values.get(column).copied().flatten().filter(|v| v.is_finite());
        let per_replicate = |keep: &dyn Fn(&Row<'_>) -> bool| -> Vec<Option<f64>> {
            self.replicates
                .iter()
                .map(|label| {
                    let values: Vec<f64> = self
                        .rows()
                        .filter(|row| row.replicate == *label && keep(row))
                        .filter_map(|row| with_value(&row))
                        .collect();
                    let is_list = |row: &Row<'_>| {
                        let has = |column: &str| row.grade.values.contains_key(column);
                        row.replicate == *label && keep(row) && (has(column) || has(CALLS))
                    };
                    let zero =
                        self.zeros && !is_mean && values.is_empty() && self.rows().any(|row| is_list(&row));
                    if zero { Some(0.0) } else { pooled(&values) }
                })
                .collect()
        };
        let mut by_question: BTreeMap<(&str, &str), Vec<f64>> = BTreeMap::new();
        for row in self.rows() {
            if let Some(value) = with_value(&row) {
                by_question.entry((row.repo, &row.grade.task)).or_default().push(value);
            }
        }
        let mut out = Series::empty("questions");
        if self.void {
            // A server that never worked has no score; zero would be one.
            out.replicates = vec![None; self.replicates.len()];
            out.unscored =
                count(self.rows().map(|r| (r.repo, &r.grade.task)).collect::<BTreeSet<_>>().iter());
            return out.explain("no cell is valid");
        }
        out.replicates = per_replicate(&|_| true);
        out.n = count(by_question.keys());
        out.unscored =
            count(self.rows().filter(|r| r.grade.values.contains_key(column) && with_value(r).is_none()));
        let silent = || {
            let blank = |r: &Row<'_>| r.grade.values.contains_key(column) && with_value(r).is_none();
            self.rows().filter(move |r| blank(r) && !super::dropped(r))
        };
        out.silent = count(silent());
        out.quote(silent().filter_map(|r| r.why.get(column).map(String::as_str)));
        if is_mean {
            let means: Vec<f64> = by_question.values().filter_map(|v| stats::mean(v)).collect();
            // A t interval of a handful of values says nothing, and may leave the metric's range.
            out.interval = if means.len() >= FEWEST { stats::mean_interval(&means, LEVEL) } else { None };
            let valid = |row: &Row<'_>| row.grade.state == CellState::Valid;
            if self.rows().any(|row| !valid(&row) && with_value(&row).is_some()) {
                let questions: BTreeSet<_> = self
                    .rows()
                    .filter(|row| valid(row) && with_value(row).is_some())
                    .map(|row| (row.repo, &row.grade.task))
                    .collect();
                out.per_protocol = Some((middle(&per_replicate(&valid)), count(questions.iter())));
            }
        }
        let why = if self.rows().next().is_none() {
            "no cell has an answer"
        } else if out.unscored > 0 {
            NO_CALL
        } else {
            "no cell has a value to count"
        };
        out.explain(why)
    }

    fn over_nodes(&self, column: &str, pooled: impl Fn(&[f64]) -> f64) -> Series {
        let mut out = Series::empty("repositories");
        let mut repos = BTreeSet::new();
        let mut lacking = BTreeSet::new();
        for label in &self.replicates {
            let mut cells: Vec<&&Cell> = self
                .cells
                .iter()
                .filter(|c| c.command.is_none() && c.replicate.as_deref() == *label)
                .collect();
            cells.sort_by_key(|c| c.repo.as_deref());
            let mut values = Vec::new();
            let mut complete = !cells.is_empty();
            for cell in cells {
                let node = cell.grades.as_ref().and_then(|g: &Grades| g.node.get(column).copied());
                match (node, &cell.grades) {
                    (Some(Some(value)), _) if value.is_finite() => {
                        values.push(value);
                        repos.insert(cell.repo.as_deref());
                    }
                    (Some(_), _) | (None, None) => {
                        complete = false;
                        out.unscored += 1;
                        lacking.insert(cell.repo.as_deref().unwrap_or("the corpus"));
                    }
                    // The column does not apply, e.g. a server without an index step.
                    (None, Some(_)) => {}
                }
            }
            out.replicates.push((complete && !values.is_empty()).then(|| pooled(&values)));
        }
        out.n = count(repos.iter());
        // What an ingest measured once is no replicate of itself.
        if out.replicates.windows(2).all(|pair| pair[0] == pair[1])
            && matches!(column, "ingest_s" | "index_mib")
        {
            out.once();
        }
        let why = if lacking.is_empty() {
            "it does not apply to this arm".to_owned()
        } else {
            format!("not measured on {}", lacking.into_iter().collect::<Vec<_>>().join(", "))
        };
        out.explain(&why)
    }
}

impl Series {
    fn empty(of: &'static str) -> Self {
        Self {
            name: String::new(),
            layer: Layer::Custom,
            measured: false,
            unit: "",
            direction: None,
            replicates: Vec::new(),
            n: 0,
            of,
            unscored: 0,
            why: None,
            silent: 0,
            words: Vec::new(),
            interval: None,
            per_protocol: None,
        }
    }

    /// Median over the replicates that have a number.
    pub(super) fn value(&self) -> Option<f64> {
        middle(&self.replicates)
    }

    /// The number of a replicate; one that was measured once holds for all.
    pub(super) fn at(&self, replicate: usize) -> Option<f64> {
        let only = (self.replicates.len() == 1).then(|| self.replicates[0]);
        only.unwrap_or_else(|| self.replicates.get(replicate).copied().flatten())
    }

    fn once(&mut self) {
        self.replicates.truncate(1);
    }

    fn map(mut self, with: impl Fn(f64) -> f64) -> Self {
        for value in &mut self.replicates {
            *value = value.map(&with);
        }
        self.interval = None;
        self.per_protocol = None;
        self
    }

    /// Keeps some of the words that say why there is no value.
    fn quote<'w>(&mut self, words: impl Iterator<Item = &'w str>) {
        let all: BTreeSet<&str> = words.collect();
        self.words = all.into_iter().take(MOST_WORDS).map(str::to_owned).collect();
    }

    fn explain(mut self, why: &str) -> Self {
        self.why = self.value().is_none().then(|| why.to_owned());
        self
    }

    /// The metric's entry in the result.
    pub(super) fn json(&self) -> Value {
        let mut out = spread(&self.replicates);
        let mut entry = Map::new();
        entry.insert("value".to_owned(), json!(self.value()));
        entry.insert("n".to_owned(), json!(self.n));
        entry.insert("of".to_owned(), json!(self.of));
        entry.insert("unscored".to_owned(), json!(self.unscored));
        entry.insert("unit".to_owned(), json!((!self.unit.is_empty()).then_some(self.unit)));
        entry.insert("direction".to_owned(), json!(self.direction));
        entry.insert("measured".to_owned(), json!(self.measured));
        entry.append(&mut out);
        if let Some(why) = &self.why {
            entry.insert("why".to_owned(), json!(why));
        }
        if let Some(i) = self.interval {
            entry.insert(
                "interval".to_owned(),
                json!({ "low": i.low, "high": i.high, "level": LEVEL, "method": "t over questions, descriptive" }),
            );
        }
        if let Some((value, n)) = self.per_protocol {
            entry.insert("per_protocol".to_owned(), json!({ "value": value, "n": n }));
        }
        Value::Object(entry)
    }
}

/// `replicates`, `iqr`, `cv` and `identical` of numbers over replicates.
pub(super) fn spread(replicates: &[Option<f64>]) -> Map<String, Value> {
    let known: Vec<f64> = replicates.iter().copied().flatten().collect();
    let identical = (replicates.len() > 1).then(|| same(replicates));
    let mut out = Map::new();
    out.insert("replicates".to_owned(), json!(replicates));
    out.insert("iqr".to_owned(), json!(stats::iqr(&known)));
    out.insert("cv".to_owned(), json!(stats::cv(&known)));
    out.insert("identical".to_owned(), json!(identical));
    out
}

/// Are the replicates of all these metrics identical? None when there are
/// fewer than two replicates, or no numbers.
pub(super) fn identical<'a>(series: impl Iterator<Item = &'a Series>) -> Option<bool> {
    let several: Vec<&Series> = series.filter(|s| s.replicates.len() > 1 && s.value().is_some()).collect();
    (!several.is_empty()).then(|| several.iter().all(|s| same(&s.replicates)))
}

/// Median of the numbers that there are.
pub(super) fn middle(replicates: &[Option<f64>]) -> Option<f64> {
    stats::median(&replicates.iter().copied().flatten().collect::<Vec<_>>())
}

/// Bit for bit the same number in each replicate.
fn same(replicates: &[Option<f64>]) -> bool {
    replicates.iter().all(|v| v.is_some() && *v == replicates[0])
}

fn rows_of(cell: &Cell) -> impl Iterator<Item = Row<'_>> {
    cell.grades.iter().flat_map(|g| g.rows.iter().map(move |grade| (g, grade))).map(|(g, grade)| Row {
        repo: cell.repo.as_deref().unwrap_or_default(),
        replicate: cell.replicate.as_deref(),
        grade,
        why: &g.why,
    })
}

fn count<T>(items: impl Iterator<Item = T>) -> u64 {
    items.count() as u64
}
