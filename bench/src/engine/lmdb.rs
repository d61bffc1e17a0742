//! LMDB through heed: a database of records and a database that orders them by deadline.

use std::ops::Bound;
use std::path::Path;

use anyhow::{Context, Result};
use bytes::Bytes;
use heed::types::Bytes as Raw;
use heed::{CommitOrAbort, Database, Env, EnvOpenOptions, RwTxn};

use super::grouped::{Library, Write, index_key, live, partition_end, split_index_key};
use crate::record::Key;

/// Room in the address space, not on the disk.
const MAP_BYTES: usize = 64 << 30;

pub struct Lmdb {
    env: Env,
    records: Database<'static, Raw, Raw>,
    expiry: Database<'static, Raw, Raw>,
}

impl Lmdb {
    pub fn open(dir: &Path) -> Result<Self> {
        let mut options = EnvOpenOptions::new();
        options.map_size(MAP_BYTES).max_dbs(2).max_readers(256);
        // SAFETY: the directory belongs to this process alone, and nobody changes the mapped file meanwhile.
        let env = unsafe { options.open(dir)? };
        let create = |name: &str| {
            env.create_databases_and_commit(env.write_txn()?, |opener, transaction| {
                opener
                    .create_database::<Raw, Raw>(transaction, Some(name))
                    .map(CommitOrAbort::<_, ()>::Commit)
            })
        };
        let (records, expiry) = (create("records")?.unwrap_commit(), create("expiry")?.unwrap_commit());
        Ok(Self { env, records, expiry })
    }

    fn apply(&self, transaction: &mut RwTxn<'_>, write: &Write, now: u64) -> Result<bool> {
        let stored = self.records.get(transaction, &write.key)?;
        if !write.applies(stored, now) {
            return Ok(false);
        }
        let old =
            stored.and_then(|stored| stored.first_chunk().map(|deadline| u64::from_be_bytes(*deadline)));
        if let Some(old) = old {
            self.expiry.delete(transaction, &index_key(old, &write.key))?;
        }
        self.records.put(transaction, &write.key, &write.stored())?;
        self.expiry.put(transaction, &index_key(write.expires_at, &write.key), &[])?;
        Ok(true)
    }

    fn clean(&self, transaction: &mut RwTxn<'_>, limit: usize, now: u64) -> Result<usize> {
        for cleaned in 0..limit {
            let Some((index, _)) = self.expiry.first(transaction)? else { return Ok(cleaned) };
            let (deadline, key) = split_index_key(index).context("an index key has 24 bytes")?;
            if deadline > now {
                return Ok(cleaned);
            }
            self.expiry.delete(transaction, &index_key(deadline, &key))?;
            self.records.delete(transaction, &key)?;
        }
        Ok(limit)
    }
}

impl Library for Lmdb {
    fn commit(&self, writes: &[Write], clean_up_to: usize, now: u64) -> Result<(Vec<bool>, usize)> {
        let mut transaction = self.env.write_txn()?;
        let applied =
            writes.iter().map(|write| self.apply(&mut transaction, write, now)).collect::<Result<_>>()?;
        let cleaned = self.clean(&mut transaction, clean_up_to, now)?;
        transaction.commit()?;
        Ok((applied, cleaned))
    }

    fn get(&self, key: &Key, now: u64) -> Result<Option<Bytes>> {
        let transaction = self.env.read_txn()?;
        let stored = self.records.get(&transaction, key)?;
        Ok(stored.and_then(|stored| live(stored, now)).map(Bytes::copy_from_slice))
    }

    fn range(&self, start: &Key, limit: usize, now: u64) -> Result<Vec<(Key, Bytes)>> {
        let transaction = self.env.read_txn()?;
        let end = partition_end(start);
        let mut found = Vec::with_capacity(limit);
        for record in
            self.records.range(&transaction, &(Bound::Included(&start[..]), Bound::Included(&end[..])))?
        {
            let (key, stored) = record?;
            if let Some(value) = live(stored, now) {
                found.push((key.try_into()?, Bytes::copy_from_slice(value)));
            }
            if found.len() == limit {
                break;
            }
        }
        Ok(found)
    }

    fn compact(&self) -> Result<()> {
        Ok(())
    }
}
