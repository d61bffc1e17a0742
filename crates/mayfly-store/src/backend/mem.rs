//! The memory engine: the index with the values inside, and a janitor that frees what has expired.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use super::embedded::backlog::Backlog;
use super::embedded::deadline::Deadline;
use super::embedded::index::{Index, Shard, Slot};
use super::embedded::janitor::{Bell, Janitor};
use super::embedded::pages::read_pages;
use super::embedded::reaper::Reaper;
use super::embedded::timeline::{LastRun, Now, Timeline};
use crate::error::{Error, ErrorKind, Result};
use crate::feed::{Expired, ExpiredFeed, FeedCursor, FeedPosition};
use crate::record::{Entry, Key, Put, Range, Record, Value};
use crate::stats::Stats;
use crate::store::{RecordStream, Store, TtlState};
use crate::time::{Clock, Expiry};

/// A store in memory. It forgets everything when it is dropped; apart from that it keeps the whole contract.
pub struct MemStore {
    shared: Arc<Shared>,
    janitor: Janitor,
}

type Held = Box<[u8]>;

#[derive(Debug)]
struct Shared {
    index: Index<Held>,
    timeline: Timeline,
    reaper: Reaper<Held>,
    backlog: Backlog<Held>,
    bell: Arc<Bell>,
    last_seq: AtomicU64,
    closed: AtomicBool,
}

impl MemStore {
    /// An empty store on this clock. It starts a thread that ends when the store is closed or dropped.
    ///
    /// # Panics
    ///
    /// If the system cannot start a thread, or the clock shows a year beyond a million.
    pub fn open(clock: Arc<dyn Clock>) -> Self {
        let timeline = Timeline::start(clock, LastRun::default()).expect("a clock within a million years");
        let bell = Arc::new(Bell::default());
        timeline.ring_when_moved(bell.alarm());
        let shared = Arc::new(Shared {
            index: Index::new(),
            timeline,
            reaper: Reaper::default(),
            backlog: Backlog::new(BTreeMap::new(), Vec::new()),
            bell: bell.clone(),
            last_seq: AtomicU64::new(0),
            closed: AtomicBool::new(false),
        });
        let theirs = shared.clone();
        let janitor =
            Janitor::start("mayfly-mem", bell, move || theirs.tidy()).expect("the system starts threads");
        Self { shared, janitor }
    }

    /// The store's figures now.
    pub fn stats(&self) -> Stats {
        let Shared { index, timeline, reaper, backlog, .. } = &*self.shared;
        let now = timeline.now();
        let mut stats = Stats {
            expired: reaper.expired(),
            lateness: reaper.lateness(),
            feed_backlog: backlog.len() as u64,
            clock_steps: timeline.steps(),
            ..Stats::default()
        };
        index.for_each(|key, slot| {
            if !slot.deadline.is_past(now) {
                let bytes = (key.len() + slot.place.len()) as u64;
                stats.records += 1;
                stats.live_bytes += bytes;
                stats.horizon.add(slot.deadline.left(now), bytes);
            }
        });
        stats
    }
}

impl fmt::Debug for MemStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MemStore")
    }
}

impl Shared {
    /// Frees what has expired; returns how long nothing more is due.
    fn tidy(&self) -> Duration {
        let now = self.timeline.now();
        self.reaper.reap(&self.index, &self.timeline, now, &self.backlog, |_, _| {});
        let next = self.bell.plan(|| self.index.next_alarm());
        Duration::from_millis(next.saturating_sub(self.timeline.now().line).clamp(1, 1000))
    }

    fn open(&self) -> Result<Now> {
        match self.closed.load(Ordering::Acquire) {
            false => Ok(self.timeline.now()),
            true => Err(Error::new(ErrorKind::Closed, "the store is closed")),
        }
    }

    /// Sets a record inside its shard's lock. A dead predecessor is handed to the reaper.
    fn set(&self, shard: &mut Shard<Held>, key: &Key, value: &[u8], deadline: Deadline, now: Now) {
        let seq = self.last_seq.fetch_add(1, Ordering::Relaxed) + 1;
        let old = shard.insert(key.as_bytes(), Slot { deadline, seq, place: value.into() }, now);
        if let Some(old) = old.filter(|old| old.deadline.is_past(now)) {
            self.reaper.evict(key.clone(), old);
        }
        self.bell.ring_for(deadline.on_line(now));
    }

    fn live(&self, key: &Key, now: Now) -> Option<Slot<Held>> {
        self.if_live(key, self.index.get(key.as_bytes())?, now)
    }

    /// The slot, if it lives. A dead absolute one is removed at once: the wall clock may step back, but what
    /// was once seen as expired stays expired.
    fn if_live(&self, key: &Key, slot: Slot<Held>, now: Now) -> Option<Slot<Held>> {
        if !slot.deadline.is_past(now) {
            return Some(slot);
        }
        if slot.deadline.is_absolute() {
            self.index.write(key.as_bytes(), |shard| self.evict(shard, key, now));
        }
        None
    }

    fn evict(&self, shard: &mut Shard<Held>, key: &Key, now: Now) {
        let now = now.at_most(self.timeline.now());
        if shard.get(key.as_bytes()).is_some_and(|slot| slot.deadline.is_past(now))
            && let Some(slot) = shard.remove(key.as_bytes())
        {
            self.reaper.evict(key.clone(), slot);
        }
    }

    fn value(&self, slot: Slot<Held>) -> Value {
        Value::new(Bytes::from(slot.place)).expect("only valid values were put in")
    }

    fn entry(&self, slot: Slot<Held>) -> Entry {
        let expires_at = self.timeline.expires_at(slot.deadline);
        Entry { value: self.value(slot), expires_at }
    }

    fn record(&self, key: Key, slot: Slot<Held>) -> Record {
        let Entry { value, expires_at } = self.entry(slot);
        Record { key, value, expires_at }
    }

    /// The record of a slot that a range read has met, if it lives or has been renewed by now.
    fn resolve(&self, key: Key, slot: Slot<Held>) -> Result<Option<Record>> {
        let now = self.open()?;
        let live = if slot.deadline.is_past(now) { self.live(&key, now) } else { Some(slot) };
        Ok(live.map(|slot| self.record(key, slot)))
    }
}

#[async_trait]
impl Store for MemStore {
    async fn get(&self, key: &Key) -> Result<Option<Entry>> {
        let now = self.shared.open()?;
        Ok(self.shared.live(key, now).map(|slot| self.shared.entry(slot)))
    }

    async fn get_batch(&self, keys: &[Key]) -> Result<Vec<Option<Entry>>> {
        let now = self.shared.open()?;
        let slots = self.shared.index.get_many(keys).into_iter().zip(keys);
        Ok(slots.map(|(slot, key)| Some(self.shared.entry(self.shared.if_live(key, slot?, now)?))).collect())
    }

    async fn put_batch(&self, puts: Vec<Put>) -> Result<()> {
        let now = self.shared.open()?;
        let mut partitions: HashMap<&[u8], Vec<(&Put, Deadline)>> = HashMap::new();
        for put in &puts {
            let deadline = self.shared.timeline.deadline(put.expiry, now)?;
            partitions.entry(put.key.partition()).or_default().push((put, deadline));
        }
        for puts in partitions.values() {
            self.shared.index.write(puts[0].0.key.as_bytes(), |shard| {
                for (put, deadline) in puts {
                    self.shared.set(shard, &put.key, &put.value, *deadline, now);
                }
            });
        }
        Ok(())
    }

    async fn insert_if_not_exists(&self, key: &Key, value: Value, expiry: Expiry) -> Result<bool> {
        self.shared.open()?;
        self.shared.index.write(key.as_bytes(), |shard| {
            let now = self.shared.timeline.now();
            let deadline = self.shared.timeline.deadline(expiry, now)?;
            let absent = shard.get(key.as_bytes()).is_none_or(|slot| slot.deadline.is_past(now));
            if absent {
                self.shared.set(shard, key, &value, deadline, now);
            }
            Ok(absent)
        })
    }

    async fn compare_and_swap(
        &self,
        key: &Key,
        expected: &Value,
        new: Value,
        expiry: Expiry,
    ) -> Result<bool> {
        self.shared.open()?;
        self.shared.index.write(key.as_bytes(), |shard| {
            let now = self.shared.timeline.now();
            let deadline = self.shared.timeline.deadline(expiry, now)?;
            let equal = is_live_and_equal(shard, key, expected, now);
            if equal {
                self.shared.set(shard, key, &new, deadline, now);
            }
            Ok(equal)
        })
    }

    async fn compare_and_delete(&self, key: &Key, expected: &Value) -> Result<bool> {
        self.shared.open()?;
        self.shared.index.write(key.as_bytes(), |shard| {
            let equal = is_live_and_equal(shard, key, expected, self.shared.timeline.now());
            if equal {
                shard.remove(key.as_bytes());
            }
            Ok(equal)
        })
    }

    fn read(&self, range: Range) -> RecordStream {
        let next_page = move |shared: &Shared, after: Option<&Key>, limit| {
            shared.open().map(|_| shared.index.page(&range, after, limit))
        };
        let resolve = |shared: Arc<Shared>, key, slot| std::future::ready(shared.resolve(key, slot));
        read_pages(self.shared.clone(), next_page, resolve)
    }

    async fn query_ttl(&self, key: &Key) -> Result<TtlState> {
        let now = self.shared.open()?;
        let slot = self.shared.live(key, now);
        Ok(slot.map_or(TtlState::Absent, |slot| TtlState::of_live(slot.deadline.remaining(now))))
    }

    async fn close(&self) -> Result<()> {
        self.shared.closed.store(true, Ordering::Release);
        self.shared.backlog.wake();
        self.janitor.stop();
        Ok(())
    }
}

fn is_live_and_equal(shard: &Shard<Held>, key: &Key, expected: &Value, now: Now) -> bool {
    shard.get(key.as_bytes()).is_some_and(|slot| !slot.deadline.is_past(now) && *slot.place == **expected)
}

#[async_trait]
impl ExpiredFeed for MemStore {
    async fn subscribe(&self, name: &str) -> Result<()> {
        let now = self.shared.open()?;
        self.shared.backlog.subscribe(name, FeedCursor::at(now))?;
        Ok(())
    }

    async fn unsubscribe(&self, name: &str) -> Result<bool> {
        self.shared.open()?;
        Ok(self.shared.backlog.unsubscribe(name).0)
    }

    async fn next_expired(&self, name: &str, limit: usize) -> Result<Vec<Expired>> {
        let closed = || self.shared.open().map(drop);
        let items = self.shared.backlog.next(name, limit, closed).await?;
        let expired = items.into_iter();
        Ok(expired
            .map(|(key, slot, position)| Expired { record: self.shared.record(key, slot), position })
            .collect())
    }

    async fn acknowledge(&self, name: &str, position: FeedPosition) -> Result<()> {
        self.shared.open()?;
        self.shared.backlog.acknowledge(name, position).map(drop)
    }
}
