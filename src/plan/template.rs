//! `{{ }}` in manifests: parameters at compile time, axis values per cell.
//!
//! Strict: a name that is not there is an error, never an empty text. There
//! is nothing to include or load, no environment, and a bound on the work.
//! This is the only place of the plan that knows the template engine.

use std::fmt::Write as _;
use std::io;
use std::sync::LazyLock;

use indexmap::IndexMap;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, ValueKind};
use minijinja::{Environment, ErrorKind, UndefinedBehavior};
use serde_json::{Map, Value};

use crate::manifest::templated::is_template;

/// Steps of the template machine; a template of a manifest takes some tens.
const FUEL: u64 = 20_000;
/// The longest template and the longest result, in bytes.
const LONGEST: usize = 64 * 1024;

/// A template that yields no text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// It can't be read.
    #[error("the template `{template}` can't be read: {reason}")]
    Syntax {
        /// The template.
        template: String,
        /// The engine's words.
        reason: String,
    },
    /// It names something that doesn't exist.
    #[error("the template `{template}` names something that doesn't exist")]
    Undefined {
        /// The template.
        template: String,
    },
    /// It does too much work or makes too long a text.
    #[error("the template `{template}` does too much work or makes too long a text")]
    TooMuch {
        /// The template.
        template: String,
    },
    /// It fails while it is filled in.
    #[error("the template `{template}` can't be filled in: {reason}")]
    Failed {
        /// The template.
        template: String,
        /// The engine's words.
        reason: String,
    },
}

/// A name that a template uses and does not define itself.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reference {
    /// `params.NAME`.
    Param(String),
    /// `params` as a whole.
    Params,
    /// Any other name: an axis, or `item`.
    Name(String),
}

/// Made once: it is the same for every text.
static ENVIRONMENT: LazyLock<Environment<'static>> = LazyLock::new(environment);

fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_fuel(Some(FUEL));
    environment.set_recursion_limit(50);
    // A command's argument keeps the newline that it ends in.
    if let Ok(syntax) = SyntaxConfig::builder().keep_trailing_newline(true).build() {
        environment.set_syntax(syntax);
    }
    // A list or a table has no spelling as one argument.
    environment.set_formatter(|out, state, value| {
        if matches!(value.kind(), ValueKind::Seq | ValueKind::Map | ValueKind::Iterable) {
            let what = format!("a {} can't be written as text; name one of its values", value.kind());
            return Err(minijinja::Error::new(ErrorKind::InvalidOperation, what));
        }
        minijinja::escape_formatter(out, state, value)
    });
    // It would show the whole context.
    environment.remove_global("debug");
    environment
}

/// The names that a text refers to, in order; none for a text without `{{ }}`.
///
/// # Errors
/// When the text is no template.
pub fn references(text: &str) -> Result<Vec<Reference>, TemplateError> {
    if !is_template(text) {
        return Ok(Vec::new());
    }
    if text.len() > LONGEST {
        return Err(TemplateError::TooMuch { template: shown(text) });
    }
    let environment = &*ENVIRONMENT;
    let template = environment.template_from_str(text).map_err(|e| explain(text, &e))?;
    let known: Vec<String> = environment.globals().map(|(name, _)| name.to_owned()).collect();
    let mut out: Vec<Reference> = template
        .undeclared_variables(true)
        .into_iter()
        .filter(|name| !known.contains(name))
        .map(|name| {
            let mut parts = name.split('.');
            match (parts.next().unwrap_or_default(), parts.next()) {
                ("params", Some(param)) => Reference::Param(param.to_owned()),
                ("params", None) => Reference::Params,
                (other, _) => Reference::Name(other.to_owned()),
            }
        })
        .collect();
    out.sort();
    out.dedup();
    Ok(out)
}

/// The expression of a text that is one `{{ expression }}` and nothing else.
#[must_use]
pub fn lone(text: &str) -> Option<&str> {
    let inner = text.trim().strip_prefix("{{")?.strip_suffix("}}")?;
    (!inner.contains("{{") && !inner.contains("}}"))
        .then(|| inner.trim_matches(|c: char| c == '-' || c.is_whitespace()))
}

/// The parameter that a text consists of, as in `{{ params.repos }}`.
#[must_use]
pub fn lone_param(text: &str) -> Option<&str> {
    let name = lone(text)?.strip_prefix("params.")?;
    name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_').then_some(name)
}

/// Fills in a text. One that is a single `{{ expression }}` keeps the
/// expression's type; any other becomes a text.
///
/// # Errors
/// See [`TemplateError`].
pub fn render_value(text: &str, vars: &Map<String, Value>) -> Result<Value, TemplateError> {
    if !is_template(text) {
        return Ok(Value::String(text.to_owned()));
    }
    let Some(expression) = lone(text) else { return render(text, vars).map(Value::String) };
    if text.len() > LONGEST {
        return Err(TemplateError::TooMuch { template: shown(text) });
    }
    let environment = &*ENVIRONMENT;
    let compiled = environment.compile_expression(expression).map_err(|e| explain(text, &e))?;
    let value = compiled.eval(Serde(vars)).map_err(|e| explain(text, &e))?;
    if value.is_undefined() {
        return Err(TemplateError::Undefined { template: shown(text) });
    }
    let failed =
        |e: serde_json::Error| TemplateError::Failed { template: shown(text), reason: e.to_string() };
    let json = serde_json::to_value(&value).map_err(failed)?;
    if json.as_str().is_some_and(|s| s.len() > LONGEST) || json.as_array().is_some_and(|a| a.len() > LONGEST)
    {
        return Err(TemplateError::TooMuch { template: shown(text) });
    }
    Ok(json)
}

/// Fills in a text of a command for one cell, given as axis and value; the
/// text may also name parameters.
///
/// # Errors
/// See [`TemplateError`].
pub fn render_cell(
    text: &str,
    params: &IndexMap<String, Value>,
    cell: &[(&str, &str)],
) -> Result<String, TemplateError> {
    if !is_template(text) {
        return Ok(text.to_owned());
    }
    if let Some(done) = by_name(text, params, cell) {
        return Ok(done);
    }
    let axis = |(axis, value): &(&str, &str)| ((*axis).to_owned(), Value::String((*value).to_owned()));
    let mut vars: Map<String, Value> = cell.iter().map(axis).collect();
    let params = params.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
    vars.insert("params".to_owned(), Value::Object(params));
    render(text, &vars)
}

/// Words that are no names to the template engine.
const WORDS: [&str; 13] =
    ["true", "false", "none", "True", "False", "None", "not", "and", "or", "if", "else", "in", "is"];

/// What the engine would give for a text whose templates only name texts, as
/// nearly all of them do; none for any other, or when a name is unknown.
/// A matrix fills in the same text many thousand times.
fn by_name(text: &str, params: &IndexMap<String, Value>, cell: &[(&str, &str)]) -> Option<String> {
    if text.len() > LONGEST || text.contains("{%") || text.contains("{#") {
        return None;
    }
    let plain = |name: &str| {
        name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
            && name.bytes().next().is_some_and(|b| !b.is_ascii_digit())
            && !WORDS.contains(&name)
    };
    let mut out = String::with_capacity(text.len() + 16);
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("{{") {
        let (name, behind) = after.split_once("}}")?;
        let name = name.trim_matches(' ');
        let value = if let Some(param) = name.strip_prefix("params.") {
            plain(param).then(|| params.get(param)?.as_str())?
        } else {
            plain(name).then(|| cell.iter().find(|(axis, _)| *axis == name))?.map(|(_, value)| *value)
        };
        out.push_str(before);
        out.push_str(value?);
        rest = behind;
    }
    out.push_str(rest);
    (out.len() <= LONGEST).then_some(out)
}

fn render(text: &str, vars: &Map<String, Value>) -> Result<String, TemplateError> {
    if text.len() > LONGEST {
        return Err(TemplateError::TooMuch { template: shown(text) });
    }
    let environment = &*ENVIRONMENT;
    let template = environment.template_from_str(text).map_err(|e| explain(text, &e))?;
    let mut out = Bounded(Vec::new());
    match template.render_captured_to(Serde(vars), &mut out) {
        Ok(_) => {}
        Err(error) => return Err(explain(text, &error)),
    }
    String::from_utf8(out.0)
        .map_err(|e| TemplateError::Failed { template: shown(text), reason: e.to_string() })
}

/// Takes a bounded number of bytes.
struct Bounded(Vec<u8>);

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > LONGEST {
            return Err(io::Error::from(io::ErrorKind::FileTooLarge));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn shown(text: &str) -> String {
    const SHOWN: usize = 80;
    let mut out: String = text.chars().take(SHOWN).collect();
    if text.chars().count() > SHOWN {
        out.push_str("...");
    }
    out
}

fn explain(text: &str, error: &minijinja::Error) -> TemplateError {
    let template = shown(text);
    match error.kind() {
        ErrorKind::UndefinedError => TemplateError::Undefined { template },
        ErrorKind::OutOfFuel | ErrorKind::WriteFailure => TemplateError::TooMuch { template },
        kind => {
            let mut reason = error.detail().map_or_else(|| kind.to_string(), str::to_owned);
            if kind != ErrorKind::SyntaxError && error.detail().is_some() {
                let _ = write!(reason, " ({kind})");
            }
            let syntax = matches!(
                kind,
                ErrorKind::SyntaxError
                    | ErrorKind::UnknownFilter
                    | ErrorKind::UnknownTest
                    | ErrorKind::UnknownFunction
            );
            if syntax {
                TemplateError::Syntax { template, reason }
            } else {
                TemplateError::Failed { template, reason }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn vars() -> Map<String, Value> {
        let Value::Object(map) =
            json!({"params": {"repos": ["a", "b"], "n": 3, "t": "x y"}, "repo": "flask"})
        else {
            unreachable!()
        };
        map
    }

    #[test]
    fn a_lone_template_keeps_its_type() {
        assert_eq!(render_value("{{ params.repos }}", &vars()).unwrap(), json!(["a", "b"]));
        assert_eq!(render_value(" {{params.n}} ", &vars()).unwrap(), json!(3));
        assert_eq!(render_value("{{ params.n + 1 }}", &vars()).unwrap(), json!(4));
        assert_eq!(render_value("n={{ params.n }}", &vars()).unwrap(), json!("n=3"));
        assert_eq!(render_value("plain", &vars()).unwrap(), json!("plain"));
        assert_eq!(render_value("{{ params.n }}{{ params.n }}", &vars()).unwrap(), json!("33"));
    }

    #[test]
    fn what_is_not_there_is_an_error() {
        assert!(matches!(render_value("{{ params.none }}", &vars()), Err(TemplateError::Undefined { .. })));
        assert!(matches!(render_value("a{{ nothing }}", &vars()), Err(TemplateError::Undefined { .. })));
        assert!(matches!(render_value("{{ params.", &vars()), Err(TemplateError::Syntax { .. })));
        assert!(matches!(render_value("{{ x | nofilter }}", &vars()), Err(TemplateError::Syntax { .. })));
        let include = render_value("{% include 'x' %}{{ params.n }}", &vars());
        assert!(matches!(include, Err(TemplateError::Syntax { .. })), "{include:?}");
    }

    #[test]
    fn work_and_length_are_bounded() {
        let loops = "{% for i in range(99999) %}{% for j in range(99999) %}x{% endfor %}{% endfor %}{{ 1 }}";
        assert!(matches!(render_value(loops, &vars()), Err(TemplateError::TooMuch { .. })));
        assert!(matches!(render_value("a{{ 'x' * 9999999 }}", &vars()), Err(TemplateError::TooMuch { .. })));
        assert!(render_value("{{ 'x' * 9999999 }}", &vars()).is_err());
        assert!(references(&"{{ x }}".repeat(20_000)).is_err());
    }

    #[test]
    fn references_name_params_and_axes() {
        let found =
            references("{{ params.n }}/{{ repo }}{% for i in range(3) %}{{ i }}{% endfor %}").unwrap();
        assert_eq!(found, vec![Reference::Param("n".to_owned()), Reference::Name("repo".to_owned())]);
        assert_eq!(lone_param("{{ params.repos }}"), Some("repos"));
        assert_eq!(lone_param("{{ params.repos | length }}"), None);
        assert_eq!(lone_param("x{{ params.repos }}"), None);
    }

    #[test]
    fn cells_know_params_and_their_axes() {
        let params = IndexMap::from([("n".to_owned(), json!(3)), ("t".to_owned(), json!("<x> y"))]);
        let cell = [("lang", "go"), ("true", "no")];
        let done = |text: &str| render_cell(text, &params, &cell);
        assert_eq!(done("{{ lang }}-{{ params.n }}\n").unwrap(), "go-3\n");
        assert!(done("{{ repo }}").is_err());
        assert!(done("{{ params.none }}").is_err());
        assert_ne!(done("{{ true }}").unwrap(), "no", "a word of the language is no axis");
    }

    #[test]
    fn the_short_way_gives_what_the_engine_gives() {
        let params = IndexMap::from([("t".to_owned(), json!("<x> & \"y\"")), ("n".to_owned(), json!(3))]);
        let cell = [("lang", "go")];
        let vars: Map<String, Value> =
            [("params".to_owned(), json!({"t": "<x> & \"y\"", "n": 3})), ("lang".to_owned(), json!("go"))]
                .into_iter()
                .collect();
        for text in [
            "{{ lang }}",
            "{{lang}}",
            "a\n{{  lang  }}\n\n",
            "{{ params.t }}{{ lang }}}} {",
            "a {{ lang -}}  b",
            "{{ lang }}{# no #}",
            "{{ lang | upper }}{{ params.n }}",
            "{% if lang %}{{ lang }}{% endif %}",
            "{{{ lang }}}",
            "{{ lang }",
            "{{ \"}}\" }}",
            "{{ }}",
            "{{ params }}",
            "{{ lang.x }}",
            "{{ loop }}",
        ] {
            let engine = render(text, &vars);
            if let Some(short) = by_name(text, &params, &cell) {
                assert_eq!(Ok(&short), engine.as_ref(), "{text}");
            }
            assert_eq!(render_cell(text, &params, &cell).ok(), engine.ok(), "{text}");
        }
        assert!(by_name("{{ lang }}{{ params.t }}", &params, &cell).is_some());
    }
}
