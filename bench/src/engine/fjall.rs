//! fjall 3: one keyspace, and a compaction filter that drops what has expired. An expiry index would cost it
//! a second write per record; the filter is its best.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use bytes::Bytes;
use fjall::compaction::filter::{
    CompactionFilter, CompactionFilterResult, Context, Factory, ItemAccessor, Verdict,
};
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};

use super::grouped::{Library, Now, Write, live, partition_end};
use crate::record::Key;

pub struct Fjall {
    database: Database,
    records: Keyspace,
}

impl Fjall {
    pub fn open(dir: &Path, now: Now) -> Result<Self> {
        let filter: Arc<dyn Factory> = Arc::new(DropExpired(now));
        let database = Database::builder(dir)
            .with_compaction_filter_factories(Arc::new(move |_keyspace| Some(Arc::clone(&filter))))
            .open()?;
        let records = database.keyspace("records", KeyspaceCreateOptions::default)?;
        Ok(Self { database, records })
    }

    /// Applies writes of distinct keys: a batch does not see what it has written itself.
    fn commit_distinct(&self, writes: &[Write], now: u64, applied: &mut Vec<bool>) -> Result<()> {
        let mut batch = self.database.batch().durability(Some(PersistMode::SyncData));
        for write in writes {
            let applies = write.applies(self.records.get(write.key)?.as_deref(), now);
            if applies {
                batch.insert(&self.records, write.key, write.stored());
            }
            applied.push(applies);
        }
        Ok(batch.commit()?)
    }
}

impl Library for Fjall {
    fn commit(&self, mut writes: &[Write], _clean: usize, now: u64) -> Result<(Vec<bool>, usize)> {
        let mut applied = Vec::with_capacity(writes.len());
        while !writes.is_empty() {
            let mut keys = HashSet::with_capacity(writes.len());
            let distinct = writes.iter().position(|write| !keys.insert(write.key)).unwrap_or(writes.len());
            let (now_writes, rest) = writes.split_at(distinct);
            self.commit_distinct(now_writes, now, &mut applied)?;
            writes = rest;
        }
        Ok((applied, 0))
    }

    fn get(&self, key: &Key, now: u64) -> Result<Option<Bytes>> {
        let stored = self.records.get(key)?;
        Ok(stored.and_then(|stored| live(&stored, now).map(Bytes::copy_from_slice)))
    }

    fn range(&self, start: &Key, limit: usize, now: u64) -> Result<Vec<(Key, Bytes)>> {
        let mut found = Vec::with_capacity(limit);
        for record in self.records.range(*start..=partition_end(start)) {
            let (key, stored) = record.into_inner()?;
            if let Some(value) = live(&stored, now) {
                found.push((key.as_ref().try_into()?, Bytes::copy_from_slice(value)));
            }
            if found.len() == limit {
                break;
            }
        }
        Ok(found)
    }

    fn compact(&self) -> Result<()> {
        self.records.rotate_memtable_and_wait()?;
        Ok(self.records.major_compact()?)
    }
}

#[derive(Debug, Clone)]
struct DropExpired(Now);

impl Factory for DropExpired {
    fn name(&self) -> &str {
        "drop expired"
    }

    fn make_filter(&self, _context: &Context) -> Box<dyn CompactionFilter> {
        Box::new(self.clone())
    }
}

impl CompactionFilter for DropExpired {
    fn filter_item(&mut self, item: ItemAccessor<'_>, _context: &Context) -> CompactionFilterResult {
        let expired = live(&item.value()?, self.0.get()).is_none();
        // A tombstone rather than nothing: an older version further down may have a later deadline.
        Ok(if expired { Verdict::Remove } else { Verdict::Keep })
    }
}
