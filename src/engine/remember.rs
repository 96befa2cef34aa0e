//! What a run leaves for the next one and for readers of its journal: the memo,
//! and lists of the nodes that were reused.

use super::EngineError;
use super::memo::{self, Part, Writer};
use super::table::{Status, Table};
use super::world::World;
use crate::digest::Digest;
use crate::event::Event;
use crate::store::{Outcome, Store, listing};

/// Nodes that stand in a journal's line itself; more are an object.
const INLINE: usize = 64;

impl Table {
    /// Writes down what is settled, unless that is what was known before.
    ///
    /// # Errors
    /// When the store can't be read or written.
    pub(super) fn remember(&self, world: &World, store: &Store) -> Result<(), EngineError> {
        if !self.changed && !world.has_learnt() {
            return Ok(());
        }
        let (Some(basis), Some(standing)) = (self.basis, self.standing) else { return Ok(()) };
        if store.standing()? != standing {
            // Something was lost while the run went on, and it might be of this plan.
            return Ok(());
        }
        let mut writer = Writer::default();
        for node in 0..self.graph.len() {
            let settled = self.settled(node);
            let settled = settled.as_ref().map(|(key, parts)| (*key, parts.iter().copied()));
            writer.node(settled, self.deviates[node]);
        }
        for listing in &self.listings {
            writer.stage(*listing);
        }
        let mut uses: Vec<(u32, u32)> = Vec::new();
        if let (Some(memo), true) = (&self.memo, self.valid) {
            world.recall();
            uses.extend(memo.uses().filter(|(_, node)| !self.asked.contains_key(node)));
        }
        for (node, queries) in &self.asked {
            uses.extend(queries.iter().map(|query| (*query, *node)));
        }
        uses.sort_unstable();
        for (query, node) in uses {
            writer.uses(query, node);
        }
        world.remember(&mut writer);
        let path = memo::path(&store.cache(), &self.pipeline.root, &self.pipeline.name);
        writer.write(&path, basis, &standing).map_err(crate::store::StoreError::from)?;
        Ok(())
    }

    /// Key and parts of a node, where they are known for certain.
    fn settled(&self, node: usize) -> Option<(Digest, Vec<Part<'_>>)> {
        match &self.status[node] {
            Status::Done(record) if record.outcome == Outcome::Done && !self.unsure.contains(&node) => {
                Some((record.key, self.shown(node)?))
            }
            Status::Kept(_) | Status::Found(_) => Some((self.key(node)?, self.shown(node)?)),
            // It wasn't chosen, and nothing that it rests on has changed.
            Status::Skipped if self.valid && !self.open[node] => {
                let memo = self.memo.as_ref()?;
                Some((memo.key(node)?, memo.parts(node)?.collect()))
            }
            _ => None,
        }
    }

    /// The journal's line about nodes of a stage that were reused, given in order.
    ///
    /// A line does not grow with the nodes: it names the object that lists the keys
    /// of the whole stage, which stays the same from run to run, and says what
    /// differs from that.
    ///
    /// # Errors
    /// When the store can't be written.
    pub(super) fn reused(
        &mut self,
        stage: usize,
        nodes: &[usize],
        store: &Store,
    ) -> Result<Event, EngineError> {
        let name = self.pipeline.stages[stage].name.clone();
        let count = nodes.len() as u64;
        let line = |listing, nodes, except| Event::Reused { stage: name, count, listing, nodes, except };
        if nodes.len() <= INLINE {
            return Ok(line(None, self.with_keys(nodes.iter().copied()), Vec::new()));
        }
        let range = self.graph.of_stage(stage);
        if let Some(listing) = self.listings[stage]
            && range.len() - nodes.len() <= INLINE
        {
            let (mut own, mut except) = (Vec::new(), Vec::new());
            let mut reused = nodes.iter().copied().peekable();
            for node in range.clone() {
                if reused.next_if_eq(&node).is_none() {
                    except.push(node);
                } else if self.deviates[node] {
                    own.push(node);
                }
                if own.len() + except.len() > INLINE {
                    break;
                }
            }
            if own.len() + except.len() <= INLINE {
                let except = except.into_iter().map(|node| self.id(node)).collect();
                return Ok(line(Some(listing), self.with_keys(own.into_iter()), except));
            }
        }
        let mut text = listing::Text::default();
        let mut id = String::new();
        for node in nodes {
            if let Some(key) = self.key(*node) {
                id.clear();
                self.graph.write_id(&self.pipeline, *node, &mut id);
                text.add(&id, &key);
            }
        }
        let listing = store.put(text.bytes())?;
        if nodes.len() == range.len() {
            self.listings[stage] = Some(listing);
            self.deviates[range].fill(false);
            self.changed = true;
        }
        Ok(line(Some(listing), Vec::new(), Vec::new()))
    }

    fn with_keys(&self, nodes: impl Iterator<Item = usize>) -> Vec<(String, Digest)> {
        nodes.filter_map(|node| Some((self.id(node), self.key(node)?))).collect()
    }
}
