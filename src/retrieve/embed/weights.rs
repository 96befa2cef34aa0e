//! A table of token vectors from a safetensors file.
//!
//! The format: eight bytes of little-endian length, that many bytes of JSON
//! (`{name: {dtype, shape, data_offsets}}`), then the data.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::tokenizer::Tokenizer;
use crate::fsio;
use crate::retrieve::EngineError;

/// Largest file of weights.
const MOST_BYTES: u64 = 1 << 30;
/// Largest tokenizer JSON.
const MOST_TOKENIZER: u64 = 64 << 20;
/// Largest safetensors header.
const MOST_HEADER: u64 = 16 << 20;
/// Largest number of dimensions.
const MOST_DIMENSIONS: usize = 4096;

/// Names under which such tables are kept, most telling first.
const NAMES: &[&str] = &["embedding.weight", "embeddings", "embeddings.weight"];

/// Vectors, one row per token.
pub(super) struct Table {
    pub(super) dimensions: usize,
    values: Vec<f32>,
}

impl Table {
    /// Mean of the vectors of these tokens; zero for none.
    pub(super) fn mean(&self, tokens: Vec<u32>) -> Vec<f32> {
        let mut out = vec![0.0; self.dimensions];
        let mut count = 0.0_f32;
        for token in tokens {
            let start = token as usize * self.dimensions;
            if let Some(row) = self.values.get(start..start + self.dimensions) {
                out.iter_mut().zip(row).for_each(|(sum, x)| *sum += x);
                count += 1.0;
            }
        }
        for x in &mut out {
            *x /= count.max(1.0);
        }
        out
    }

    fn parse(bytes: &[u8]) -> Result<Self, String> {
        let (head, rest) = bytes.split_first_chunk::<8>().ok_or("shorter than its header")?;
        let length = u64::from_le_bytes(*head);
        let header = usize::try_from(length.min(MOST_HEADER + 1)).unwrap_or(usize::MAX);
        if length > MOST_HEADER || header > rest.len() {
            return Err(format!("a header of {length} bytes"));
        }
        let (json, data) = rest.split_at(header);
        let header: Value = serde_json::from_slice(json).map_err(|e| e.to_string())?;
        let (name, entry) = NAMES
            .iter()
            .find_map(|name| header.get(name).map(|entry| (*name, entry)))
            .ok_or_else(|| format!("no tensor named {}", NAMES.join(" or ")))?;
        let whole = |v: &Value| v.as_u64().and_then(|n| usize::try_from(n).ok());
        let pair = |key: &str| -> Option<(usize, usize)> {
            match entry.get(key)?.as_array()?.as_slice() {
                [a, b] => Some((whole(a)?, whole(b)?)),
                _ => None,
            }
        };
        let (rows, dimensions) = pair("shape").ok_or_else(|| format!("`{name}` has no two dimensions"))?;
        let (start, end) = pair("data_offsets").ok_or_else(|| format!("`{name}` has no offsets"))?;
        if dimensions == 0 || dimensions > MOST_DIMENSIONS {
            return Err(format!("`{name}` has {dimensions} dimensions"));
        }
        let data = data.get(start..end).ok_or_else(|| format!("`{name}` lies outside of the file"))?;
        let (size, read): (usize, fn(&[u8]) -> f32) = match entry.get("dtype").and_then(Value::as_str) {
            Some("F32") => (4, |b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])),
            Some("F16") => (2, |b| half(u16::from_le_bytes([b[0], b[1]]))),
            Some("BF16") => (2, |b| f32::from_bits(u32::from(u16::from_le_bytes([b[0], b[1]])) << 16)),
            other => return Err(format!("`{name}` is of type {}", other.unwrap_or("none"))),
        };
        if rows.checked_mul(dimensions).and_then(|n| n.checked_mul(size)) != Some(data.len()) {
            return Err(format!("`{name}` has another size than its shape says"));
        }
        let values: Vec<f32> = data.chunks_exact(size).map(read).collect();
        if values.iter().any(|x| !x.is_finite()) {
            return Err(format!("`{name}` has values that are no numbers"));
        }
        Ok(Self { dimensions, values })
    }
}

/// An IEEE half as a float.
fn half(bits: u16) -> f32 {
    let sign = if bits >> 15 == 0 { 1.0 } else { -1.0 };
    let exponent = i32::from((bits >> 10) & 0x1f);
    let fraction = f32::from(bits & 0x3ff);
    match exponent {
        0 => sign * fraction * 2.0_f32.powi(-24),
        0x1f if fraction == 0.0 => sign * f32::INFINITY,
        0x1f => f32::NAN,
        _ => sign * (1.0 + fraction / 1024.0) * 2.0_f32.powi(exponent - 15),
    }
}

/// The first file in a folder, by name, that ends so.
fn file_in(folder: &Path, end: &str) -> Result<PathBuf, EngineError> {
    let mut names: Vec<PathBuf> = Vec::new();
    for entry in fsio::at(fs::read_dir(folder), "can't list", folder)? {
        let path = fsio::at(entry, "can't list", folder)?.path();
        if path.is_file() && path.to_str().is_some_and(|p| p.ends_with(end)) {
            names.push(path);
        }
    }
    names.sort();
    let reason = || format!("no file in it ends in `{end}`");
    names.into_iter().next().ok_or_else(|| EngineError::Weights { path: folder.to_owned(), reason: reason() })
}

/// Reads a folder with `*.safetensors` and `*tokenizer.json` (else
/// `*.json`), or the safetensors file with the other beside it.
///
/// # Errors
/// When one is missing, too large, no such file, or they don't fit.
pub(super) fn read(path: &Path) -> Result<(Tokenizer, Table), EngineError> {
    let (folder, tensors) = if path.is_file() {
        (path.parent().unwrap_or(Path::new(".")).to_owned(), path.to_owned())
    } else {
        (path.to_owned(), file_in(path, ".safetensors")?)
    };
    let folder = if folder.as_os_str().is_empty() { PathBuf::from(".") } else { folder };
    let words = file_in(&folder, "tokenizer.json").or_else(|_| file_in(&folder, ".json"))?;
    let fault = |path: &Path| {
        let path = path.to_owned();
        move |reason: String| EngineError::Weights { path, reason }
    };
    let table = Table::parse(&fsio::read_limited(&tensors, MOST_BYTES)?).map_err(fault(&tensors))?;
    let tokenizer = Tokenizer::parse(&fsio::read_limited(&words, MOST_TOKENIZER)?).map_err(fault(&words))?;
    let rows = table.values.len() / table.dimensions;
    if tokenizer.largest() as usize >= rows {
        let reason = format!("token {} has no row among {rows}", tokenizer.largest());
        return Err(fault(&words)(reason));
    }
    Ok((tokenizer, table))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A folder with a table of two dimensions.
    pub(in crate::retrieve::embed) fn folder(rows: &[(&str, [f32; 2])], dtype: &str) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let vocab: serde_json::Map<String, Value> =
            rows.iter().enumerate().map(|(i, (t, _))| ((*t).to_owned(), Value::from(i))).collect();
        let json = serde_json::json!({"model": {"type": "BPE", "vocab": vocab}}).to_string();
        fsio::write_plain(&dir.path().join("tokenizer.json"), json.as_bytes()).unwrap();
        let data: Vec<u8> = rows.iter().flat_map(|(_, v)| v.iter().flat_map(|x| x.to_le_bytes())).collect();
        let shape = [rows.len(), 2];
        let header = serde_json::json!({"embedding.weight":
            {"dtype": dtype, "shape": shape, "data_offsets": [0, data.len()]}});
        fsio::write_plain(&dir.path().join("m.safetensors"), &file(&header.to_string(), &data)).unwrap();
        dir
    }

    fn file(header: &str, data: &[u8]) -> Vec<u8> {
        let mut out = (header.len() as u64).to_le_bytes().to_vec();
        out.extend(header.as_bytes());
        out.extend(data);
        out
    }

    #[test]
    fn halves_are_read() {
        for (bits, value) in [
            (0x3c00, 1.0),
            (0xc000, -2.0),
            (0x3555, 0.333_251_95),
            (0x0001, 5.960_464_5e-8),
            (0x7bff, 65504.0),
        ] {
            assert!((half(bits) - value).abs() <= value.abs() * 1e-6, "{bits:x}");
        }
        assert!(half(0x7c01).is_nan() && half(0xfc00).is_infinite());
    }

    #[test]
    fn faulty_tables_are_refused() {
        let entry = |dtype: &str, shape: &str, offsets: &str| {
            format!(r#"{{"embeddings":{{"dtype":"{dtype}","shape":{shape},"data_offsets":{offsets}}}}}"#)
        };
        assert!(Table::parse(&file(&entry("F16", "[2,2]", "[0,8]"), &[0; 8])).is_ok());
        for (header, data) in [
            (entry("F16", "[2,2]", "[0,9]"), 8),
            (entry("F16", "[2,2]", "[4,2]"), 8),
            (entry("F16", "[3,2]", "[0,8]"), 8),
            (entry("F16", "[18446744073709551615,4096]", "[0,8]"), 8),
            (entry("F16", "[8,0]", "[0,0]"), 8),
            (entry("I8", "[2,2]", "[0,4]"), 8),
            (entry("F16", "[4]", "[0,8]"), 8),
            ("{}".to_owned(), 8),
            ("nonsense".to_owned(), 8),
        ] {
            assert!(Table::parse(&file(&header, &vec![0; data])).is_err(), "{header}");
        }
        assert!(Table::parse(&u64::MAX.to_le_bytes()).is_err());
        assert!(Table::parse(b"123").is_err());
        assert!(Table::parse(&file(&entry("F16", "[1,2]", "[0,4]"), &[0, 0x7c, 0, 0])).is_err());
    }

    #[test]
    fn refusals_name_the_file() {
        let text = |r: Result<(Tokenizer, Table), EngineError>| r.err().unwrap().to_string();
        let dir = tempfile::tempdir().unwrap();
        assert!(text(read(dir.path())).contains("no file in it ends in `.safetensors`"));
        assert!(text(read(&dir.path().join("absent"))).contains("absent"));
        let odd = folder(&[("a", [0.0, 1.0])], "F64");
        assert!(text(read(odd.path())).contains("m.safetensors`: `embedding.weight` is of type F64"));
    }
}
