//! The index: every record by key, ordered inside a partition, sharded by partition.
//!
//! Shards are locked one at a time and never across an await. `P` is the value, or says where it is. Keys are the
//! buffers of [`Key::as_bytes`].

mod leaf;
mod separator;
mod shard;
#[cfg(test)]
mod tests;

use std::hash::BuildHasher;
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};

use foldhash::fast::FixedState;
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

pub(crate) use leaf::Slot;
pub(crate) use shard::Shard;

use super::deadline::Deadline;
use super::timeline::Now;
use crate::record::{Key, Range};

const SHARDS: usize = 64;

/// How many leaves are looked at before a shard's lock is let go.
const REAP_LEAVES: usize = 128;

/// How many slots are visited before a shard's lock is let go.
const VISIT_SLOTS: usize = 4096;

#[derive(Debug)]
pub(crate) struct Index<P> {
    shards: Vec<RwLock<Shard<P>>>,
    /// When each shard's next leaf is due, on the line; read without its lock.
    alarms: Vec<AtomicU64>,
    /// Fixed, so that what is saved in shard order is loaded in shard order and fills leaves one by one.
    hasher: FixedState,
}

impl<P: Clone> Index<P> {
    pub(crate) fn new() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| RwLock::new(Shard::new())).collect(),
            alarms: (0..SHARDS).map(|_| AtomicU64::new(u64::MAX)).collect(),
            hasher: FixedState::default(),
        }
    }

    fn read(&self, key: &[u8]) -> RwLockReadGuard<'_, Shard<P>> {
        self.shards[self.shard_of(key)].read()
    }

    /// Locks the shard of a key for a change, and notes afterwards when it is due.
    pub(crate) fn write<T>(&self, key: &[u8], change: impl FnOnce(&mut Shard<P>) -> T) -> T {
        self.write_shard(self.shard_of(key), change)
    }

    fn write_shard<T>(&self, at: usize, change: impl FnOnce(&mut Shard<P>) -> T) -> T {
        let mut shard: RwLockWriteGuard<'_, _> = self.shards[at].write();
        let result = change(&mut shard);
        self.alarms[at].store(shard.next_alarm().unwrap_or(u64::MAX), Ordering::Release);
        result
    }

    /// The slot of a key, dead or alive.
    pub(crate) fn get(&self, key: &[u8]) -> Option<Slot<P>> {
        self.read(key).get(key).cloned()
    }

    /// The same for many keys. Neighbours of one partition are looked up under one lock, so that a batch
    /// written to it is seen whole or not at all.
    pub(crate) fn get_many(&self, keys: &[Key]) -> Vec<Option<Slot<P>>> {
        let same_partition = keys.chunk_by(|a, b| a.partition() == b.partition());
        let slots = same_partition.flat_map(|keys| {
            let shard = self.read(keys[0].as_bytes());
            keys.iter().map(|key| shard.get(key.as_bytes()).cloned()).collect::<Vec<_>>()
        });
        slots.collect()
    }

    /// Up to `limit` slots of a range, after `after` if given, dead ones included.
    pub(crate) fn page(&self, range: &Range, after: Option<&Key>, limit: usize) -> Vec<(Key, Slot<P>)> {
        let prefix = prefix_of(range.partition());
        let start = [&prefix, range.start()].concat();
        let finish = [&prefix, range.finish()].concat();
        let from = after.map_or(Bound::Included(&start[..]), |after| Bound::Excluded(after.as_bytes()));
        let mut page = Vec::new();
        self.read(&prefix).walk(from, |key, slot| {
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

    /// Drops all that has expired by `now`, in small steps that let others in between. Dead records that a write
    /// under way keeps from leaving are named to `blocked`. `again` reads the clocks once more under each lock:
    /// what was written after the wall clock was set back is not judged by a reading from before.
    pub(crate) fn reap(
        &self,
        now: Now,
        again: impl Fn() -> Now,
        mut take: impl FnMut(&[u8], Slot<P>),
        mut blocked: impl FnMut(Deadline),
    ) {
        for at in 0..SHARDS {
            if self.alarms[at].load(Ordering::Acquire) > now.line {
                continue;
            }
            let mut reap = |after| {
                self.write_shard(at, |shard| {
                    shard.reap(now.at_most(again()), after, REAP_LEAVES, &mut take, &mut blocked)
                })
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

    /// Visits every slot, shard by shard and in key order, in small steps that let others in between.
    pub(crate) fn for_each(&self, mut visit: impl FnMut(&[u8], &Slot<P>)) {
        for shard in &self.shards {
            let mut last: Option<Vec<u8>> = None;
            loop {
                let from = last.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
                let (mut seen, mut next) = (0, None);
                shard.read().walk(from, |key, slot| {
                    visit(key, slot);
                    seen += 1;
                    if seen == VISIT_SLOTS {
                        next = Some(key.to_vec());
                    }
                    seen < VISIT_SLOTS
                });
                last = next;
                if last.is_none() {
                    break;
                }
            }
        }
    }

    /// Removes every slot that `keep` refuses.
    pub(crate) fn retain(&self, mut keep: impl FnMut(&[u8], &Slot<P>) -> bool) {
        for at in 0..SHARDS {
            self.write_shard(at, |shard| shard.retain(&mut keep));
        }
    }

    fn shard_of(&self, key: &[u8]) -> usize {
        let partition = &key[..2 + u16::from_be_bytes([key[0], key[1]]) as usize];
        (self.hasher.hash_one(partition) >> 32) as usize % SHARDS
    }
}

fn prefix_of(partition: &[u8]) -> Vec<u8> {
    [&(partition.len() as u16).to_be_bytes()[..], partition].concat()
}
