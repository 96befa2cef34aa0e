//! Texts and numbers as people read them.

/// How long a text from outside may be before it is cut.
const LONGEST: usize = 400;

/// A text from outside on one line: control and direction-changing characters
/// are taken out, because a server's words must not steer a terminal.
#[must_use]
pub fn plain(text: &str) -> String {
    let steering = |c: char| {
        c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
    };
    let spaced: String =
        text.chars().map(|c| if c.is_whitespace() { ' ' } else { c }).filter(|c| !steering(*c)).collect();
    let joined = spaced.split(' ').filter(|w| !w.is_empty()).collect::<Vec<_>>().join(" ");
    if joined.chars().count() <= LONGEST {
        return joined;
    }
    joined.chars().take(LONGEST - 1).chain(['…']).collect()
}

/// A number with this many decimals; a dash where there is none.
pub(super) fn number(value: Option<f64>, decimals: usize) -> String {
    match value {
        Some(v) if v.is_finite() => format!("{v:.decimals$}"),
        _ => "–".to_owned(),
    }
}

/// A measured quantity: fewer decimals the larger it is.
pub(super) fn quantity(value: Option<f64>) -> String {
    let decimals = match value.map(f64::abs) {
        Some(v) if v >= 100.0 => 0,
        Some(v) if v >= 1.0 => 1,
        _ => 2,
    };
    number(value, decimals)
}

/// Words broken into lines of at most `width` characters (a longer word stays
/// whole), the second and later lines indented.
pub(super) fn wrap(text: &str, width: usize, indent: &str) -> String {
    let mut out = String::new();
    let mut used = 0;
    for word in text.split(' ') {
        let len = word.chars().count();
        if used > 0 && used + 1 + len > width {
            out.push('\n');
            out.push_str(indent);
            used = indent.chars().count();
        } else if used > 0 {
            out.push(' ');
            used += 1;
        }
        out.push_str(word);
        used += len;
    }
    out
}

/// `1 arm`, `3 arms`.
pub(super) fn counted(n: u64, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_servers_words_do_not_steer_the_terminal() {
        assert_eq!(plain("a\u{1b}[31mred\r\n\tb\u{202e}c"), "a[31mred bc");
        assert_eq!(plain(&"x".repeat(1000)).chars().count(), LONGEST);
    }

    #[test]
    fn numbers() {
        assert_eq!((number(Some(0.61), 3).as_str(), number(None, 3).as_str()), ("0.610", "–"));
        assert_eq!(quantity(Some(1234.5)), "1234");
        assert_eq!(quantity(Some(12.34)), "12.3");
        assert_eq!(quantity(Some(0.123)), "0.12");
    }

    #[test]
    fn lines_break_between_words() {
        assert_eq!(wrap("one two three", 8, "  "), "one two\n  three");
        assert_eq!(wrap("unbreakable", 4, ""), "unbreakable");
    }
}
