//! The embedded engines behind one trait, so that a test says once what holds for both, and the short words in
//! which these tests write keys, values and waits.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use mayfly_store::{
    Clock, Expired, ExpiredFeed, Expiry, FileOptions, FileStore, Key, ManualClock, MemStore, Range, Record,
    Stats, Store, Timestamp, Ttl, Value,
};

use crate::sim_disk::SimDisk;

/// A store that reports what expired and what it knows about itself.
pub(crate) trait Engine: Store + ExpiredFeed {
    fn figures(&self) -> Stats;
}

impl Engine for MemStore {
    fn figures(&self) -> Stats {
        self.stats()
    }
}

impl Engine for FileStore {
    fn figures(&self) -> Stats {
        self.stats()
    }
}

/// Where a store's data is while it is closed.
#[derive(Debug)]
pub(crate) enum Home {
    /// Nowhere: a memory store that is closed forgets.
    Memory,
    /// On a disk that misbehaves on demand.
    Sim(SimDisk),
    /// In a real directory.
    Dir(tempfile::TempDir),
}

impl Home {
    pub(crate) fn sim() -> Self {
        Self::Sim(SimDisk::new())
    }

    pub(crate) fn dir() -> Self {
        Self::Dir(tempfile::tempdir().expect("a temporary directory"))
    }

    /// One of each kind that keeps data, and memory.
    pub(crate) fn each() -> [Self; 3] {
        [Self::Memory, Self::sim(), Self::dir()]
    }

    pub(crate) fn is_durable(&self) -> bool {
        !matches!(self, Self::Memory)
    }

    pub(crate) fn open(&self, options: FileOptions, clock: &Arc<ManualClock>) -> Arc<dyn Engine> {
        self.try_open(options, clock).expect("the store opens")
    }

    pub(crate) fn try_open(
        &self,
        options: FileOptions,
        clock: &Arc<ManualClock>,
    ) -> mayfly_store::Result<Arc<dyn Engine>> {
        let clock: Arc<dyn Clock> = clock.clone();
        Ok(match self {
            Self::Memory => Arc::new(MemStore::open(clock)),
            Self::Sim(disk) => Arc::new(FileStore::open_on(Arc::new(disk.clone()), options, clock)?),
            Self::Dir(dir) => Arc::new(FileStore::open(dir.path(), options, clock)?),
        })
    }
}

/// The smallest data files, so that a short test sees rotation, regrouping and reclaim.
pub(crate) fn small() -> FileOptions {
    FileOptions { segment_bytes: 64 * 1024, ..FileOptions::default() }
}

pub(crate) fn key(partition: impl AsRef<[u8]>, sort: impl AsRef<[u8]>) -> Key {
    Key::new(partition, sort).expect("a legal key")
}

pub(crate) fn value(bytes: impl AsRef<[u8]>) -> Value {
    Value::new(bytes.as_ref().to_vec()).expect("a legal value")
}

pub(crate) fn after(millis: u64) -> Expiry {
    Expiry::After(Ttl::from_millis(millis).expect("a legal ttl"))
}

pub(crate) fn at(millis: u64) -> Expiry {
    Expiry::At(Timestamp::from_millis(millis))
}

pub(crate) fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) fn wall(clock: &ManualClock) -> u64 {
    clock.now().wall.as_millis()
}

/// Everything live in a partition.
pub(crate) async fn all(store: &dyn Engine, partition: &[u8]) -> Vec<Record> {
    let stream = store.read(Range::all(partition).expect("a legal partition"));
    stream.map(|record| record.expect("a readable record")).collect().await
}

/// What the feed has for a name without waiting for more; empty if there is nothing.
pub(crate) async fn feed_now(store: &dyn Engine, name: &str, limit: usize) -> Vec<Expired> {
    let wait = tokio::time::timeout(millis(200), store.next_expired(name, limit));
    wait.await.map_or_else(|_| Vec::new(), |batch| batch.expect("the feed works"))
}

/// Waits until background work has made something true.
pub(crate) async fn eventually(what: &str, mut check: impl FnMut() -> bool) {
    for _ in 0..10_000 {
        if check() {
            return;
        }
        tokio::time::sleep(millis(1)).await;
    }
    panic!("after ten seconds still not so: {what}");
}

/// Waits for an operation that must not hang, whatever the disk does.
pub(crate) async fn in_time<T>(what: &str, operation: impl Future<Output = T>) -> T {
    let limit = tokio::time::timeout(Duration::from_secs(20), operation);
    limit.await.unwrap_or_else(|_| panic!("hangs: {what}"))
}

/// Bytes of all files in a directory.
pub(crate) fn dir_bytes(dir: &Path) -> u64 {
    let files = std::fs::read_dir(dir).expect("the directory is there");
    files.filter_map(|file| file.ok()?.metadata().ok()).map(|meta| meta.len()).sum()
}
