//! Definitions, references and names in code, by syntax.
//!
//! One walk over a file's tree gives all three. Whether an identifier is a
//! definition depends on where it stands ([`rules`]), never on its text, so
//! a name in a comment or in a string is none.

mod rules;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::sync::OnceLock;

use tree_sitter::Node;

use self::rules::rules;
use super::grammar::{self, Budget, Language, kind_table, language_of};

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
    let language = language_of(path)?;
    let tree = grammar::parse(text, language, budget)?;
    let mut walk = Walk {
        text,
        tables: tables(language),
        frames: Vec::new(),
        around: Vec::new(),
        locals: Vec::new(),
        out: Outline::default(),
    };
    walk.run(tree.root_node());
    Some(walk.out)
}

/// Definitions of a file in the order of their names; `None` as [`outline`].
#[must_use]
pub fn definitions(path: &str, text: &str) -> Option<Vec<Symbol>> {
    outline(path, text).map(|o| o.symbols)
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

/// When a rule applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    Always,
    /// Outside of any function.
    NotLocal,
    /// The node has a `body`; without one it is only mentioned.
    Body,
    /// The identifier is the node's first named child.
    First,
    /// The node's field of this name holds a function or class.
    IfFunction(&'static str),
    /// A function or class when this field holds one, else if not local.
    Value(&'static str),
    /// Ruby: the identifier is a constant.
    Upper,
    /// Ruby: a symbol given to `attr_reader` and the like.
    Attr,
    /// C: a function's prototype, or else a variable.
    Declarator,
    /// Go: the kind follows from the type's own node.
    GoType,
    /// No definition: names the type that the methods inside belong to.
    Owner,
}

/// The tables of a language with the grammar's ids.
struct Tables {
    names: Vec<bool>,
    /// Parents that stand in `defines` or `through`.
    parents: Vec<bool>,
    defines: HashMap<(u16, u16), (SymbolKind, When)>,
    through: HashSet<(u16, u16)>,
    callee: HashSet<(u16, u16)>,
    calls: HashSet<(u16, u16)>,
    scopes: Vec<bool>,
    functions: Vec<bool>,
    function_declarator: Vec<bool>,
    pointer: Vec<bool>,
    opaque: Vec<bool>,
    qualified: Vec<bool>,
}

const FUNCTION_VALUES: &[&str] = &["arrow_function", "function_expression", "generator_function", "class"];

fn tables(language: Language) -> &'static Tables {
    static TABLES: [OnceLock<Tables>; Language::ALL.len()] = [const { OnceLock::new() }; Language::ALL.len()];
    TABLES[language as usize].get_or_init(|| Tables::new(language))
}

impl Tables {
    fn new(language: Language) -> Self {
        let grammar = language.grammar();
        let rules = rules(language);
        let keys = |kind: &str, field: &str| -> Vec<(u16, u16)> {
            let field = if field.is_empty() {
                Some(0)
            } else {
                grammar.field_id_for_name(field).map(std::num::NonZero::get)
            };
            let kinds = kind_table(grammar, &[kind]);
            let ids = (0u16..).zip(kinds).filter(|(_, is)| *is).map(|(id, _)| id);
            field.map(|f| ids.map(|id| (id, f)).collect()).unwrap_or_default()
        };
        let set = |pairs: &[(&str, &str)]| -> HashSet<(u16, u16)> {
            pairs.iter().flat_map(|(kind, field)| keys(kind, field)).collect()
        };
        let defines: HashMap<_, _> = rules
            .defines
            .iter()
            .flat_map(|r| keys(r.parent, r.field).into_iter().map(|k| (k, (r.kind, r.when))))
            .collect();
        let through = set(rules.through);
        let mut parents = vec![false; grammar.node_kind_count()];
        for (kind, _) in defines.keys().chain(&through) {
            parents[usize::from(*kind)] = true;
        }
        Self {
            names: kind_table(grammar, rules.names),
            parents,
            defines,
            through,
            callee: set(rules.callee),
            calls: set(rules.calls),
            scopes: kind_table(grammar, rules.scopes),
            functions: kind_table(grammar, FUNCTION_VALUES),
            function_declarator: kind_table(grammar, &["function_declarator"]),
            pointer: kind_table(grammar, &["pointer_declarator"]),
            opaque: kind_table(grammar, &["preproc_arg"]),
            qualified: kind_table(grammar, &["qualified_identifier"]),
        }
    }
}

fn is(table: &[bool], kind: u16) -> bool {
    table.get(usize::from(kind)).is_some_and(|b| *b)
}

/// A node that the walk is inside of.
struct Frame<'n> {
    node: Node<'n>,
    kind: u16,
    /// Field of its parent that it is in; 0 for none.
    field: u16,
    /// Named children seen so far.
    seen: u32,
}

/// What surrounds a place: a definition, or a type named by an `impl` block
/// or a receiver.
enum Around<'t> {
    Symbol(usize),
    Owner(&'t str),
}

struct Walk<'t, 'n> {
    text: &'t str,
    tables: &'static Tables,
    frames: Vec<Frame<'n>>,
    /// With the position of the frame that they belong to.
    around: Vec<(usize, Around<'t>)>,
    /// Positions of frames that make what is inside local.
    locals: Vec<usize>,
    out: Outline<'t>,
}

impl<'t, 'n> Walk<'t, 'n> {
    fn run(&mut self, root: Node<'n>) {
        let mut cursor = root.walk();
        loop {
            let node = cursor.node();
            if node.is_named() {
                if let Some(parent) = self.frames.last_mut() {
                    parent.seen += 1;
                }
                let kind = node.kind_id();
                let field = cursor.field_id().map_or(0, std::num::NonZero::get);
                if is(&self.tables.names, kind) {
                    self.name(node, field);
                } else if is(&self.tables.opaque, kind) {
                    self.opaque(node);
                } else if cursor.goto_first_child() {
                    if is(&self.tables.scopes, kind) {
                        self.locals.push(self.frames.len());
                    }
                    self.frames.push(Frame { node, kind, field, seen: 0 });
                    continue;
                }
            }
            while !cursor.goto_next_sibling() {
                if self.frames.pop().is_none() || !cursor.goto_parent() {
                    return;
                }
                let depth = self.frames.len();
                while self.around.last().is_some_and(|(at, _)| *at >= depth) {
                    self.around.pop();
                }
                while self.locals.last().is_some_and(|at| *at >= depth) {
                    self.locals.pop();
                }
            }
        }
    }

    /// The text of a name without the marks that languages put before it.
    fn text_of(&self, node: Node<'n>) -> &'t str {
        let raw = self.text.get(node.byte_range()).unwrap_or_default();
        let bare = raw.trim_start_matches(['@', '$', ':', '#']).trim_end_matches(':');
        if bare.is_empty() { raw } else { bare }
    }

    fn name(&mut self, node: Node<'n>, field: u16) {
        let text = self.text_of(node);
        if text.is_empty() {
            return;
        }
        if !self.define(node, field, text) {
            let call = self.is_call(field);
            self.refer(text, node.start_position().row as u64 + 1, call);
        }
    }

    fn refer(&mut self, name: &'t str, line: u64, call: bool) {
        let enclosing = self.around.iter().rev().find_map(|(_, a)| match a {
            Around::Symbol(i) => Some(*i),
            Around::Owner(_) => None,
        });
        self.out.references.push(Reference { name, line, enclosing, call });
    }

    fn is_call(&self, mut field: u16) -> bool {
        for frame in self.frames.iter().rev() {
            let key = (frame.kind, field);
            if self.tables.calls.contains(&key) {
                return true;
            }
            if !self.tables.callee.contains(&key) {
                return false;
            }
            field = frame.field;
        }
        false
    }

    /// Climbs from a name to the node that it names.
    fn define(&mut self, node: Node<'n>, mut field: u16, text: &'t str) -> bool {
        let (mut prototype, mut pointer, mut scope) = (false, false, None);
        for at in (0..self.frames.len()).rev() {
            let frame = &self.frames[at];
            if !is(&self.tables.parents, frame.kind) {
                return false;
            }
            let key = (frame.kind, field);
            if let Some((kind, when)) = self.tables.defines.get(&key).copied() {
                // A pointer to a function is a variable.
                let (kind, owner) = match self.applies(node, at, kind, when, prototype && !pointer) {
                    Some(kind) => (kind, scope),
                    None => return false,
                };
                if when == When::Owner {
                    self.around.push((at, Around::Owner(text)));
                    return false;
                }
                self.record(node, at, kind, owner, text);
                return true;
            }
            if !self.tables.through.contains(&key) {
                return false;
            }
            if is(&self.tables.function_declarator, frame.kind) && !pointer {
                prototype = true;
            }
            pointer |= is(&self.tables.pointer, frame.kind) && !prototype;
            if is(&self.tables.qualified, frame.kind) && scope.is_none() {
                scope = frame.node.child_by_field_name("scope").and_then(|n| self.text.get(n.byte_range()));
            }
            field = frame.field;
        }
        false
    }

    /// Whether the rule of the frame at `at` applies, and which kind follows.
    fn applies(
        &self,
        name: Node<'n>,
        at: usize,
        kind: SymbolKind,
        when: When,
        prototype: bool,
    ) -> Option<SymbolKind> {
        let frame = &self.frames[at];
        let local = self.locals.first().is_some_and(|l| *l < at);
        let value = |field: &str| {
            let node = frame.node.child_by_field_name(field)?;
            is(&self.tables.functions, node.kind_id())
                .then(|| if node.kind() == "class" { SymbolKind::Class } else { SymbolKind::Function })
        };
        match when {
            When::Always | When::Owner => Some(kind),
            When::NotLocal => (!local).then_some(kind),
            When::Body => frame.node.child_by_field_name("body").map(|_| kind),
            When::First => (frame.seen == 1).then_some(kind),
            When::IfFunction(field) => value(field),
            When::Value(field) => value(field).or((!local).then_some(kind)),
            When::Upper => (name.kind() == "constant").then_some(kind),
            When::Attr => {
                let call = self.frames.get(at.checked_sub(1)?)?.node;
                let method = call.child_by_field_name("method")?;
                let method = self.text.get(method.byte_range())?;
                let is_attr = matches!(method, "attr_reader" | "attr_writer" | "attr_accessor");
                let kind = match method {
                    "define_method" if frame.seen == 1 => Some(SymbolKind::Method),
                    _ => is_attr.then_some(kind),
                };
                kind.filter(|_| name.kind() == "simple_symbol")
            }
            When::Declarator if local => None,
            When::Declarator => Some(if prototype { SymbolKind::Declaration } else { kind }),
            When::GoType => Some(match frame.node.child_by_field_name("type").map(|n| n.kind()) {
                Some("struct_type") => SymbolKind::Struct,
                Some("interface_type") => SymbolKind::Interface,
                _ => kind,
            }),
        }
    }

    fn record(&mut self, name: Node<'n>, at: usize, kind: SymbolKind, scope: Option<&'t str>, text: &'t str) {
        let outer = self.around.iter().rev().find(|(frame, around)| match around {
            Around::Symbol(_) => *frame < at,
            Around::Owner(_) => *frame <= at,
        });
        let (around, in_type) = match outer {
            Some((_, Around::Symbol(i))) => {
                let symbol = &self.out.symbols[*i];
                (Some(symbol.name.clone()), symbol.kind.is_type())
            }
            Some((_, Around::Owner(owner))) => (Some((*owner).to_owned()), true),
            None => (None, false),
        };
        // `A::B<T>::f` outside of its class: the container is `B`.
        let scope = scope.map(|s| s.split('<').next().unwrap_or(s).rsplit("::").next().unwrap_or(s).trim());
        let in_type = in_type || scope.is_some();
        let kind = match kind {
            SymbolKind::Function if in_type => SymbolKind::Method,
            SymbolKind::Variable if in_type => SymbolKind::Field,
            other => other,
        };
        let direct = self.frames.last().is_some_and(|f| f.node.kind() == "destructor_name");
        let frame = self.frames[at].node;
        // A list declares many: each is only itself, and none is around another.
        let listed = matches!(frame.kind(), "argument_list" | "enum_body");
        let whole = if listed { name } else { frame };
        if !listed {
            self.around.push((at, Around::Symbol(self.out.symbols.len())));
        }
        self.out.symbols.push(Symbol {
            name: if direct { format!("~{text}") } else { text.to_owned() },
            kind,
            line: name.start_position().row as u64 + 1,
            end_line: whole.end_position().row as u64 + 1,
            start: whole.start_byte(),
            end: whole.end_byte(),
            container: scope.map(str::to_owned).or(around),
        });
    }

    /// The body of a C macro is one opaque token: its names are found by
    /// letters, skipping quoted text and comments.
    fn opaque(&mut self, node: Node<'n>) {
        let text = self.text.get(node.byte_range()).unwrap_or_default();
        let bytes = text.as_bytes();
        let mut line = node.start_position().row as u64 + 1;
        let mut at = 0;
        while at < bytes.len() {
            let byte = bytes[at];
            let begin = at;
            at += 1;
            match byte {
                b'\n' => line += 1,
                b'"' | b'\'' => {
                    while at < bytes.len() && bytes[at] != byte && bytes[at] != b'\n' {
                        at += if bytes[at] == b'\\' { 2 } else { 1 };
                    }
                    at += 1;
                }
                b'/' if bytes.get(at) == Some(&b'/') => return,
                b'/' if bytes.get(at) == Some(&b'*') => {
                    let end = text[at + 1..].find("*/").map_or(bytes.len(), |e| at + 1 + e + 2);
                    line += memchr::memchr_iter(b'\n', &bytes[at..end]).count() as u64;
                    at = end;
                }
                b if b == b'_' || b.is_ascii_alphabetic() => {
                    while at < bytes.len() && (bytes[at] == b'_' || bytes[at].is_ascii_alphanumeric()) {
                        at += 1;
                    }
                    self.refer(&text[begin..at], line, bytes.get(at) == Some(&b'('));
                }
                b if b.is_ascii_digit() => {
                    while at < bytes.len() && bytes[at].is_ascii_alphanumeric() {
                        at += 1;
                    }
                }
                _ => {}
            }
        }
    }
}
