//! Group commit for libraries that have none: one thread commits everything that is queued in one durable
//! transaction, and cleans expired records in the same transactions, a bounded number in each.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, anyhow};
use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::oneshot;

use super::{Engine, Time};
use crate::record::{Key, Record};

/// Expired records removed in one transaction. More makes writers wait longer, fewer costs more commits.
const CLEAN: usize = 2000;

/// The peers' injected time in Unix milliseconds.
#[derive(Debug, Clone)]
pub struct Now(Arc<AtomicU64>);

impl Now {
    pub fn new(time: Time) -> Self {
        let millis = match time {
            Time::Real => {
                SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
            }
            Time::Manual => 1_790_000_000_000,
        };
        Self(Arc::new(AtomicU64::new(millis)))
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// One write of a batch. It applies if the live value is `expected` (none = no live record).
#[derive(Debug)]
pub struct Write {
    pub key: Key,
    pub expected: Option<Bytes>,
    pub value: Bytes,
    pub expires_at: u64,
}

impl Write {
    /// Whether it applies over what is stored: 8 bytes of deadline and the value.
    pub fn applies(&self, stored: Option<&[u8]>, now: u64) -> bool {
        stored.and_then(|stored| live(stored, now)) == self.expected.as_deref()
    }

    /// What is to be stored: 8 bytes of deadline and the value.
    pub fn stored(&self) -> Vec<u8> {
        let mut stored = Vec::with_capacity(8 + self.value.len());
        stored.extend_from_slice(&self.expires_at.to_be_bytes());
        stored.extend_from_slice(&self.value);
        stored
    }
}

/// The value of a stored record if it has not expired.
pub fn live(stored: &[u8], now: u64) -> Option<&[u8]> {
    let (deadline, value) = stored.split_first_chunk()?;
    (u64::from_be_bytes(*deadline) > now).then_some(value)
}

/// The key of the expiry index: deadline first.
pub fn index_key(expires_at: u64, key: &Key) -> [u8; 24] {
    let mut index = [0; 24];
    index[..8].copy_from_slice(&expires_at.to_be_bytes());
    index[8..].copy_from_slice(key);
    index
}

/// The other direction of [`index_key`].
pub fn split_index_key(index: &[u8]) -> Option<(u64, Key)> {
    let (deadline, key) = index.split_first_chunk()?;
    Some((u64::from_be_bytes(*deadline), key.try_into().ok()?))
}

/// The last key of the partition that `key` lies in.
pub fn partition_end(key: &Key) -> Key {
    let mut end = *key;
    end[8..].fill(0xff);
    end
}

/// A library with durable transactions, used by one writing thread and any number of readers. Dropping it
/// closes it in order.
pub trait Library: Send + Sync + 'static {
    /// Applies the writes and removes up to `clean` expired records, in one durable transaction. Says which
    /// writes applied and how many records it removed.
    fn commit(&self, writes: &[Write], clean: usize, now: u64) -> Result<(Vec<bool>, usize)>;
    fn get(&self, key: &Key, now: u64) -> Result<Option<Bytes>>;
    /// Visits up to `limit` live records from `start` to the end of its partition.
    fn range(&self, start: &Key, limit: usize, now: u64) -> Result<Vec<(Key, Bytes)>>;
    /// Rewrites files where that frees space.
    fn compact(&self) -> Result<()>;
}

/// An engine made of a library and its committing thread.
pub struct Grouped<L> {
    shared: Arc<Shared<L>>,
    committer: Mutex<Option<JoinHandle<Result<()>>>>,
}

struct Shared<L> {
    library: L,
    now: Now,
    queue: Mutex<Queue>,
    filled: Condvar,
    expired: AtomicBool,
}

#[derive(Default)]
struct Queue {
    writes: Vec<Write>,
    answers: Vec<oneshot::Sender<bool>>,
    closed: bool,
}

impl<L: Library> Grouped<L> {
    pub fn start(library: L, now: Now) -> Self {
        let (queue, filled) = (Mutex::default(), Condvar::new());
        let shared = Arc::new(Shared { library, now, queue, filled, expired: AtomicBool::new(false) });
        let committer = thread::spawn({
            let shared = Arc::clone(&shared);
            move || shared.commit_all()
        });
        Self { shared, committer: Mutex::new(Some(committer)) }
    }

    async fn write(&self, key: Key, expected: Option<Bytes>, value: Bytes, ttl: u64) -> Result<bool> {
        let (answer, answered) = oneshot::channel();
        let write = Write { key, expected, value, expires_at: self.shared.now.get() + ttl };
        {
            let mut queue = self.shared.queue();
            queue.writes.push(write);
            queue.answers.push(answer);
        }
        self.shared.filled.notify_one();
        answered.await.context("the committer has died")
    }
}

impl<L: Library> Shared<L> {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().expect("nothing panics while it holds the queue")
    }

    fn commit_all(&self) -> Result<()> {
        loop {
            let mut queue = self.queue();
            while queue.writes.is_empty() && !self.reclaiming() {
                if queue.closed {
                    return Ok(());
                }
                queue = self.filled.wait(queue).expect("nothing panics while it holds the queue");
            }
            let (writes, answers) = (std::mem::take(&mut queue.writes), std::mem::take(&mut queue.answers));
            drop(queue);
            let clean = if self.reclaiming() { CLEAN } else { 0 };
            let (applied, cleaned) = self.library.commit(&writes, clean, self.now.get())?;
            for (answer, applied) in answers.into_iter().zip(applied) {
                // A client that no longer waits is none of the committer's business.
                let _ = answer.send(applied);
            }
            if cleaned < clean {
                self.expired.store(false, Ordering::Release);
            }
        }
    }

    fn reclaiming(&self) -> bool {
        self.expired.load(Ordering::Acquire)
    }
}

#[async_trait]
impl<L: Library> Engine for Grouped<L> {
    async fn insert(&self, record: Record) -> Result<bool> {
        self.write(record.key, None, record.value, record.ttl).await
    }

    async fn swap(&self, key: Key, expected: Bytes, new: Bytes, ttl: u64) -> Result<bool> {
        self.write(key, Some(expected), new, ttl).await
    }

    async fn get_each(&self, keys: &[Key]) -> Result<u64> {
        let mut found = 0;
        for key in keys {
            found += u64::from(
                std::hint::black_box(self.shared.library.get(key, self.shared.now.get())?).is_some(),
            );
        }
        Ok(found)
    }

    async fn range_each(&self, starts: &[Key], limit: usize) -> Result<u64> {
        let mut found = 0;
        for start in starts {
            let records = self.shared.library.range(start, limit, self.shared.now.get())?;
            found += std::hint::black_box(records).len() as u64;
        }
        Ok(found)
    }

    fn pass(&self, duration: Duration) {
        self.shared.now.0.fetch_add(duration.as_millis() as u64, Ordering::Relaxed);
        self.shared.expired.store(true, Ordering::Release);
        drop(self.shared.queue());
        self.shared.filled.notify_one();
    }

    fn reclaim(&self) -> Result<()> {
        self.shared.library.compact()
    }

    fn reclaiming(&self) -> bool {
        self.shared.reclaiming()
    }

    async fn close(&self) -> Result<()> {
        self.shared.queue().closed = true;
        self.shared.filled.notify_one();
        let committer = self.committer.lock().expect("nothing panics while it holds the committer").take();
        let committer = committer.context("closed twice")?;
        committer.join().map_err(|_| anyhow!("the committer panicked"))?
    }
}
