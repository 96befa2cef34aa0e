//! Python without a tree: one pass over the tokens of well-formed files.
//!
//! A parser that is ready for every fault takes most of the time of an index.
//! This walk knows less: it gives up (`None`) on whatever it is not sure of
//! (faults, `match`, tabs, names beyond ASCII), and the grammar does the file.
//! What it gives is what the grammar gives, down to the byte at which a
//! definition ends; the tests compare both.

use super::lexer::{Comment, Lexer, Token, TokenKind as K};
use super::{Outline, Reference, Symbol, SymbolKind};

/// What a nested block belongs to.
struct Block {
    /// Columns of its lines; none until its first line is seen.
    indent: Option<usize>,
    /// The class or function whose body it is.
    symbol: Option<usize>,
    function: bool,
}

/// What is around a token.
#[derive(Clone, Copy)]
struct Around {
    symbol: Option<usize>,
    local: bool,
}

struct Walk<'t> {
    text: &'t str,
    blocks: Vec<Block>,
    out: Outline<'t>,
    /// End of the last token.
    end: (usize, u64),
}

/// The outline of a file that is plain enough.
pub(super) fn outline(text: &str) -> Option<Outline<'_>> {
    let mut lexer = Lexer::new(text);
    let mut walk = Walk { text, blocks: Vec::new(), out: Outline::default(), end: (0, 1) };
    let mut line: Vec<Token> = Vec::new();
    while let Some(indent) = lexer.line(&mut line)? {
        walk.enter(indent, &lexer.above)?;
        let last = line.last()?;
        walk.end = lexer.behind.unwrap_or((last.end, last.end_line));
        walk.statement(&line)?;
    }
    if walk.blocks.last().is_some_and(|b| b.indent.is_none()) {
        return None;
    }
    walk.enter(0, &lexer.above)?;
    Some(walk.out)
}

impl<'t> Walk<'t> {
    fn leave(&mut self) {
        if let Some(Block { symbol: Some(symbol), .. }) = self.blocks.pop() {
            let symbol = &mut self.out.symbols[symbol];
            (symbol.end, symbol.end_line) = self.end;
        }
    }

    /// Ends the blocks that a line of this indentation is not in. Comments above it belong to a
    /// block as long as they are not further left.
    fn enter(&mut self, indent: usize, above: &[Comment]) -> Option<()> {
        let mut above = above.iter().peekable();
        if self.blocks.last().is_some_and(|b| b.indent.is_none()) {
            let outer = self.blocks.iter().rev().find_map(|b| b.indent).unwrap_or(0);
            self.blocks.last_mut()?.indent = Some(indent);
            return (indent > outer).then_some(());
        }
        while let Some(block) = self.blocks.last().and_then(|b| b.indent).filter(|block| *block > indent) {
            while let Some(comment) = above.next_if(|comment| comment.indent >= block) {
                self.end = (comment.end, comment.line);
            }
            self.leave();
        }
        let here = self.blocks.last().map_or(0, |b| b.indent.unwrap_or(0));
        (here == indent).then_some(())
    }

    fn around(&self) -> Around {
        Around {
            symbol: self.blocks.iter().rev().find_map(|b| b.symbol),
            local: self.blocks.iter().any(|b| b.function),
        }
    }

    fn word(&self, token: &Token) -> &'t str {
        &self.text[token.start..token.end]
    }

    fn define(&mut self, name: &Token, kind: SymbolKind, outer: Option<usize>, start: usize) -> usize {
        let (container, in_type) = match outer {
            Some(outer) => {
                (Some(self.out.symbols[outer].name.clone()), self.out.symbols[outer].kind.is_type())
            }
            None => (None, false),
        };
        let kind = match kind {
            SymbolKind::Function if in_type => SymbolKind::Method,
            SymbolKind::Variable if in_type => SymbolKind::Field,
            other => other,
        };
        self.out.symbols.push(Symbol {
            name: self.word(name).to_owned(),
            kind,
            line: name.line,
            end_line: name.line,
            start,
            end: name.end,
            container,
        });
        self.out.symbols.len() - 1
    }

    fn refer(&mut self, tokens: &[Token], at: usize, enclosing: Option<usize>) {
        let token = &tokens[at];
        let call = tokens
            .get(at + 1)
            .is_some_and(|next| next.kind == K::Open && self.text.as_bytes()[next.start] == b'(');
        self.out.references.push(Reference { name: self.word(token), line: token.line, enclosing, call });
    }

    /// All names among the tokens.
    fn refer_all(&mut self, tokens: &[Token], from: usize, to: usize, enclosing: Option<usize>) {
        for at in from..to {
            if tokens[at].kind == K::Name {
                self.refer(tokens, at, enclosing);
            }
        }
    }

    /// A logical line.
    fn statement(&mut self, tokens: &[Token]) -> Option<()> {
        let around = self.around();
        let first = tokens.first()?;
        if first.kind == K::Op && self.word(first) == "@" {
            self.check(tokens, 1, tokens.len())?;
            self.refer_all(tokens, 0, tokens.len(), around.symbol);
            return Some(());
        }
        if first.kind != K::Keyword {
            return self.simple(tokens, 0, around);
        }
        let (at, word) = match self.word(first) {
            "async" => (1, self.word(tokens.get(1)?)),
            word => (0, word),
        };
        match word {
            "def" | "class" => self.definition(tokens, at, word == "def", around),
            "for" | "with" => self.compound(tokens, at + 1, around),
            _ if at == 1 => None,
            "if" | "elif" | "while" | "except" => self.compound(tokens, 1, around),
            "else" | "try" | "finally" => {
                self.body(tokens, self.colon(tokens, 1).filter(|at| *at == 1)?, around, None, false)
            }
            _ => self.simple(tokens, 0, around),
        }
    }

    /// Position of the colon that ends a compound statement's head.
    fn colon(&self, tokens: &[Token], from: usize) -> Option<usize> {
        let mut lambdas = 0;
        for (at, token) in tokens.iter().enumerate().skip(from) {
            if token.depth > 0 {
                continue;
            }
            match token.kind {
                K::Keyword if self.word(token) == "lambda" => lambdas += 1,
                K::Colon if lambdas > 0 => lambdas -= 1,
                K::Colon => return Some(at),
                _ => {}
            }
        }
        None
    }

    fn definition(&mut self, tokens: &[Token], at: usize, function: bool, around: Around) -> Option<()> {
        let name = tokens.get(at + 1).filter(|t| t.kind == K::Name)?;
        let kind = if function { SymbolKind::Function } else { SymbolKind::Class };
        let symbol = self.define(name, kind, around.symbol, tokens[0].start);
        let colon = self.colon(tokens, at + 2)?;
        if colon > at + 2 {
            let open = &tokens[at + 2];
            if open.kind != K::Open || self.word(open) != "(" {
                return None;
            }
            self.check(tokens, at + 2, colon)?;
        } else if function {
            return None;
        }
        self.refer_all(tokens, at + 2, colon, Some(symbol));
        let local = around.local || function;
        self.body(tokens, colon, Around { symbol: Some(symbol), local }, Some(symbol), function)
    }

    fn compound(&mut self, tokens: &[Token], from: usize, around: Around) -> Option<()> {
        let colon = self.colon(tokens, from)?;
        // `except:` has nothing to check.
        if colon > from || self.word(&tokens[0]) != "except" {
            self.check(tokens, from, colon)?;
        }
        self.refer_all(tokens, 0, colon, around.symbol);
        self.body(tokens, colon, around, None, false)
    }

    /// What comes behind a head's colon: statements of the same line, or a block.
    fn body(
        &mut self,
        tokens: &[Token],
        colon: usize,
        around: Around,
        symbol: Option<usize>,
        function: bool,
    ) -> Option<()> {
        if colon + 1 == tokens.len() {
            self.blocks.push(Block { indent: None, symbol, function });
            return Some(());
        }
        self.simple(tokens, colon + 1, around)?;
        if let Some(symbol) = symbol {
            let symbol = &mut self.out.symbols[symbol];
            (symbol.end, symbol.end_line) = self.end;
        }
        Some(())
    }

    /// Simple statements, parted by semicolons.
    fn simple(&mut self, tokens: &[Token], from: usize, around: Around) -> Option<()> {
        let mut start = from;
        for at in from..=tokens.len() {
            if at == tokens.len() || tokens[at].kind == K::Semicolon {
                if at > start {
                    self.small(tokens, start, at, around)?;
                } else if at < tokens.len() {
                    return None;
                }
                start = at + 1;
            }
        }
        Some(())
    }

    fn small(&mut self, tokens: &[Token], from: usize, to: usize, around: Around) -> Option<()> {
        let first = &tokens[from];
        let word = self.word(first);
        if first.kind == K::Keyword {
            let rest = match word {
                "pass" | "break" | "continue" => return (to == from + 1).then_some(()),
                "import" | "from" => {
                    let skip =
                        word == "from" && tokens.get(from + 1).is_some_and(|t| self.word(t) == "__future__");
                    let imports = |t: &Token| {
                        matches!(t.kind, K::Name | K::Open | K::Close | K::Dot | K::Comma)
                            || matches!(self.word(t), "import" | "as" | "*" | "..." | "from")
                    };
                    if !tokens[from..to].iter().all(imports) {
                        return None;
                    }
                    for at in from + 1 + usize::from(skip)..to {
                        if tokens[at].kind == K::Name {
                            let token = &tokens[at];
                            let name = self.word(token);
                            self.out.references.push(Reference {
                                name,
                                line: token.line,
                                enclosing: around.symbol,
                                call: false,
                            });
                        }
                    }
                    return Some(());
                }
                "global" | "nonlocal" => {
                    if !tokens[from + 1..to].iter().all(|t| matches!(t.kind, K::Name | K::Comma)) {
                        return None;
                    }
                    self.refer_all(tokens, from, to, around.symbol);
                    return Some(());
                }
                "return" | "raise" | "yield" if to == from + 1 => return Some(()),
                "return" | "raise" | "assert" | "del" => from + 1,
                "yield" | "await" | "lambda" | "not" | "None" | "True" | "False" => from,
                _ => return None,
            };
            if tokens[rest..to].iter().any(|t| t.depth == 0 && t.kind == K::Assign) && word != "lambda" {
                return None;
            }
            self.check(tokens, rest, to)?;
            self.refer_all(tokens, from, to, around.symbol);
            return Some(());
        }
        match word {
            "match" | "case" | "type" if first.kind == K::Name => {
                let next = tokens.get(from + 1).filter(|_| from + 1 < to);
                let plain = next.is_none_or(|t| matches!(t.kind, K::Assign | K::Dot | K::Comma));
                if !plain {
                    return None;
                }
            }
            _ => {}
        }
        self.assignment(tokens, from, to, around)
    }

    /// An expression, or an assignment to one or many targets.
    fn assignment(&mut self, tokens: &[Token], from: usize, to: usize, around: Around) -> Option<()> {
        let mut lambdas = 0;
        let mut equals: Vec<usize> = Vec::new();
        let mut colon = None;
        for at in from..to {
            let token = &tokens[at];
            if token.depth > 0 {
                continue;
            }
            match token.kind {
                K::Keyword if self.word(token) == "lambda" => lambdas += 1,
                K::Colon if lambdas > 0 => lambdas -= 1,
                K::Colon if colon.is_none() && equals.is_empty() => colon = Some(at),
                K::Colon => return None,
                K::Assign if lambdas == 0 => equals.push(at),
                _ => {}
            }
        }
        let augmented = tokens[from..to].iter().any(|t| t.depth == 0 && t.kind == K::Augmented);
        if augmented && (colon.is_some() || !equals.is_empty()) || (colon.is_some() && equals.len() > 1) {
            return None;
        }
        let mut start = from;
        let mut enclosing = around.symbol;
        let mut symbols: Vec<usize> = Vec::new();
        let targets = if colon.is_some() { 1 } else { equals.len() };
        for target in 0..targets {
            let end = colon.unwrap_or_else(|| equals[target]);
            self.check(tokens, start, end)?;
            let outer = enclosing;
            let bound = if around.local { Vec::new() } else { self.targets(tokens, start, end) };
            let mut bound = bound.into_iter().peekable();
            let mut last = None;
            for at in start..end {
                if tokens[at].kind != K::Name {
                    continue;
                }
                if bound.next_if_eq(&at).is_some() {
                    let symbol = self.define(&tokens[at], SymbolKind::Variable, outer, tokens[start].start);
                    symbols.push(symbol);
                    last = Some(symbol);
                } else {
                    self.refer(tokens, at, last.or(outer));
                }
            }
            enclosing = last.or(outer);
            start = end + 1;
        }
        if let (Some(colon), Some(equal)) = (colon, equals.first()) {
            self.check(tokens, colon + 1, *equal)?;
            self.refer_all(tokens, colon + 1, *equal, enclosing);
            start = equal + 1;
        }
        if start >= to {
            return None;
        }
        self.check(tokens, start, to)?;
        self.refer_all(tokens, start, to, enclosing);
        for symbol in symbols {
            let symbol = &mut self.out.symbols[symbol];
            (symbol.end, symbol.end_line) = (tokens[to - 1].end, tokens[to - 1].end_line);
        }
        Some(())
    }

    /// The names that a pattern between `start` and `end` binds: those that stand by themselves in
    /// it, with nothing but brackets, commas and stars beside them.
    fn targets(&self, tokens: &[Token], start: usize, end: usize) -> Vec<usize> {
        /// A list of items in brackets, or the whole.
        struct List {
            /// Whether it is a pattern, and not the arguments of a call or an index.
            pattern: bool,
            /// Whether nothing of the item has come yet.
            fresh: bool,
            /// Names that were found before this item.
            known: usize,
        }
        let mut out = Vec::new();
        let mut lists = vec![List { pattern: true, fresh: true, known: 0 }];
        for (at, token) in tokens.iter().enumerate().take(end).skip(start) {
            let Some(list) = lists.last_mut() else { break };
            match token.kind {
                K::Comma => (list.fresh, list.known) = (true, out.len()),
                K::Close => {
                    lists.pop();
                }
                K::Open => {
                    let pattern = list.pattern && list.fresh && self.word(token) != "{";
                    if !list.fresh {
                        out.truncate(list.known);
                    }
                    list.fresh = false;
                    lists.push(List { pattern, fresh: true, known: out.len() });
                }
                K::Name if list.fresh => {
                    if list.pattern {
                        out.push(at);
                    }
                    list.fresh = false;
                }
                K::Op if list.fresh && self.word(token) == "*" => {}
                _ => {
                    list.fresh = false;
                    out.truncate(list.known);
                }
            }
        }
        out
    }

    /// Whether operands and operators alternate, as in every expression.
    fn check(&self, tokens: &[Token], from: usize, to: usize) -> Option<()> {
        // An operand must come next.
        let mut wanted = true;
        let mut last: Option<(K, &str)> = None;
        // `not` behind an operand: `in` must come next.
        let mut negated = false;
        // Brackets around a star: what the grammar makes of `*f(x)` depends on what follows.
        let mut starred: Option<u32> = None;
        for token in tokens.get(from..to)? {
            let word = self.word(token);
            let after = last.map(|(kind, _)| kind);
            let said = last.map_or("", |(_, word)| word);
            let was_negated = std::mem::take(&mut negated);
            if was_negated && word != "in" {
                return None;
            }
            let (may, then) = match token.kind {
                K::Name | K::Number => (wanted, false),
                K::Text => (wanted || matches!(after, Some(K::Text | K::Inserted)), false),
                K::Insert => (true, true),
                K::Inserted => (!wanted, false),
                K::Open => (wanted || word != "{" && starred != Some(token.depth), true),
                K::Close => {
                    let empty = matches!(after, Some(K::Open | K::Comma | K::Colon | K::Slash));
                    (!wanted || empty || said == "yield", false)
                }
                K::Dot | K::Assign | K::Augmented => (!wanted, true),
                K::Op if word == "..." => (wanted, false),
                K::Op => {
                    if wanted {
                        starred = (word == "*").then_some(token.depth);
                    }
                    (!wanted || matches!(word, "-" | "+" | "~" | "*" | "**"), true)
                }
                // Divides, or ends the parameters without names.
                K::Slash => (!wanted || after == Some(K::Comma), true),
                K::Comma => {
                    starred = starred.filter(|depth| *depth != token.depth);
                    (!wanted || matches!(after, Some(K::Colon | K::Slash)) || said == "*", true)
                }
                K::Colon => (true, true),
                K::Semicolon => (false, true),
                K::Keyword => match word {
                    "None" | "True" | "False" => (wanted, false),
                    "lambda" | "await" | "yield" => (wanted, true),
                    "not" => {
                        negated = !wanted;
                        (true, true)
                    }
                    "in" => (!wanted || was_negated, true),
                    "from" => (!wanted || said == "yield", true),
                    "async" => (!wanted, false),
                    "if" | "else" | "for" | "is" | "and" | "or" | "as" => (!wanted, true),
                    _ => (false, true),
                },
            };
            if !may {
                return None;
            }
            wanted = then;
            last = Some((token.kind, word));
        }
        let (kind, word) = last?;
        (!wanted || kind == K::Comma || word == "yield").then_some(())
    }
}
