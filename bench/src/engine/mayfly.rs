//! Mayfly itself, through its public contract: the file backend durable as by default, and the memory backend.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use async_trait::async_trait;
use bytes::Bytes;
use clap::ValueEnum;
use futures_util::StreamExt;
use mayfly_store::{
    Clock, ExpiredFeed, Expiry, FileOptions, FileStore, ManualClock, MemStore, Range, Stats, Store,
    SystemClock, Ttl, Value,
};

use super::{Engine, Time};
use crate::record::{Key, Record};

/// Mayfly's embedded backends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Backend {
    Mem,
    File,
}

impl Backend {
    pub fn title(self) -> &'static str {
        match self {
            Self::Mem => "mem",
            Self::File => "file",
        }
    }
}

/// What both embedded backends can do.
pub trait Embedded: Store + ExpiredFeed {
    fn stats(&self) -> Stats;
}

impl Embedded for MemStore {
    fn stats(&self) -> Stats {
        Self::stats(self)
    }
}

impl Embedded for FileStore {
    fn stats(&self) -> Stats {
        Self::stats(self)
    }
}

/// Opens a backend, the file backend as durable as it is by default.
pub fn embedded(backend: Backend, dir: &Path, clock: Arc<dyn Clock>) -> Result<Arc<dyn Embedded>> {
    Ok(match backend {
        Backend::Mem => Arc::new(MemStore::open(clock)),
        Backend::File => Arc::new(FileStore::open(dir, FileOptions::default(), clock)?),
    })
}

/// Any Mayfly store with the clock it goes by.
pub struct Adapter {
    store: Arc<dyn Embedded>,
    /// None on real time.
    manual: Option<Arc<ManualClock>>,
}

impl Adapter {
    pub fn open(backend: Backend, dir: &Path, time: Time) -> Result<Self> {
        let (clock, manual) = clock(time);
        Ok(Self { store: embedded(backend, dir, clock)?, manual })
    }
}

fn clock(time: Time) -> (Arc<dyn Clock>, Option<Arc<ManualClock>>) {
    match time {
        Time::Real => (Arc::new(SystemClock), None),
        Time::Manual => {
            let manual = Arc::new(ManualClock::default());
            (Arc::<ManualClock>::clone(&manual), Some(manual))
        }
    }
}

/// A key of the workload as Mayfly has it.
pub fn key(key: &Key) -> Result<mayfly_store::Key> {
    Ok(mayfly_store::Key::new(&key[..8], &key[8..])?)
}

#[async_trait]
impl Engine for Adapter {
    async fn insert(&self, record: Record) -> Result<bool> {
        let expiry = Expiry::After(Ttl::from_millis(record.ttl)?);
        Ok(self.store.insert_if_not_exists(&key(&record.key)?, Value::new(record.value)?, expiry).await?)
    }

    async fn swap(&self, k: Key, expected: Bytes, new: Bytes, ttl: u64) -> Result<bool> {
        let (expected, new) = (Value::new(expected)?, Value::new(new)?);
        let expiry = Expiry::After(Ttl::from_millis(ttl)?);
        Ok(self.store.compare_and_swap(&key(&k)?, &expected, new, expiry).await?)
    }

    async fn get_each(&self, keys: &[Key]) -> Result<u64> {
        let mut found = 0;
        for k in keys {
            found += u64::from(std::hint::black_box(self.store.get(&key(k)?).await?).is_some());
        }
        Ok(found)
    }

    async fn range_each(&self, starts: &[Key], limit: usize) -> Result<u64> {
        let mut found = 0;
        for start in starts {
            let mut records = self.store.read(Range::new(&start[..8], &start[8..], [])?).take(limit);
            while let Some(record) = records.next().await {
                std::hint::black_box(record?);
                found += 1;
            }
        }
        Ok(found)
    }

    fn pass(&self, duration: Duration) {
        if let Some(manual) = &self.manual {
            manual.advance(duration);
        }
    }

    fn reclaim(&self) -> Result<()> {
        Ok(())
    }

    /// Its background threads do not tell; the workloads wait until the process is idle.
    fn reclaiming(&self) -> bool {
        false
    }

    async fn close(&self) -> Result<()> {
        Ok(self.store.close().await?)
    }
}
