//! The index: every record by key, ordered inside a partition, sharded by partition.
//!
//! Shards are locked one at a time and never across an await. Values live elsewhere; `P` says where.

mod leaf;
mod separator;
mod shard;

use std::hash::BuildHasher;
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};

use foldhash::fast::RandomState;
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

pub(crate) use leaf::Slot;
pub(crate) use shard::Shard;

use super::deadline::Deadline;
use super::timeline::Now;
use crate::record::{Key, Range};

const SHARDS: usize = 64;

/// How many leaves are looked at before a shard's lock is let go.
const REAP_LEAVES: usize = 128;

#[derive(Debug)]
pub(crate) struct Index<P> {
    shards: Vec<RwLock<Shard<P>>>,
    /// When each shard's next leaf is due, on the line; read without its lock.
    alarms: Vec<AtomicU64>,
    hasher: RandomState,
}

impl<P: Clone> Index<P> {
    pub(crate) fn new() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| RwLock::new(Shard::new())).collect(),
            alarms: (0..SHARDS).map(|_| AtomicU64::new(u64::MAX)).collect(),
            hasher: RandomState::default(),
        }
    }

    pub(crate) fn read(&self, key: &Key) -> RwLockReadGuard<'_, Shard<P>> {
        self.shards[self.shard_of(key.partition())].read()
    }

    /// Locks the shard of a key for a change, and notes afterwards when it is due.
    pub(crate) fn write<T>(&self, key: &Key, change: impl FnOnce(&mut Shard<P>) -> T) -> T {
        self.write_shard(self.shard_of(key.partition()), change)
    }

    fn write_shard<T>(&self, at: usize, change: impl FnOnce(&mut Shard<P>) -> T) -> T {
        let mut shard: RwLockWriteGuard<'_, _> = self.shards[at].write();
        let result = change(&mut shard);
        self.alarms[at].store(shard.next_alarm().unwrap_or(u64::MAX), Ordering::Release);
        result
    }

    /// The slot of a key, dead or alive.
    pub(crate) fn get(&self, key: &Key) -> Option<Slot<P>> {
        self.read(key).get(key.as_bytes()).cloned()
    }

    /// Up to `limit` slots of a range, after `after` if given, dead ones included.
    pub(crate) fn page(&self, range: &Range, after: Option<&Key>, limit: usize) -> Vec<(Key, Slot<P>)> {
        let prefix = prefix_of(range.partition());
        let start = [&prefix, range.start()].concat();
        let finish = [&prefix, range.finish()].concat();
        let from = after.map_or(Bound::Included(&start[..]), |after| Bound::Excluded(after.as_bytes()));
        let mut page = Vec::new();
        self.shards[self.shard_of(range.partition())].read().walk(from, |key, slot| {
            let inside = key.starts_with(&prefix) && (range.finish().is_empty() || key < &finish[..]);
            if inside && page.len() < limit {
                let key = Key::from_bytes(bytes::Bytes::copy_from_slice(key));
                page.push((key.expect("the index holds valid keys"), slot.clone()));
            }
            inside && page.len() < limit
        });
        page
    }

    /// The earliest time on the line at which something may expire; `u64::MAX` = nothing will.
    pub(crate) fn next_alarm(&self) -> u64 {
        self.alarms.iter().map(|alarm| alarm.load(Ordering::Acquire)).min().unwrap_or(u64::MAX)
    }

    /// Drops all that has expired, in small steps that let others in between. Dead records that a write under
    /// way keeps from leaving are named to `blocked`.
    pub(crate) fn reap(
        &self,
        now: Now,
        mut take: impl FnMut(&[u8], Slot<P>),
        mut blocked: impl FnMut(Deadline),
    ) {
        for at in 0..SHARDS {
            if self.alarms[at].load(Ordering::Acquire) > now.line {
                continue;
            }
            let mut reap = |after| {
                self.write_shard(at, |shard| shard.reap(now, after, REAP_LEAVES, &mut take, &mut blocked))
            };
            let mut after = reap(None);
            while after.is_some() {
                std::thread::yield_now();
                after = reap(after);
            }
        }
    }

    /// Sets all timers anew, after the wall clock has stepped.
    pub(crate) fn reschedule(&self, now: Now) {
        for at in 0..SHARDS {
            self.write_shard(at, |shard| shard.reschedule(now));
        }
    }

    /// Visits every slot, a shard at a time.
    pub(crate) fn for_each(&self, mut visit: impl FnMut(&[u8], &Slot<P>)) {
        for shard in &self.shards {
            shard.read().walk(Bound::Unbounded, |key, slot| {
                visit(key, slot);
                true
            });
        }
    }

    fn shard_of(&self, partition: &[u8]) -> usize {
        (self.hasher.hash_one(partition) >> 32) as usize % SHARDS
    }
}

fn prefix_of(partition: &[u8]) -> Vec<u8> {
    [&(partition.len() as u16).to_be_bytes()[..], partition].concat()
}
