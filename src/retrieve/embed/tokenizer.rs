//! Token numbers of a text by a Hugging Face `tokenizer.json`.
//!
//! Only the vocabulary is used: within each run of letters, of digits, or of
//! one other character, the longest token in the vocabulary that fits is
//! taken, then the next. For a mean of vectors that is as good as the merges
//! of BPE or the scores of a unigram model, whose cuts it mostly shares; it
//! isn't the same sequence.

use std::collections::HashMap;

use serde_json::Value;

/// Longest token that is looked for, in bytes.
const LONGEST: usize = 64;

/// How a vocabulary marks where words begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    /// A sign before a token that begins a word (`▁` or `Ġ`).
    Start(char),
    /// `##` before a token that doesn't.
    Inside,
    /// None.
    Plain,
}

/// A vocabulary.
#[derive(Clone, Debug)]
pub(super) struct Tokenizer {
    vocabulary: HashMap<String, u32>,
    mark: Mark,
    lower: bool,
}

impl Tokenizer {
    /// Reads `model.vocab`: an object of token to number, or a list of
    /// [token, score].
    pub(super) fn parse(json: &[u8]) -> Result<Self, String> {
        let document: Value = serde_json::from_slice(json).map_err(|e| e.to_string())?;
        let vocab = document.pointer("/model/vocab").ok_or("no `model.vocab`")?;
        let mut vocabulary = HashMap::new();
        let mut add = |token: &str, id: Option<u32>| {
            let id = id.ok_or_else(|| format!("token `{token}` has no usable number"))?;
            vocabulary.insert(token.to_owned(), id);
            Ok::<_, String>(())
        };
        match vocab {
            Value::Object(map) => {
                for (token, id) in map {
                    add(token, id.as_u64().and_then(|n| u32::try_from(n).ok()))?;
                }
            }
            Value::Array(list) => {
                for (id, pair) in (0_u32..).zip(list) {
                    let token =
                        pair.get(0).and_then(Value::as_str).ok_or("`model.vocab` is no list of pairs")?;
                    add(token, Some(id))?;
                }
            }
            _ => return Err("`model.vocab` is neither object nor list".to_owned()),
        }
        let count = |start: &str| vocabulary.keys().filter(|t| t.starts_with(start)).count();
        let marks =
            [(count("▁"), Mark::Start('▁')), (count("Ġ"), Mark::Start('Ġ')), (count("##"), Mark::Inside)];
        let most = marks.into_iter().max_by_key(|(n, _)| *n).filter(|(n, _)| *n > 0);
        // A vocabulary without capitals is of folded text.
        let capital =
            |t: &String| t.len() > 1 && t.chars().any(char::is_uppercase) && !t.starts_with(['[', '<']);
        let lower = !vocabulary.keys().any(capital);
        Ok(Self { mark: most.map_or(Mark::Plain, |(_, mark)| mark), lower, vocabulary })
    }

    /// Largest token number.
    pub(super) fn largest(&self) -> u32 {
        self.vocabulary.values().copied().max().unwrap_or(0)
    }

    /// Token numbers of a text in order; what isn't in the vocabulary is
    /// left out.
    pub(super) fn tokens(&self, text: &str) -> Vec<u32> {
        let folded;
        let text = if self.lower {
            folded = text.to_lowercase();
            &folded
        } else {
            text
        };
        let mut out = Vec::new();
        // Letters, digits, or a sign, which is always alone.
        let class = |c: char| if c.is_alphabetic() { 0 } else { 1 + u8::from(!c.is_numeric()) };
        let joins = |a: char, b: char| class(a) == class(b) && class(a) != 2;
        let mut spaced = true;
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            if first.is_whitespace() {
                spaced = true;
                rest = &rest[first.len_utf8()..];
                continue;
            }
            let end = rest.char_indices().skip(1).find(|(_, c)| c.is_whitespace() || !joins(first, *c));
            let end = end.map_or(rest.len(), |(at, _)| at);
            self.word(&rest[..end], spaced, &mut out);
            spaced = false;
            rest = &rest[end..];
        }
        out
    }

    fn word(&self, word: &str, spaced: bool, out: &mut Vec<u32>) {
        let mut at = 0;
        let mut key = String::new();
        while at < word.len() {
            let rest = &word[at..];
            let limit = rest.len().min(LONGEST);
            let found = (1..=limit).rev().filter(|n| rest.is_char_boundary(*n)).find_map(|n| {
                let piece = &rest[..n];
                let first = at == 0 && spaced;
                let mut look = |mark: &str| {
                    key.clear();
                    key.push_str(mark);
                    key.push_str(piece);
                    self.vocabulary.get(&key).copied()
                };
                let id = match self.mark {
                    Mark::Start(sign) if first => {
                        let mut buffer = [0; 4];
                        look(sign.encode_utf8(&mut buffer)).or_else(|| look(""))
                    }
                    Mark::Inside if at > 0 => look("##"),
                    _ => look(""),
                };
                id.map(|id| (id, n))
            });
            match found {
                Some((id, n)) => {
                    out.push(id);
                    at += n;
                }
                None => at += rest.chars().next().map_or(1, char::len_utf8),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokenizer(tokens: &[&str]) -> Tokenizer {
        let vocab: serde_json::Map<String, Value> =
            tokens.iter().enumerate().map(|(i, t)| ((*t).to_owned(), Value::from(i))).collect();
        let json = serde_json::json!({"model": {"vocab": vocab}});
        Tokenizer::parse(json.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn the_longest_token_wins() {
        let t = tokenizer(&["▁re", "▁retry", "try", "ing", "(", "▁", "X1"]);
        assert_eq!(t.tokens("retrying (try)"), [1, 3, 4, 2]);
        assert_eq!(t.tokens("  retry"), [1]);
        assert_eq!(t.tokens("ß"), [] as [u32; 0]);
    }

    #[test]
    fn word_pieces_are_continued() {
        let t = tokenizer(&["re", "##try", "##ing", "try"]);
        assert_eq!(t.tokens("Retrying"), [0, 1, 2]);
        assert_eq!(t.tokens("try"), [3]);
    }

    #[test]
    fn lists_of_pairs_are_vocabularies_too() {
        let t = Tokenizer::parse(br#"{"model":{"vocab":[["<unk>",0.0],["a",-1.0]]}}"#).unwrap();
        assert_eq!((t.tokens("a"), t.largest()), (vec![1], 1));
        for bad in [
            "",
            "{}",
            r#"{"model":{"vocab":3}}"#,
            r#"{"model":{"vocab":{"a":-1}}}"#,
            r#"{"model":{"vocab":[3]}}"#,
        ] {
            assert!(Tokenizer::parse(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
