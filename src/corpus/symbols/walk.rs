//! The walk over a tree that tells definitions from references.

use std::sync::OnceLock;

use tree_sitter::Node;

use super::rules::{When, rules};
use super::{Reference, Symbol, SymbolKind};
use crate::corpus::grammar::{Language, kind_table};

/// A value for some pairs of a node's kind and a field: every identifier of a file is looked up
/// in several, so it is a plain array.
struct Pairs<T> {
    fields: usize,
    values: Vec<Option<T>>,
}

impl<T: Copy> Pairs<T> {
    fn get(&self, (kind, field): (u16, u16)) -> Option<T> {
        let field = usize::from(field);
        if field >= self.fields {
            return None;
        }
        self.values.get(usize::from(kind) * self.fields + field).copied().flatten()
    }

    fn has(&self, key: (u16, u16)) -> bool {
        self.get(key).is_some()
    }
}

/// The tables of a language with the grammar's ids.
struct Tables {
    names: Vec<bool>,
    /// Parents that stand in `defines` or `through`.
    parents: Vec<bool>,
    defines: Pairs<(SymbolKind, When)>,
    through: Pairs<()>,
    callee: Pairs<()>,
    calls: Pairs<()>,
    scopes: Vec<bool>,
    /// Literals, which hold no names.
    literals: Vec<bool>,
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
        let (kinds, fields) = (grammar.node_kind_count(), grammar.field_count() + 1);
        let mut parents = vec![false; kinds];
        let set = |pairs: &[(&str, &str)]| -> Pairs<()> {
            let mut values = vec![None; kinds * fields];
            for (kind, field) in pairs.iter().flat_map(|(kind, field)| keys(kind, field)) {
                values[usize::from(kind) * fields + usize::from(field)] = Some(());
            }
            Pairs { fields, values }
        };
        let mut values = vec![None; kinds * fields];
        for rule in rules.defines {
            for (kind, field) in keys(rule.parent, rule.field) {
                values[usize::from(kind) * fields + usize::from(field)] = Some((rule.kind, rule.when));
                parents[usize::from(kind)] = true;
            }
        }
        let defines = Pairs { fields, values };
        for (kind, field) in rules.through {
            for (kind, _) in keys(kind, field) {
                parents[usize::from(kind)] = true;
            }
        }
        let through = set(rules.through);
        Self {
            names: kind_table(grammar, rules.names),
            parents,
            defines,
            through,
            callee: set(rules.callee),
            calls: set(rules.calls),
            scopes: kind_table(grammar, rules.scopes),
            literals: kind_table(grammar, rules.literals),
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
#[derive(Clone, Copy)]
enum Around<'t> {
    Symbol(usize),
    Owner(&'t str),
}

/// Something that surrounds, with the frame that it belongs to.
struct Circle<'t> {
    at: usize,
    what: Around<'t>,
    /// The innermost definition here.
    symbol: Option<usize>,
}

/// How far up one climbs from a name: real code needs four, and without a
/// bound a deep nest costs the square of its depth.
const CLIMB: usize = 24;

struct Walk<'t, 'n, F> {
    text: &'t str,
    tables: &'static Tables,
    frames: Vec<Frame<'n>>,
    /// At most one of each kind for a frame.
    around: Vec<Circle<'t>>,
    /// Positions of frames that make what is inside local.
    locals: Vec<usize>,
    symbols: Vec<Symbol>,
    /// Takes the references.
    each: F,
}

/// Definitions below a node; references are told as they come.
pub(super) fn walk<'t>(
    language: Language,
    text: &'t str,
    root: Node<'_>,
    each: impl FnMut(Reference<'t>),
) -> Vec<Symbol> {
    let mut walk = Walk {
        text,
        tables: tables(language),
        frames: Vec::new(),
        around: Vec::new(),
        locals: Vec::new(),
        symbols: Vec::new(),
        each,
    };
    walk.run(root);
    walk.symbols
}

impl<'t, 'n, F: FnMut(Reference<'t>)> Walk<'t, 'n, F> {
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
                } else if !(is(&self.tables.literals, kind) && self.is_plain(node))
                    && cursor.goto_first_child()
                {
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
                while self.around.last().is_some_and(|c| c.at >= depth) {
                    self.around.pop();
                }
                while self.locals.last().is_some_and(|at| *at >= depth) {
                    self.locals.pop();
                }
            }
        }
    }

    /// Whether a literal is only text: no `f"{name}"`.
    fn is_plain(&self, node: Node<'n>) -> bool {
        let bytes = self.text.as_bytes().get(node.start_byte()..).unwrap_or_default();
        let prefix = bytes.iter().take_while(|b| b.is_ascii_alphabetic());
        !node.has_error()
            && prefix.clone().all(|b| !matches!(b, b'f' | b'F' | b't' | b'T'))
            && matches!(bytes.get(prefix.count()), Some(b'"' | b'\''))
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
        let enclosing = self.around.last().and_then(|c| c.symbol);
        (self.each)(Reference { name, line, enclosing, call });
    }

    /// Puts something around what follows in the frame at `at`; of several
    /// alike the last counts.
    fn surround(&mut self, at: usize, what: Around<'t>) {
        let alike = |c: &Circle<'t>| {
            c.at == at && matches!(c.what, Around::Symbol(_)) == matches!(what, Around::Symbol(_))
        };
        if self.around.last().is_some_and(alike) {
            self.around.pop();
        }
        let symbol = match what {
            Around::Symbol(i) => Some(i),
            Around::Owner(_) => self.around.last().and_then(|c| c.symbol),
        };
        self.around.push(Circle { at, what, symbol });
    }

    fn is_call(&self, mut field: u16) -> bool {
        for frame in self.frames.iter().rev().take(CLIMB) {
            let key = (frame.kind, field);
            if self.tables.calls.has(key) {
                return true;
            }
            if !self.tables.callee.has(key) {
                return false;
            }
            field = frame.field;
        }
        false
    }

    /// Climbs from a name to the node that it names.
    fn define(&mut self, node: Node<'n>, mut field: u16, text: &'t str) -> bool {
        let (mut prototype, mut pointer, mut scope) = (false, false, None);
        for at in (0..self.frames.len()).rev().take(CLIMB) {
            let frame = &self.frames[at];
            if !is(&self.tables.parents, frame.kind) {
                return false;
            }
            let key = (frame.kind, field);
            if let Some((kind, when)) = self.tables.defines.get(key) {
                // A pointer to a function is a variable.
                let (kind, owner) = match self.applies(node, at, kind, when, prototype && !pointer) {
                    Some(kind) => (kind, scope),
                    None => return false,
                };
                if when == When::Owner {
                    self.surround(at, Around::Owner(text));
                    return false;
                }
                self.record(node, at, kind, owner, text);
                return true;
            }
            if !self.tables.through.has(key) {
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
            When::Attr if name.kind() != "simple_symbol" => None,
            When::Attr => {
                let call = self.frames.get(at.checked_sub(1)?)?.node;
                let method = call.child_by_field_name("method")?;
                let method = self.text.get(method.byte_range())?;
                let is_attr = matches!(method, "attr_reader" | "attr_writer" | "attr_accessor");
                match method {
                    "define_method" if frame.seen == 1 => Some(SymbolKind::Method),
                    _ => is_attr.then_some(kind),
                }
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
        let outer = self.around.iter().rev().find(|c| match c.what {
            Around::Symbol(_) => c.at < at,
            Around::Owner(_) => c.at <= at,
        });
        let (around, in_type) = match outer.map(|c| c.what) {
            Some(Around::Symbol(i)) => {
                let symbol = &self.symbols[i];
                (Some(symbol.name.clone()), symbol.kind.is_type())
            }
            Some(Around::Owner(owner)) => (Some(owner.to_owned()), true),
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
            self.surround(at, Around::Symbol(self.symbols.len()));
        }
        self.symbols.push(Symbol {
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
