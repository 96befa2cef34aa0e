//! Unpacks gzipped tar archives from strangers.
//!
//! The headers are read raw and long names are put together here, because a
//! convenient reader would first load an extension of any size into memory.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use tar::{Archive, EntryType, PaxExtensions};

use super::error::CorpusError;
use super::staging::{self, Limits, Staging};
use crate::fsio;

/// Largest header extension (long names) that is read.
const LARGEST_EXTENSION: u64 = 1 << 16;

/// Takes the entries of the archive at `file` into `staging`, names as they
/// stand there. Only regular files, folders and links are taken.
pub(crate) fn unpack(file: &Path, staging: &mut Staging) -> Result<(), CorpusError> {
    let mut packed = fsio::at(File::open(file), "can't read", file)?;
    let size = fsio::at(packed.metadata(), "can't look at", file)?.len();
    let mut magic = [0u8; 2];
    if packed.read_exact(&mut magic).is_err() || magic != [0x1f, 0x8b] {
        return Err(staging.refusal("it is no gzipped tar archive"));
    }
    let packed = fsio::at(File::open(file), "can't read", file)?;
    let limits = staging.limits();
    let left =
        size.saturating_mul(limits.ratio).saturating_add(Limits::GRACE).min(limits.total + Limits::GRACE);
    let mut archive = Archive::new(Metered { inner: MultiGzDecoder::new(packed), left });
    let mut long = Long::default();
    let entries = archive.entries().map_err(|e| damaged(staging, &e))?;
    for entry in entries.raw(true) {
        let mut entry = entry.map_err(|e| damaged(staging, &e))?;
        staging.count()?;
        let kind = entry.header().entry_type();
        if matches!(
            kind,
            EntryType::GNULongName | EntryType::GNULongLink | EntryType::XHeader | EntryType::XGlobalHeader
        ) {
            if entry.size() > LARGEST_EXTENSION {
                return Err(staging.refusal("it holds a header extension of absurd size"));
            }
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).map_err(|e| damaged(staging, &e))?;
            long.take(kind, bytes, staging)?;
            continue;
        }
        let names = std::mem::take(&mut long);
        let name = names.path.unwrap_or_else(|| entry.path_bytes().into_owned());
        let name = text(name, "name", staging)?;
        if names.size.is_some_and(|size| size != entry.size()) {
            return Err(staging.refusal(format!("entry `{name}` states two sizes")));
        }
        let is_folder = kind.is_dir() || (kind.is_file() && name.ends_with('/'));
        let path = tidy(&name);
        if path.is_empty() && is_folder {
            continue;
        }
        if let Err(why) = staging::check_name(path) {
            return Err(staging.refusal(why));
        }
        if staging::is_private(path) {
            staging.note(format!("left out: `{path}` is a repository's or store's own data"));
            continue;
        }
        let target = |staging: &Staging| {
            let bytes =
                names.link.clone().or_else(|| entry.link_name_bytes().map(std::borrow::Cow::into_owned));
            text(bytes.unwrap_or_default(), "link", staging)
        };
        match kind {
            _ if is_folder => staging.folder(path)?,
            EntryType::Regular | EntryType::Continuous => {
                if entry.size() > limits.file {
                    return Err(
                        staging.refusal(format!("file `{path}` is larger than {} bytes", limits.file))
                    );
                }
                let exec = entry.header().mode().unwrap_or(0) & 0o111 != 0;
                let expected = entry.size();
                let mut counted = Counted { inner: &mut entry, bytes: 0 };
                staging.file(path, exec, &mut counted)?;
                if counted.bytes != expected {
                    return Err(staging.refusal(format!("it ends in the middle of `{path}`")));
                }
            }
            EntryType::Symlink => {
                let target = target(staging)?;
                staging.link(path, &target)?;
            }
            EntryType::Link => {
                let target = target(staging)?;
                let Some((source, exec)) = staging.again(tidy(&target)) else {
                    return Err(staging.refusal(format!("hard link `{path}` leads to no file before it")));
                };
                let mut content = fsio::at(File::open(&source), "can't read", &source)?;
                staging.file(path, exec, &mut content)?;
            }
            EntryType::Char | EntryType::Block => {
                return Err(staging.refusal(format!("`{path}` is a device")));
            }
            EntryType::Fifo => return Err(staging.refusal(format!("`{path}` is a pipe"))),
            _ => {
                return Err(staging.refusal(format!("`{path}` is of an unknown kind ({})", kind.as_byte())));
            }
        }
    }
    Ok(())
}

/// A name without the `./` that some packers put before it and the `/` after folders.
fn tidy(name: &str) -> &str {
    let mut name = name.trim_end_matches('/');
    while let Some(rest) = name.strip_prefix("./") {
        name = rest;
    }
    if name == "." { "" } else { name }
}

fn text(bytes: Vec<u8>, what: &str, staging: &Staging) -> Result<String, CorpusError> {
    String::from_utf8(bytes).map_err(|e| {
        let shown = String::from_utf8_lossy(e.as_bytes()).chars().take(100).collect::<String>();
        staging.refusal(format!("the {what} `{shown}` is not UTF-8"))
    })
}

fn damaged(staging: &Staging, error: &io::Error) -> CorpusError {
    if error.kind() == io::ErrorKind::FileTooLarge {
        return staging.refusal("it unpacks to an absurd size");
    }
    staging.refusal(format!("it is damaged: {error}"))
}

/// What extensions say of the entry after them.
#[derive(Default)]
struct Long {
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    size: Option<u64>,
}

impl Long {
    fn take(&mut self, kind: EntryType, mut bytes: Vec<u8>, staging: &Staging) -> Result<(), CorpusError> {
        match kind {
            EntryType::GNULongName | EntryType::GNULongLink => {
                if bytes.last() == Some(&0) {
                    bytes.pop();
                }
                let slot = if kind == EntryType::GNULongName { &mut self.path } else { &mut self.link };
                *slot = Some(bytes);
            }
            EntryType::XHeader => {
                for extension in PaxExtensions::new(&bytes) {
                    let extension = extension.map_err(|e| damaged(staging, &e))?;
                    match extension.key_bytes() {
                        b"path" => self.path = Some(extension.value_bytes().to_vec()),
                        b"linkpath" => self.link = Some(extension.value_bytes().to_vec()),
                        b"size" => {
                            let size = extension.value().ok().and_then(|text| text.parse().ok());
                            self.size = Some(size.unwrap_or(u64::MAX));
                        }
                        key if key.starts_with(b"GNU.sparse") => {
                            return Err(staging.refusal("it holds a sparse file"));
                        }
                        _ => {}
                    }
                }
            }
            // Global headers hold comments (the commit, for git's archives).
            _ => {}
        }
        Ok(())
    }
}

/// Fails when more than the allowed bytes come out.
struct Metered<R> {
    inner: R,
    left: u64,
}

impl<R: Read> Read for Metered<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let got = self.inner.read(buffer)?;
        self.left = self
            .left
            .checked_sub(got as u64)
            .ok_or_else(|| io::Error::new(io::ErrorKind::FileTooLarge, "unpacks to an absurd size"))?;
        Ok(got)
    }
}

struct Counted<'a, R> {
    inner: &'a mut R,
    bytes: u64,
}

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let got = self.inner.read(buffer)?;
        self.bytes += got as u64;
        Ok(got)
    }
}
