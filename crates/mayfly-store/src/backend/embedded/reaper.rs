//! Letting go of what has expired: out of the index, into the feed if somebody listens, in expiry order.

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;

use super::backlog::Backlog;
use super::index::{Index, Slot};
use super::timeline::{Now, Timeline};
use crate::record::Key;
use crate::stats::Lateness;

#[derive(Debug)]
pub(crate) struct Reaper<P> {
    /// Expired records that a write or a read took out of the index before the reaper came by.
    evicted: Mutex<Vec<(Key, Slot<P>)>>,
    /// Expired records that wait for an earlier one whose write is under way.
    held: Mutex<Vec<(Key, Slot<P>)>>,
    lateness: Mutex<Lateness>,
    expired: AtomicU64,
    /// Shifts of the wall clock that the timers know of.
    shifts: AtomicU64,
}

impl<P> Default for Reaper<P> {
    fn default() -> Self {
        Self {
            evicted: Mutex::default(),
            held: Mutex::default(),
            lateness: Mutex::default(),
            expired: AtomicU64::new(0),
            shifts: AtomicU64::new(0),
        }
    }
}

impl<P: Clone> Reaper<P> {
    /// Takes over an expired record that somebody else removed. Call it under the shard's lock, so that no
    /// round of [`reap`](Self::reap) can miss it.
    pub(crate) fn evict(&self, key: Key, slot: Slot<P>) {
        self.evicted.lock().push((key, slot));
    }

    /// One round: everything that expired up to `now` leaves the index, and goes into the backlog in expiry order
    /// if somebody listens. `gone` sees each slot once, and whether it is kept for subscribers. Returns what was
    /// kept although nobody listens any more.
    pub(crate) fn reap(
        &self,
        index: &Index<P>,
        timeline: &Timeline,
        now: Now,
        backlog: &Backlog<P>,
        mut gone: impl FnMut(&Slot<P>, bool),
    ) -> Vec<(Key, Slot<P>)> {
        if self.shifts.swap(timeline.shifts(), Ordering::Relaxed) != timeline.shifts() {
            index.reschedule(now);
        }
        let reported = backlog.has_subscribers();
        let mut items = std::mem::take(&mut *self.held.lock());
        let mut lateness = Lateness::default();
        let mut count = 0;
        let mut let_go = |slot: &Slot<P>| {
            lateness.add(now.line.saturating_sub(timeline.on_line(slot.deadline)));
            count += 1;
            gone(slot, reported);
        };
        let mut until = u64::MAX;
        let take = |key: &[u8], slot: Slot<P>| {
            let_go(&slot);
            if reported {
                let key = Key::from_bytes(Bytes::copy_from_slice(key)).expect("the index holds valid keys");
                items.push((key, slot));
            }
        };
        index.reap(now, || timeline.now(), take, |deadline| until = until.min(timeline.on_line(deadline)));
        let evicted = std::mem::take(&mut *self.evicted.lock());
        evicted.iter().for_each(|(_, slot)| let_go(slot));
        if reported {
            items.extend(evicted);
        }
        self.expired.fetch_add(count, Ordering::Relaxed);
        self.lateness.lock().merge(&lateness);
        items.sort_by_key(|(_, slot)| (timeline.on_line(slot.deadline), slot.seq));
        // A dead record with a write under way may still turn out to have expired: what follows it waits.
        let ready = items.partition_point(|(_, slot)| timeline.on_line(slot.deadline) < until);
        *self.held.lock() = items.split_off(ready);
        backlog.push(items)
    }

    pub(crate) fn expired(&self) -> u64 {
        self.expired.load(Ordering::Relaxed)
    }

    pub(crate) fn lateness(&self) -> Lateness {
        self.lateness.lock().clone()
    }
}
