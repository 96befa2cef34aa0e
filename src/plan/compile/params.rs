//! Parameters: typed by their default, changed by `--set`.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use indexmap::IndexMap;
use serde_json::{Map, Value};

use super::recordings::CHECKOUTS;
use super::sets::{Set, Sets};
use super::{Cx, Unknown, short};
use crate::diag::{Diagnostic, Place, names, nearest};
use crate::manifest::path::KeyPath;
use crate::manifest::pipeline::Param;
use crate::plan::compiled::Source;
use crate::plan::template::{self, Reference};

/// The parameter that names the folder of repositories and questions.
pub(super) const DATASETS: &str = "datasets";

/// The type of a parameter.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Type {
    Text,
    Integer,
    Number,
    Flag,
    List,
}

impl Type {
    fn of(value: &Value) -> Option<Self> {
        match value {
            Value::String(_) => Some(Self::Text),
            Value::Number(number) if number.is_f64() => Some(Self::Number),
            Value::Number(_) => Some(Self::Integer),
            Value::Bool(_) => Some(Self::Flag),
            Value::Array(list) if list.iter().all(Value::is_string) => Some(Self::List),
            _ => None,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Text => "a text",
            Self::Integer => "a whole number",
            Self::Number => "a number",
            Self::Flag => "true or false",
            Self::List => "a list of texts",
        }
    }
}

/// The parameters of this invocation.
#[derive(Debug)]
pub(super) struct Params {
    /// By name, in order of the manifest.
    pub(super) values: IndexMap<String, Value>,
    /// Where repositories come from.
    pub(super) corpora: BTreeMap<String, (Source, Set)>,
    /// Those that `--set` gives.
    set: BTreeMap<String, Set>,
    /// Names in `[params]`, faulty ones included.
    declared: Vec<String>,
    /// Those that a misspelt name, or `params` as a whole, probably means.
    meant: RefCell<BTreeSet<String>>,
}

impl Params {
    pub(super) fn read(cx: &mut Cx<'_>, sets: Sets) -> Self {
        let declared = cx.declared("params");
        let mut out = Self {
            values: IndexMap::new(),
            corpora: sets.corpora,
            set: BTreeMap::new(),
            declared,
            meant: RefCell::new(BTreeSet::new()),
        };
        for (name, set) in sets.params {
            if out.declared.contains(&name) {
                out.set.insert(name, set);
            } else {
                out.unknown_set(cx, &name, &set);
            }
        }
        for (name, param) in cx.pipeline.params.clone() {
            if let Some(value) = out.value(cx, &name, &param) {
                out.values.insert(name, value);
            }
        }
        out
    }

    /// Whether a value that was given for this invocation was refused, so that what uses it can't
    /// be judged.
    pub(super) fn some_refused(&self) -> bool {
        self.set.keys().any(|name| !self.values.contains_key(name))
    }

    fn unknown_set(&self, cx: &mut Cx<'_>, name: &str, set: &Set) {
        let all = names(self.declared.iter().map(String::as_str), 24);
        let near = nearest(name, self.declared.iter().map(String::as_str));
        let help = match near {
            Some(near) => format!("did you mean `{near}`? this pipeline's parameters: {all}"),
            None if self.declared.is_empty() => "this pipeline has no parameters".to_owned(),
            None => {
                format!("this pipeline's parameters: {all}; and corpus.NAME for the source of a repository")
            }
        };
        cx.error("unknown-param", format!("there is no parameter `{}`", short(name)), set.name_place(), help);
    }

    fn value(&self, cx: &mut Cx<'_>, name: &str, param: &Param) -> Option<Value> {
        let path = KeyPath::of(&["params", name]);
        let default = path.key("default");
        let Some(kind) = Type::of(&param.default) else {
            let help = "a default is a text, a number, true or false, or a list of texts";
            cx.error(
                "bad-param",
                format!("the default of `{name}` has no type that a parameter can have"),
                cx.at(&default),
                help,
            );
            return None;
        };
        if param.list && kind != Type::List {
            let found = kind.words();
            let message = format!("`{name}` is said to be a list, but its default is {found}");
            let error = Diagnostic::error("bad-param", message).at(cx.at(&default), "");
            let error = error.at(cx.key(&path.key("list")), "said here");
            cx.found.push(error.help("write the default as a list, or leave `list` out"));
            return None;
        }
        Self::bounds_fit(cx, name, param, kind, &path);
        let file_is_sound = Self::allowed(cx, name, param, &param.default, &|_| None);
        let Some(set) = self.set.get(name) else { return file_is_sound.then(|| param.default.clone()) };
        let value = match typed(kind, set) {
            Ok(value) => value,
            Err(found) => {
                let message = format!("`{name}` is {}, and `{}` is not", kind.words(), short(&found));
                let error = Diagnostic::error("wrong-type", message).at(set.value_place(), "");
                let error = error.at(cx.at(&default), "typed by this default");
                let help = match kind {
                    Type::Flag => "write true or false".to_owned(),
                    Type::Integer => "write a whole number such as 3".to_owned(),
                    _ => format!("write {}", kind.words()),
                };
                cx.found.push(error.help(help));
                return None;
            }
        };
        let entries = set.entries();
        let place = |at: Option<usize>| {
            Some(
                at.and_then(|at| entries.get(at))
                    .map_or_else(|| set.value_place(), |(_, place)| place.clone()),
            )
        };
        Self::allowed(cx, name, param, &value, &place).then_some(value)
    }

    /// `min`, `max` and `choices` must suit the type.
    fn bounds_fit(cx: &mut Cx<'_>, name: &str, param: &Param, kind: Type, path: &KeyPath) {
        if !matches!(kind, Type::Integer | Type::Number) {
            for (key, bound) in [("min", param.min), ("max", param.max)] {
                if bound.is_some() {
                    let message = format!("`{name}` is {}, which has no `{key}`", kind.words());
                    let error = Diagnostic::error("bad-param", message).at(cx.key(&path.key(key)), "");
                    let error = error.at(cx.at(&path.key("default")), "the default gives the type");
                    cx.found.push(error.help(format!("leave `{key}` out, or make the default a number")));
                }
            }
        }
        if let (Some(min), Some(max)) = (param.min, param.max)
            && min > max
        {
            let message = format!("the smallest value of `{name}` is above its largest");
            cx.error("out-of-range", message, cx.at(&path.key("min")), "exchange `min` and `max`");
        }
        for (at, choice) in param.choices.iter().flatten().enumerate() {
            let fits = match kind {
                Type::List | Type::Text => choice.is_string(),
                Type::Number => choice.is_number(),
                Type::Integer => choice.is_i64() || choice.is_u64(),
                Type::Flag => choice.is_boolean(),
            };
            if !fits {
                let message =
                    format!("the choice {choice} isn't {}, as the default of `{name}` is", kind.words());
                let error =
                    Diagnostic::error("bad-param", message).at(cx.at(&path.key("choices").index(at)), "");
                let error = error.at(cx.at(&path.key("default")), "the default");
                cx.found.push(error.help("choices have the type of the default"));
            }
        }
    }

    /// Whether a value keeps the bounds and is among the choices; `place` says
    /// where it (or an entry of it) was typed, if not in the file.
    fn allowed(
        cx: &mut Cx<'_>,
        name: &str,
        param: &Param,
        value: &Value,
        place: &dyn Fn(Option<usize>) -> Option<Place>,
    ) -> bool {
        let path = KeyPath::of(&["params", name]);
        let default = path.key("default");
        let mut sound = true;
        let crossed = param.min.zip(param.max).is_some_and(|(min, max)| min > max);
        if let Some(number) = value.as_f64().filter(|_| !crossed) {
            let below = param.min.filter(|min| number < *min).map(|min| ("min", "smallest", min));
            let above = param.max.filter(|max| number > *max).map(|max| ("max", "largest", max));
            if let Some((key, word, bound)) = below.or(above) {
                let here = place(None).unwrap_or_else(|| cx.at(&default));
                let error =
                    Diagnostic::error("out-of-range", format!("`{name}` can't be {value}")).at(here, "");
                let error = error.at(cx.at(&path.key(key)), "the bound");
                cx.found.push(error.help(format!("the {word} value allowed is {bound}")));
                sound = false;
            }
        }
        let Some(choices) = &param.choices else { return sound };
        let given: Vec<(Option<usize>, &Value)> = match value {
            Value::Array(list) => list.iter().enumerate().map(|(at, v)| (Some(at), v)).collect(),
            other => vec![(None, other)],
        };
        for (at, given) in given {
            let same = |c: &Value| c == given || (c.as_f64().is_some() && c.as_f64() == given.as_f64());
            if choices.iter().any(same) {
                continue;
            }
            let here =
                place(at).unwrap_or_else(|| cx.at(&at.map_or(default.clone(), |at| default.index(at))));
            let word = |v: &Value| v.as_str().map_or_else(|| v.to_string(), str::to_owned);
            let all: Vec<String> = choices.iter().map(word).collect();
            let near = nearest(&word(given), all.iter().map(String::as_str)).map(str::to_owned);
            let listed = names(all.iter().map(String::as_str), 24);
            let help = near.map_or_else(
                || format!("allowed: {listed}"),
                |n| format!("did you mean `{n}`? allowed: {listed}"),
            );
            let error =
                Diagnostic::error("not-a-choice", format!("`{name}` can't be `{}`", short(&word(given))));
            cx.found.push(error.at(here, "").at(cx.at(&path.key("choices")), "the choices").help(help));
            sound = false;
        }
        sound
    }

    /// The variables of templates at compile time.
    pub(super) fn vars(&self) -> Map<String, Value> {
        let params = self.values.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        Map::from_iter([("params".to_owned(), Value::Object(params))])
    }

    /// Whether `--set` gives this parameter.
    pub(super) fn is_set(&self, name: &str) -> bool {
        self.set.contains_key(name)
    }

    /// Whether a text depends on a parameter that `--set` gives.
    pub(super) fn changed(&self, text: &str) -> bool {
        template::references(text).unwrap_or_default().iter().any(|reference| match reference {
            Reference::Param(name) => self.is_set(name),
            Reference::Params => !self.set.is_empty(),
            Reference::Name(_) => false,
        })
    }

    /// Whether a text was typed on the command line: as a path it may lie anywhere.
    pub(super) fn typed(&self, text: &str) -> bool {
        self.set.values().any(|set| set.value == text || set.entries().iter().any(|(entry, _)| entry == text))
    }

    /// Where the value of a parameter (or an entry of it) was given.
    pub(super) fn place(&self, cx: &Cx<'_>, name: &str, entry: Option<usize>) -> Place {
        if let Some(set) = self.set.get(name) {
            let entries = set.entries();
            return entry
                .and_then(|at| entries.get(at))
                .map_or_else(|| set.value_place(), |(_, place)| place.clone());
        }
        let path = KeyPath::of(&["params", name, "default"]);
        cx.at(&entry.map_or(path.clone(), |at| path.index(at)))
    }

    /// Reports a template that names a parameter that isn't there; says whether all are.
    pub(super) fn known(&self, cx: &mut Cx<'_>, references: &[Reference], place: &Place) -> bool {
        let mut sound = true;
        for reference in references {
            match reference {
                Reference::Param(name) => {
                    if !self.declared.contains(name) {
                        let what = Unknown {
                            code: "unknown-param",
                            noun: "parameter",
                            table: Some("params"),
                            none: "declare it under `[params]`: `NAME = { default = ... }`",
                        };
                        cx.unknown(&what, name, &self.declared, place.clone());
                        // Probably a use of that one: no second complaint that it has none.
                        if let Some(near) = nearest(name, self.declared.iter().map(String::as_str)) {
                            self.meant.borrow_mut().insert(near.to_owned());
                        }
                    }
                    // A declared one without a value has been reported where it stands.
                    sound &= self.values.contains_key(name);
                }
                Reference::Params => self.meant.borrow_mut().extend(self.declared.iter().cloned()),
                Reference::Name(_) => {}
            }
        }
        sound
    }

    /// Warns of parameters that nothing uses.
    pub(super) fn report_unused(&self, cx: &mut Cx<'_>) {
        for name in &self.declared {
            // As written: a template in a faulty part of the file is a use as well.
            let used = self.meant.borrow().contains(name) || cx.document.mentions(&format!("params.{name}"));
            if !used && name != DATASETS && name != CHECKOUTS {
                let place = cx.key(&KeyPath::of(&["params", name]));
                let help = format!("use it as `{{{{ params.{name} }}}}`, or take it out");
                cx.warning("unused-param", format!("nothing uses the parameter `{name}`"), place, help);
            }
        }
    }
}

/// The value of a `--set`, or the part of it that isn't of the type.
fn typed(kind: Type, set: &Set) -> Result<Value, String> {
    let text = set.value.trim();
    let bad = || set.value.clone();
    Ok(match kind {
        Type::Text => Value::String(set.value.clone()),
        Type::Integer => Value::from(text.parse::<i64>().map_err(|_| bad())?),
        Type::Number => {
            let number = text.parse::<f64>().map_err(|_| bad())?;
            serde_json::Number::from_f64(number).map(Value::Number).ok_or_else(bad)?
        }
        Type::Flag => Value::Bool(text.parse().map_err(|_| bad())?),
        Type::List => set.entries().into_iter().map(|(entry, _)| Value::String(entry)).collect(),
    })
}
