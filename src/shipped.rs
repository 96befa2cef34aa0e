//! Files compiled into the program: the sample corpus and its questions,
//! presets, pipelines, schemas, examples. A project's own file of the same
//! path takes precedence; who looks decides that.

/// Path (relative, with `/`) and content, in bytewise order of the paths.
static FILES: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/shipped.rs"));

/// Content of a shipped file.
#[must_use]
pub fn get(path: &str) -> Option<&'static [u8]> {
    FILES.binary_search_by(|(name, _)| (*name).cmp(path)).ok().map(|at| FILES[at].1)
}

/// Text of a shipped file; none when it is absent or not UTF-8.
#[must_use]
pub fn text(path: &str) -> Option<&'static str> {
    get(path).and_then(|bytes| std::str::from_utf8(bytes).ok())
}

/// Shipped files whose path starts with `prefix`, in order.
pub fn list(prefix: &str) -> impl Iterator<Item = (&'static str, &'static [u8])> {
    let start = FILES.partition_point(|(name, _)| *name < prefix);
    FILES[start..].iter().take_while(move |(name, _)| name.starts_with(prefix)).copied()
}
