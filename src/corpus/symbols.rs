//! Definitions, references and names in code, by syntax.
//!
//! One walk over a file's tree gives all three. Whether an identifier is a
//! definition depends on where it stands ([`rules`]), never on its text, so
//! a name in a comment or in a string is none.

mod rules;
#[cfg(test)]
mod table_tests;
#[cfg(test)]
mod tests;
mod walk;

use super::grammar::{self, Budget, Language, language_of};

/// What a definition defines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SymbolKind {
    /// A class or record.
    Class,
    /// A struct.
    Struct,
    /// An interface, protocol or annotation type.
    Interface,
    /// A trait.
    Trait,
    /// An enumeration.
    Enum,
    /// A union.
    Union,
    /// A type alias, delegate or other named type.
    Type,
    /// A function that belongs to no type.
    Function,
    /// A function that belongs to a type.
    Method,
    /// A function's signature without its body, as in a C header.
    Declaration,
    /// A member of a type that holds a value.
    Field,
    /// A member of a type that is read by code.
    Property,
    /// A constant.
    Constant,
    /// A variable of a file, module or class, not of a function.
    Variable,
    /// A member of an enumeration.
    Variant,
    /// A module or namespace.
    Module,
    /// A macro.
    Macro,
}

impl SymbolKind {
    /// The kind in one word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Class => "class",
            Self::Struct => "struct",
            Self::Interface => "interface",
            Self::Trait => "trait",
            Self::Enum => "enum",
            Self::Union => "union",
            Self::Type => "type",
            Self::Function => "function",
            Self::Method => "method",
            Self::Declaration => "declaration",
            Self::Field => "field",
            Self::Property => "property",
            Self::Constant => "constant",
            Self::Variable => "variable",
            Self::Variant => "variant",
            Self::Module => "module",
            Self::Macro => "macro",
        }
    }

    /// Whether functions inside are its methods.
    #[must_use]
    pub fn is_type(self) -> bool {
        matches!(
            self,
            Self::Class
                | Self::Struct
                | Self::Interface
                | Self::Trait
                | Self::Enum
                | Self::Union
                | Self::Type
        )
    }

    /// Whether it is code that can be called.
    #[must_use]
    pub fn is_callable(self) -> bool {
        matches!(self, Self::Function | Self::Method | Self::Macro)
    }
}

/// A definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// Its own name, without container and sigils.
    pub name: String,
    /// What it is.
    pub kind: SymbolKind,
    /// 1-based line of the name.
    pub line: u64,
    /// 1-based last line of the definition.
    pub end_line: u64,
    /// First byte of the definition.
    pub start: usize,
    /// Byte after the definition.
    pub end: usize,
    /// Name of the type, module or function around it.
    pub container: Option<String>,
}

/// An occurrence of a name that is no definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference<'t> {
    /// The name, without sigils.
    pub name: &'t str,
    /// 1-based line.
    pub line: u64,
    /// Position in [`Outline::symbols`] of the definition around it.
    pub enclosing: Option<usize>,
    /// Whether the name is called (or constructed, or expanded) here.
    pub call: bool,
}

/// What a file defines and names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outline<'t> {
    /// Definitions in the order of their names.
    pub symbols: Vec<Symbol>,
    /// All other identifiers in order.
    pub references: Vec<Reference<'t>>,
}

/// Definitions and references of a file; `None` without a grammar, for a file
/// that is too large, or when the parser's budget ran out.
#[must_use]
pub fn outline<'t>(path: &str, text: &'t str) -> Option<Outline<'t>> {
    outline_within(path, text, Budget::default())
}

/// [`outline`] with a budget of one's own.
#[must_use]
pub fn outline_within<'t>(path: &str, text: &'t str, budget: Budget) -> Option<Outline<'t>> {
    let mut references = Vec::new();
    let symbols = each_reference(path, text, budget, |reference| references.push(reference))?;
    Some(Outline { symbols, references })
}

/// Definitions of a file in the order of their names; each reference is told as it comes, and its
/// `enclosing` counts in the list that is returned. `None` as [`outline`].
pub fn each_reference<'t>(
    path: &str,
    text: &'t str,
    budget: Budget,
    each: impl FnMut(Reference<'t>),
) -> Option<Vec<Symbol>> {
    let language = match language_of(path)? {
        Language::C if is_header(path) && is_cpp(text) => Language::Cpp,
        other => other,
    };
    let tree = grammar::parse(text, language, budget)?;
    Some(walk::walk(language, text, tree.root_node(), each))
}

fn is_header(path: &str) -> bool {
    path.rsplit_once('.').is_some_and(|(_, suffix)| suffix.eq_ignore_ascii_case("h"))
}

/// Whether a header has lines that only C++ has.
fn is_cpp(text: &str) -> bool {
    let starts =
        ["class ", "namespace ", "template ", "template<", "public:", "private:", "using namespace "];
    text.lines().any(|line| starts.iter().any(|s| line.trim_start().starts_with(s)))
}

/// Definitions of a file in the order of their names; `None` as [`outline`].
#[must_use]
pub fn definitions(path: &str, text: &str) -> Option<Vec<Symbol>> {
    each_reference(path, text, Budget::default(), |_| {})
}

/// A reference that stands by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Use {
    /// The name.
    pub name: String,
    /// 1-based line.
    pub line: u64,
    /// Name of the definition around it.
    pub enclosing: Option<String>,
    /// Whether it is called here.
    pub call: bool,
}

/// References of a file in order; `None` as [`outline`].
#[must_use]
pub fn references(path: &str, text: &str) -> Option<Vec<Use>> {
    let outline = outline(path, text)?;
    let one = |r: &Reference<'_>| Use {
        name: r.name.to_owned(),
        line: r.line,
        enclosing: r.enclosing.and_then(|i| outline.symbols.get(i)).map(|s| s.name.clone()),
        call: r.call,
    };
    Some(outline.references.iter().map(one).collect())
}

/// All identifiers that occur as code, definitions included, with 1-based
/// lines, by line; `None` as [`outline`]. What stands in comments and string
/// literals is left out.
#[must_use]
pub fn code_identifiers(path: &str, text: &str) -> Option<Vec<(String, u64)>> {
    let outline = outline(path, text)?;
    let mut out: Vec<(String, u64)> = outline.symbols.into_iter().map(|s| (s.name, s.line)).collect();
    out.extend(outline.references.iter().map(|r| (r.name.to_owned(), r.line)));
    out.sort_by(|a, b| (a.1, &a.0).cmp(&(b.1, &b.0)));
    Some(out)
}
