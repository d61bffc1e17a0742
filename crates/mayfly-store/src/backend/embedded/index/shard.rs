//! A shard: leaves in key order, and timers over leaves.
//!
//! A timer stands for a whole leaf, at or before its earliest deadline. When it rings, one walk over the leaf
//! drops all that is dead: records that expire together leave together, and a record needs no timer memory.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use super::super::deadline::Deadline;
use super::super::timeline::Now;
use super::leaf::{Leaf, MAX_SLOTS, Slot};
use super::separator::Separator;

/// A leaf with fewer slots than this looks for a neighbour to join.
const SPARSE: usize = MAX_SLOTS / 4;

/// When a leaf is due, on the line, and which.
pub(crate) type Timer = (u64, u32);

#[derive(Debug)]
pub(crate) struct Shard<P> {
    /// Lower bound → leaf. The bound of the first leaf is empty, so every key has a leaf.
    tops: BTreeMap<Separator, u32>,
    leaves: Vec<Leaf<P>>,
    free: Vec<u32>,
    timers: BTreeSet<Timer>,
}

impl<P> Shard<P> {
    pub(super) fn new() -> Self {
        Self {
            tops: BTreeMap::from([(Separator::new(b""), 0)]),
            leaves: vec![Leaf::new()],
            free: Vec::new(),
            timers: BTreeSet::new(),
        }
    }

    /// When the next leaf wants to be looked at, on the line.
    pub(super) fn next_alarm(&self) -> Option<u64> {
        self.timers.first().map(|timer| timer.0)
    }

    pub(crate) fn get(&self, key: &[u8]) -> Option<&Slot<P>> {
        let leaf = &self.leaves[self.leaf_of(key) as usize];
        leaf.find(key).map(|at| leaf.slot(at))
    }

    /// For changes that do not make the deadline earlier than the leaf's alarm.
    pub(crate) fn get_mut(&mut self, key: &[u8]) -> Option<&mut Slot<P>> {
        let leaf = self.leaf_of(key) as usize;
        let leaf = &mut self.leaves[leaf];
        leaf.find(key).map(|at| leaf.slot_mut(at))
    }

    /// Sets the slot of a key and returns the one it had.
    pub(crate) fn insert(&mut self, key: &[u8], slot: Slot<P>, now: Now) -> Option<Slot<P>> {
        let id = self.leaf_of(key);
        let alarm = slot.deadline.on_line(now);
        let leaf = &mut self.leaves[id as usize];
        let old = match leaf.find(key) {
            Some(at) => Some(std::mem::replace(leaf.slot_mut(at), slot)),
            None => {
                leaf.insert(key, slot);
                None
            }
        };
        if alarm < leaf.alarm {
            self.schedule(id, alarm);
        }
        if self.leaves[id as usize].len() > MAX_SLOTS {
            self.split(id, key, now);
        }
        old
    }

    pub(crate) fn remove(&mut self, key: &[u8]) -> Option<Slot<P>> {
        let id = self.leaf_of(key);
        let leaf = &mut self.leaves[id as usize];
        let at = leaf.find(key)?;
        let slot = leaf.remove(at);
        if self.leaves[id as usize].len() < SPARSE {
            self.join(id, key);
        }
        Some(slot)
    }

    /// Walks keys in order from `from`, until `visit` says stop.
    pub(crate) fn walk(&self, from: Bound<&[u8]>, mut visit: impl FnMut(&[u8], &Slot<P>) -> bool) {
        let start: &[u8] = match from {
            Bound::Included(key) | Bound::Excluded(key) => key,
            Bound::Unbounded => b"",
        };
        for (_, &id) in self.tops.range::<[u8], _>((Bound::Included(self.top_of(start)), Bound::Unbounded)) {
            let leaf = &self.leaves[id as usize];
            let first = leaf.rank(start);
            let skip = matches!(from, Bound::Excluded(_)) && first < leaf.len() && leaf.key(first) == start;

            for at in first + usize::from(skip)..leaf.len() {
                if !visit(leaf.key(at), leaf.slot(at)) {
                    return;
                }
            }
        }
    }

    /// Drops what has expired from up to `leaves` leaves whose time has come, beginning after the timer `after`,
    /// and hands it over. Dead records with a write under way stay and are named to `blocked`. Returns the
    /// timer to go on after, if there may be more.
    pub(crate) fn reap(
        &mut self,
        now: Now,
        after: Option<Timer>,
        leaves: usize,
        mut take: impl FnMut(&[u8], Slot<P>),
        mut blocked: impl FnMut(Deadline),
    ) -> Option<Timer> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let due = self.timers.range((from, Bound::Included((now.line, u32::MAX))));
        let due: Vec<Timer> = due.take(leaves).copied().collect();
        let mut sparse: Vec<Vec<u8>> = Vec::new();
        for &(_, id) in &due {
            let leaf = &mut self.leaves[id as usize];
            let first = (leaf.len() > 0).then(|| leaf.key(0).to_vec());
            let dead = |slot: &Slot<P>| {
                let (past, pending) = (slot.deadline.is_past(now), slot.deadline.is_pending());
                if past && pending {
                    blocked(slot.deadline);
                }
                past && !pending
            };
            leaf.drain_where(dead, &mut take);
            if leaf.len() < SPARSE {
                sparse.extend(first);
            }
            let alarm = earliest(leaf, now);
            self.schedule(id, alarm);
        }
        for key in sparse {
            let id = self.leaf_of(&key);
            if self.leaves[id as usize].len() < SPARSE {
                self.join(id, &key);
            }
        }
        due.last().copied().filter(|_| due.len() == leaves)
    }

    /// Removes every slot that `keep` refuses, and leaves without slots with them.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(&[u8], &Slot<P>) -> bool) {
        let mut unwanted: Vec<Vec<u8>> = Vec::new();
        self.walk(Bound::Unbounded, |key, slot| {
            if !keep(key, slot) {
                unwanted.push(key.to_vec());
            }
            true
        });
        for key in unwanted {
            self.remove(&key);
        }
    }

    /// Sets every alarm anew: after a step of the wall clock the absolute deadlines lie elsewhere on the line.
    pub(crate) fn reschedule(&mut self, now: Now) {
        for id in self.tops.values().copied().collect::<Vec<_>>() {
            let alarm = earliest(&self.leaves[id as usize], now);
            self.schedule(id, alarm);
        }
    }

    #[cfg(test)]
    pub(super) fn leaves_in_use(&self) -> usize {
        self.tops.len()
    }

    fn top_of(&self, key: &[u8]) -> &[u8] {
        let top = self.tops.range::<[u8], _>((Bound::Unbounded, Bound::Included(key))).next_back();
        std::borrow::Borrow::borrow(top.expect("the first leaf has an empty lower bound").0)
    }

    fn leaf_of(&self, key: &[u8]) -> u32 {
        let top = self.tops.range::<[u8], _>((Bound::Unbounded, Bound::Included(key))).next_back();
        *top.expect("the first leaf has an empty lower bound").1
    }

    fn schedule(&mut self, id: u32, alarm: u64) {
        let leaf = &mut self.leaves[id as usize];
        if leaf.alarm == alarm {
            return;
        }
        if leaf.alarm != u64::MAX {
            self.timers.remove(&(leaf.alarm, id));
        }
        if alarm != u64::MAX {
            self.timers.insert((alarm, id));
        }
        leaf.alarm = alarm;
    }

    /// Splits a full leaf: in the middle, or just before the end when keys arrive in ascending order, so that
    /// leaves left behind are full.
    fn split(&mut self, id: u32, inserted: &[u8], now: Now) {
        let leaf = &mut self.leaves[id as usize];
        let ascending = leaf.key(leaf.len() - 1) == inserted;
        let at = if ascending { leaf.len() - 1 } else { leaf.len() / 2 };
        let upper = leaf.split_off(at);
        let bound = Separator::new(upper.key(0));
        let alarm = earliest(&upper, now);
        let upper_id = match self.free.pop() {
            Some(free) => {
                self.leaves[free as usize] = upper;
                free
            }
            None => {
                self.leaves.push(upper);
                (self.leaves.len() - 1) as u32
            }
        };
        self.tops.insert(bound, upper_id);
        self.schedule(upper_id, alarm);
    }

    /// Joins a sparse leaf with a neighbour if both fit in three quarters of one, or drops it if it is empty.
    fn join(&mut self, id: u32, key: &[u8]) {
        let mut from_here = self.tops.range::<[u8], _>((Bound::Included(self.top_of(key)), Bound::Unbounded));
        let here = from_here.next().map(|(top, _)| top.clone()).expect("the leaf of a key has a bound");
        let next = from_here.next().map(|(top, &id)| (top.clone(), id));
        let before = self.tops.range::<Separator, _>((Bound::Unbounded, Bound::Excluded(&here))).next_back();
        let before = before.map(|(_, &id)| id);
        let fits = |a: u32, b: u32| {
            self.leaves[a as usize].len() + self.leaves[b as usize].len() <= MAX_SLOTS * 3 / 4
        };
        match (before, next) {
            (Some(before), _) if fits(before, id) => self.absorb(before, id, &here),
            (_, Some((top, next))) if fits(id, next) => self.absorb(id, next, &top),
            _ => {}
        }
    }

    fn absorb(&mut self, lower: u32, upper: u32, upper_top: &Separator) {
        let alarm = self.leaves[upper as usize].alarm.min(self.leaves[lower as usize].alarm);
        self.schedule(upper, u64::MAX);
        let leaf = std::mem::replace(&mut self.leaves[upper as usize], Leaf::new());
        self.leaves[lower as usize].append(leaf);
        self.schedule(lower, alarm);
        self.tops.remove(upper_top);
        self.free.push(upper);
    }
}

fn earliest<P>(leaf: &Leaf<P>, now: Now) -> u64 {
    (0..leaf.len()).map(|at| leaf.slot(at).deadline.on_line(now)).min().unwrap_or(u64::MAX)
}
