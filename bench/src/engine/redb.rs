//! redb: a table of records and a table that orders them by deadline.

use std::path::Path;

use anyhow::{Context, Result};
use bytes::Bytes;
use redb::{Database, ReadableDatabase, ReadableTable, Table, TableDefinition};

use super::grouped::{Library, Write, index_key, live, partition_end, split_index_key};
use crate::record::Key;

const RECORDS: TableDefinition<'_, &[u8; 16], &[u8]> = TableDefinition::new("records");
const EXPIRY: TableDefinition<'_, &[u8; 24], ()> = TableDefinition::new("expiry");

pub struct Redb(Database);

impl Redb {
    pub fn open(dir: &Path) -> Result<Self> {
        let database = Database::create(dir.join("redb"))?;
        let transaction = database.begin_write()?;
        transaction.open_table(RECORDS)?;
        transaction.open_table(EXPIRY)?;
        transaction.commit()?;
        Ok(Self(database))
    }
}

type Records<'t> = Table<'t, &'static [u8; 16], &'static [u8]>;
type Expiry<'t> = Table<'t, &'static [u8; 24], ()>;

fn apply(records: &mut Records<'_>, expiry: &mut Expiry<'_>, write: &Write, now: u64) -> Result<bool> {
    let old = {
        let stored = records.get(&write.key)?;
        let stored = stored.as_ref().map(|stored| stored.value());
        if !write.applies(stored, now) {
            return Ok(false);
        }
        stored.and_then(|stored| stored.first_chunk().map(|deadline| u64::from_be_bytes(*deadline)))
    };
    if let Some(old) = old {
        expiry.remove(&index_key(old, &write.key))?;
    }
    records.insert(&write.key, write.stored().as_slice())?;
    expiry.insert(&index_key(write.expires_at, &write.key), ())?;
    Ok(true)
}

fn clean(records: &mut Records<'_>, expiry: &mut Expiry<'_>, limit: usize, now: u64) -> Result<usize> {
    for cleaned in 0..limit {
        let Some((index, ())) = expiry.first()?.map(|(index, unit)| (*index.value(), unit.value())) else {
            return Ok(cleaned);
        };
        let (deadline, key) = split_index_key(&index).context("an index key has 24 bytes")?;
        if deadline > now {
            return Ok(cleaned);
        }
        expiry.remove(&index)?;
        records.remove(&key)?;
    }
    Ok(limit)
}

impl Library for Redb {
    fn commit(&self, writes: &[Write], clean_up_to: usize, now: u64) -> Result<(Vec<bool>, usize)> {
        let transaction = self.0.begin_write()?;
        let (mut records, mut expiry) = (transaction.open_table(RECORDS)?, transaction.open_table(EXPIRY)?);
        let applied =
            writes.iter().map(|write| apply(&mut records, &mut expiry, write, now)).collect::<Result<_>>()?;
        let cleaned = clean(&mut records, &mut expiry, clean_up_to, now)?;
        drop((records, expiry));
        transaction.commit()?;
        Ok((applied, cleaned))
    }

    fn get(&self, key: &Key, now: u64) -> Result<Option<Bytes>> {
        let records = self.0.begin_read()?.open_table(RECORDS)?;
        Ok(records.get(key)?.and_then(|stored| live(stored.value(), now).map(Bytes::copy_from_slice)))
    }

    fn range(&self, start: &Key, limit: usize, now: u64) -> Result<Vec<(Key, Bytes)>> {
        let records = self.0.begin_read()?.open_table(RECORDS)?;
        let mut found = Vec::with_capacity(limit);
        for record in records.range::<&Key>(start..=&partition_end(start))? {
            let (key, stored) = record?;
            if let Some(value) = live(stored.value(), now) {
                found.push((*key.value(), Bytes::copy_from_slice(value)));
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
