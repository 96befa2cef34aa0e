//! Templates of a manifest that are filled in at compile time.

use std::rc::Rc;

use serde_json::{Map, Value};

use super::params::Params;
use super::{Cx, short};
use crate::diag::{Diagnostic, Place};
use crate::manifest::path::KeyPath;
use crate::manifest::templated::{Templated, is_template};
use crate::plan::template::{self, Reference};

/// A value and where it was written.
#[derive(Clone, Debug)]
pub(super) struct Placed {
    pub(super) text: String,
    written: Written,
}

/// Where a value was written. A place is looked up when something is to be
/// said of it: a list may have many thousand entries.
#[derive(Clone, Debug)]
enum Written {
    At(Place),
    Entry(Rc<KeyPath>, usize),
}

impl Placed {
    /// The place that it was written at.
    pub(super) fn place(&self, cx: &Cx<'_>) -> Place {
        match &self.written {
            Written::At(place) => place.clone(),
            Written::Entry(list, at) => cx.at(&list.index(*at)),
        }
    }
}

/// Fills in a text with parameters (and `item`, where there is one).
pub(super) fn value(
    cx: &mut Cx<'_>,
    params: &Params,
    item: Option<&str>,
    text: &str,
    place: &Place,
) -> Option<Value> {
    if !is_template(text) {
        return Some(Value::String(text.to_owned()));
    }
    let references = match template::references(text) {
        Ok(references) => references,
        Err(error) => {
            bad_template(cx, &error, place);
            return None;
        }
    };
    let mut sound = params.known(cx, &references, place);
    for reference in &references {
        let Reference::Name(name) = reference else { continue };
        if name == "item" && item.is_some() {
            continue;
        }
        unknown_name(cx, name, item.is_some(), text, place);
        sound = false;
    }
    if !sound {
        return None;
    }
    let mut vars: Map<String, Value> = params.vars();
    vars.extend(item.map(|item| ("item".to_owned(), Value::String(item.to_owned()))));
    match template::render_value(text, &vars) {
        Ok(value) => Some(value),
        Err(error) => {
            bad_template(cx, &error, place);
            None
        }
    }
}

/// Reports a name that has no value when the file is compiled.
fn unknown_name(cx: &mut Cx<'_>, name: &str, item: bool, text: &str, place: &Place) {
    let axis = cx.has(&KeyPath::of(&["axes", name]));
    let message = if axis {
        format!("the axis `{name}` has no value yet in the template `{}`", short(text))
    } else {
        format!("the template `{}` names `{name}`, which doesn't exist", short(text))
    };
    let mut error = Diagnostic::error("unknown-variable", message).at(place.clone(), "");
    let help = if name == "item" {
        // The arm whose table holds the template lacks the list that `item` runs over.
        let arms = cx.document.keys(&KeyPath::of(&["arm"]));
        let tables = arms.into_iter().map(|arm| cx.table(&KeyPath::of(&["arm", arm])));
        let around = tables.into_iter().find(|table| table.path == place.path && table.covers(place.start));
        error = error.maybe_at(around, "this arm has no `over`");
        "`item` is an entry of an arm's `over`: add `over = [...]`"
    } else if item {
        "only `params.NAME` and `item` are known here"
    } else {
        "only `params.NAME` is known here"
    };
    cx.found.push(error.help(help));
}

/// Reports a template that can't be read or filled in.
pub(super) fn bad_template(cx: &mut Cx<'_>, error: &template::TemplateError, place: &Place) {
    let help = "templates are `{{ params.NAME }}`; in commands also `{{ AXIS }}`";
    cx.error("bad-template", error.to_string(), place.clone(), help);
}

/// Fills in a text that must stay a text.
pub(super) fn text(
    cx: &mut Cx<'_>,
    params: &Params,
    item: Option<&str>,
    text: &str,
    path: &KeyPath,
) -> Option<String> {
    if !is_template(text) {
        return Some(text.to_owned());
    }
    let place = cx.at(path);
    match value(cx, params, item, text, &place)? {
        Value::String(text) => Some(text),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        other => {
            wrong(cx, params, text, path, &other, "a text");
            None
        }
    }
}

/// The entries of a list, each with the place that it was written at.
pub(super) fn list(
    cx: &mut Cx<'_>,
    params: &Params,
    list: &Templated<Vec<String>>,
    path: &KeyPath,
) -> Option<Vec<Placed>> {
    match list {
        Templated::Value(entries) => {
            let list = Rc::new(path.clone());
            let mut out = Vec::with_capacity(entries.len());
            for (at, entry) in entries.iter().enumerate() {
                let text = if is_template(entry) {
                    text(cx, params, None, entry, &path.index(at))?
                } else {
                    entry.clone()
                };
                out.push(Placed { text, written: Written::Entry(Rc::clone(&list), at) });
            }
            Some(out)
        }
        Templated::Template(written) => {
            let place = cx.at(path);
            let found = value(cx, params, None, written, &place)?;
            let entries: Option<Vec<String>> =
                found.as_array().and_then(|list| list.iter().map(word).collect());
            let Some(entries) = entries else {
                wrong(cx, params, written, path, &found, "a list of texts");
                return None;
            };
            let param = template::lone_param(written);
            let placed = entries.into_iter().enumerate().map(|(at, text)| {
                let place = param.map_or_else(|| place.clone(), |name| params.place(cx, name, Some(at)));
                Placed { text, written: Written::At(place) }
            });
            Some(placed.collect())
        }
    }
}

fn word(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// A whole number of at least `least` and at most `most`.
pub(super) fn count(
    cx: &mut Cx<'_>,
    params: &Params,
    number: &Templated<u32>,
    path: &KeyPath,
    (least, most): (u32, u32),
) -> Option<u32> {
    let found = match number {
        Templated::Value(number) => u64::from(*number),
        Templated::Template(written) => {
            let place = cx.at(path);
            let found = value(cx, params, None, written, &place)?;
            let Some(number) = found.as_u64() else {
                wrong(cx, params, written, path, &found, &format!("a whole number of at least {least}"));
                return None;
            };
            number
        }
    };
    let number = u32::try_from(found).ok().filter(|n| (least..=most).contains(n));
    if number.is_none() {
        let written = match number_text(number_of(cx, path)) {
            Some(text) => text,
            None => found.to_string(),
        };
        let error =
            Diagnostic::error("out-of-range", format!("`{path}` can't be {found}")).at(cx.at(path), "");
        let error = origin(cx, params, error, &written);
        cx.found.push(error.help(format!("write a whole number from {least} to {most}")));
    }
    number
}

fn number_of<'c>(cx: &'c Cx<'_>, path: &KeyPath) -> Option<&'c Value> {
    cx.document.get(path)
}

fn number_text(value: Option<&Value>) -> Option<String> {
    value.and_then(Value::as_str).map(str::to_owned)
}

/// Reports that a template yields another type than is wanted.
pub(super) fn wrong(
    cx: &mut Cx<'_>,
    params: &Params,
    text: &str,
    path: &KeyPath,
    found: &Value,
    expected: &str,
) {
    let words = match found {
        Value::Null => "nothing".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "a table".to_owned(),
        Value::String(text) => format!("the text {:?}", short(text)),
        other => format!("{other}"),
    };
    let message = format!("`{path}` becomes {words}, expected {expected}");
    let error = Diagnostic::error("wrong-type", message).at(cx.at(path), "");
    let error = origin(cx, params, error, text);
    cx.found.push(error.help(format!("let the template yield {expected}")));
}

/// Adds the place where the parameter of a lone template got its value.
fn origin(cx: &Cx<'_>, params: &Params, error: Diagnostic, text: &str) -> Diagnostic {
    let Some(name) = template::lone_param(text) else { return error };
    error.at(params.place(cx, name, None), "the value comes from here")
}
