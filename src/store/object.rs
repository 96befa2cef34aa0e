//! Putting objects in and taking them out.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

use super::index::Staged;
use super::ledger::Entry;
use super::pack::{self, FrameKind, LARGE, PackWriter, Placed};
use super::record::{PartRef, Record};
use super::{PartContent, Publication, Shared, Store, StoreError};
use crate::digest::Digest;
use crate::fsio::tree::{self, Node, Tree};
use crate::fsio::{self, Durability, links};

/// Most packs that are kept open.
const MOST_OPEN: usize = 16;

/// Where an object is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Pack id; none for a file of its own.
    pub pack: Option<String>,
    /// Offset in the pack.
    pub offset: u64,
    /// Size in bytes.
    pub size: u64,
}

impl Store {
    /// Bytes of an object, checked against its digest.
    ///
    /// # Errors
    /// When it is absent or damaged.
    pub fn get(&self, digest: &Digest) -> Result<Vec<u8>, StoreError> {
        let found = self.index().object(digest)?.ok_or(StoreError::Missing(*digest))?;
        let path = match &found.pack {
            Some(id) => pack_path(&self.root, id),
            None => loose_path(&self.root, digest),
        };
        let damaged = || StoreError::Damaged { digest: *digest, place: path.display().to_string() };
        let read = match &found.pack {
            Some(id) => pack::read_from(&*self.open_pack(id, &path)?, &path, found.offset)?,
            None => pack::read_at(&path, found.offset)?,
        };
        let (header, payload) = read.ok_or_else(damaged)?;
        if header.digest != *digest {
            return Err(damaged());
        }
        pack::unpack(&header, payload).ok_or_else(damaged)
    }

    /// A pack, kept open: a node may read thousands of objects.
    fn open_pack(&self, id: &str, path: &Path) -> Result<Arc<File>, StoreError> {
        let mut open = self.open_packs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = open.get(id) {
            return Ok(Arc::clone(file));
        }
        let file = Arc::new(fsio::at(File::open(path), "can't read", path)?);
        if open.len() >= MOST_OPEN {
            open.clear();
        }
        open.insert(id.to_owned(), Arc::clone(&file));
        Ok(file)
    }

    /// Writes the tree whose listing is `digest` into `target`.
    ///
    /// # Errors
    /// When an object is absent or damaged, or a path in it is unsafe.
    pub fn restore(&self, digest: &Digest, target: &Path) -> Result<Tree, StoreError> {
        let listing = self.get(digest)?;
        let tree = Tree::parse(&listing)
            .map_err(|why| StoreError::Unreadable { what: format!("tree {digest}"), why })?;
        fsio::create_dir(target)?;
        let known = tree.links();
        for entry in &tree.entries {
            let path = target.join(&entry.path);
            match &entry.node {
                Node::File { exec, digest, .. } => {
                    fsio::write_plain(&path, &self.get(digest)?)?;
                    if *exec {
                        tree::set_executable(&path)?;
                    }
                }
                // Links that leave the tree are not restored.
                Node::Link(to) if !links::leaves(&known, &entry.path) => tree::make_link(&path, to)?,
                Node::Link(_) => {}
            }
        }
        Ok(tree)
    }

    /// Puts the objects of a publication into the pack; its record comes later.
    pub(super) fn stage(
        &self,
        writer: &mut PackWriter,
        publication: Publication,
    ) -> Result<(Staged, Option<Entry>), StoreError> {
        let Publication { mut record, recipe, parts, ledger } = publication;
        record.recipe = self.put_object(writer, &recipe)?;
        for (name, content) in parts {
            let part = match content {
                PartContent::Bytes(bytes) => PartRef {
                    digest: self.put_object(writer, &bytes)?,
                    size: bytes.len() as u64,
                    tree: false,
                },
                PartContent::Shared(Shared { digest, bytes }) => {
                    self.put_known(writer, digest, &bytes)?;
                    PartRef { digest, size: bytes.len() as u64, tree: false }
                }
                PartContent::File(path) => {
                    let bytes = fsio::read(&path)?;
                    PartRef {
                        digest: self.put_object(writer, &bytes)?,
                        size: bytes.len() as u64,
                        tree: false,
                    }
                }
                PartContent::Tree(root) => {
                    let tree = tree::scan(&root)?;
                    for entry in &tree.entries {
                        if let Node::File { digest, .. } = entry.node {
                            if self.present(writer, &digest)? {
                                continue;
                            }
                            let bytes = fsio::read(&root.join(&entry.path))?;
                            self.put_object(writer, &bytes)?;
                        }
                    }
                    let listing = tree.listing();
                    PartRef { digest: self.put_object(writer, &listing)?, size: tree.bytes(), tree: true }
                }
            };
            record.parts.insert(name, part);
        }
        let digest = Digest::of(&body_of(&record)?);
        Ok((Staged { record, digest, arrival: None }, ledger))
    }

    pub(super) fn present(&self, writer: &PackWriter, digest: &Digest) -> Result<bool, StoreError> {
        Ok(writer.has(digest) || self.index().object(digest)?.is_some())
    }

    pub(super) fn put_object(&self, writer: &mut PackWriter, bytes: &[u8]) -> Result<Digest, StoreError> {
        let digest = Digest::of(bytes);
        self.put_known(writer, digest, bytes)?;
        Ok(digest)
    }

    /// Puts bytes whose digest is known, unless they are there.
    fn put_known(&self, writer: &mut PackWriter, digest: Digest, bytes: &[u8]) -> Result<(), StoreError> {
        if self.present(writer, &digest)? {
            return Ok(());
        }
        let (header, payload) = pack::frame(FrameKind::Object, digest, bytes);
        if payload.len() < LARGE {
            writer.append(header, &payload);
        } else {
            let mut whole = header.encode().to_vec();
            whole.extend_from_slice(&payload);
            fsio::write_atomic(&loose_path(&self.root, &digest), &whole, Durability::Synced)?;
            writer.note(Placed { header, pack: None, offset: 0 });
        }
        Ok(())
    }
}

/// Puts a record into the pack; durable after the pack's sync.
pub(super) fn append_record(writer: &mut PackWriter, staged: &Staged) -> Result<(), StoreError> {
    let (header, payload) = pack::frame(FrameKind::Record, staged.digest, &body_of(&staged.record)?);
    writer.append(header, &payload);
    Ok(())
}

fn body_of(record: &Record) -> Result<Vec<u8>, StoreError> {
    serde_json::to_vec(record)
        .map_err(|e| StoreError::Unreadable { what: "a record of ours".to_owned(), why: e.to_string() })
}

pub(super) fn pack_path(root: &Path, id: &str) -> PathBuf {
    root.join("packs").join(format!("{id}.pack"))
}

pub(super) fn loose_path(root: &Path, digest: &Digest) -> PathBuf {
    let hex = digest.hex();
    root.join("objects").join(&hex[..2]).join(&hex[2..])
}
