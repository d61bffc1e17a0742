//! A leaf: a few dozen neighbouring keys in sorted arrays, their bytes one after the other beside them.
//!
//! This is what keeps a record under 64 bytes beyond its key: no allocation, no pointer and no timer of its own.
//! A look-up reads the heads, one line of the keys and one slot; only a new key is placed by binary search.

use super::super::deadline::Deadline;

/// A leaf is split when it would grow beyond this.
pub(super) const MAX_SLOTS: usize = 64;

/// One record, as the index knows it. `P` is its value, or where that is.
#[derive(Debug, Clone)]
pub(crate) struct Slot<P> {
    pub(crate) deadline: Deadline,
    /// Which write made it; larger = later.
    pub(crate) seq: u64,
    pub(crate) place: P,
}

#[derive(Debug)]
pub(super) struct Leaf<P> {
    /// Per key, where it begins in `keys`, and eight bits of its hash on top.
    heads: Vec<u32>,
    keys: Vec<u8>,
    slots: Vec<Slot<P>>,
    /// The time on the line for which this leaf stands in the shard's timers; `u64::MAX` = not at all.
    /// Never later than the earliest deadline inside.
    pub(super) alarm: u64,
}

const TAG_SHIFT: u32 = 24;

impl<P> Leaf<P> {
    pub(super) fn new() -> Self {
        Self { heads: Vec::new(), keys: Vec::new(), slots: Vec::new(), alarm: u64::MAX }
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Where a key is, if it is here.
    pub(super) fn find(&self, key: &[u8]) -> Option<usize> {
        let tag = tag_of(key);
        self.heads.iter().enumerate().find_map(|(at, &head)| {
            let same = head >> TAG_SHIFT == tag && self.key(at) == key;
            same.then_some(at)
        })
    }

    /// How many keys lie before this one.
    pub(super) fn rank(&self, key: &[u8]) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = (low + high) / 2;
            if self.key(middle) < key { low = middle + 1 } else { high = middle }
        }
        low
    }

    pub(super) fn key(&self, at: usize) -> &[u8] {
        &self.keys[self.start(at)..self.start(at + 1)]
    }

    pub(super) fn slot(&self, at: usize) -> &Slot<P> {
        &self.slots[at]
    }

    pub(super) fn slot_mut(&mut self, at: usize) -> &mut Slot<P> {
        &mut self.slots[at]
    }

    /// Puts a new key where it belongs.
    pub(super) fn insert(&mut self, key: &[u8], slot: Slot<P>) {
        let at = self.rank(key);
        if self.slots.len() == self.slots.capacity() {
            self.slots.reserve_exact(8);
            self.heads.reserve_exact(8);
        }
        if self.keys.capacity() < self.keys.len() + key.len() {
            self.keys.reserve_exact(key.len().max(self.keys.len() / 8).max(64));
        }
        let start = self.start(at);
        self.keys.splice(start..start, key.iter().copied());
        self.heads.insert(at, start as u32 | tag_of(key) << TAG_SHIFT);
        self.heads[at + 1..].iter_mut().for_each(|head| *head += key.len() as u32);
        self.slots.insert(at, slot);
    }

    pub(super) fn remove(&mut self, at: usize) -> Slot<P> {
        let (start, end) = (self.start(at), self.start(at + 1));
        self.keys.drain(start..end);
        self.heads.remove(at);
        self.heads[at..].iter_mut().for_each(|head| *head -= (end - start) as u32);
        let slot = self.slots.remove(at);
        self.give_back();
        slot
    }

    /// Removes every slot that `dead` says, handing it over with its key.
    pub(super) fn drain_where(
        &mut self,
        mut dead: impl FnMut(&Slot<P>) -> bool,
        mut take: impl FnMut(&[u8], Slot<P>),
    ) {
        let Some(first) = self.slots.iter().position(&mut dead) else { return };
        let rest = self.split_off(first);
        let mut slots = rest.slots.into_iter();
        for (at, &head) in rest.heads.iter().enumerate() {
            let end = rest.heads.get(at + 1).map_or(rest.keys.len(), |&next| start_of(next));
            let key = &rest.keys[start_of(head)..end];
            let slot = slots.next().expect("as many slots as heads");
            if at == 0 || dead(&slot) {
                take(key, slot);
            } else {
                self.push(key, head >> TAG_SHIFT, slot);
            }
        }
        self.give_back();
    }

    /// Moves the upper part, from `at` on, into a new leaf.
    pub(super) fn split_off(&mut self, at: usize) -> Self {
        let start = self.start(at);
        let mut upper = Self {
            keys: self.keys.split_off(start),
            heads: self.heads.split_off(at),
            slots: self.slots.split_off(at),
            alarm: u64::MAX,
        };
        upper.heads.iter_mut().for_each(|head| *head -= start as u32);
        self.give_back();
        upper
    }

    /// Takes over all keys of the leaf that follows.
    pub(super) fn append(&mut self, next: Self) {
        let base = self.keys.len() as u32;
        self.keys.reserve_exact(next.keys.len());
        self.heads.reserve_exact(next.heads.len());
        self.slots.reserve_exact(next.slots.len());
        self.keys.extend_from_slice(&next.keys);
        self.heads.extend(next.heads.iter().map(|head| head + base));
        self.slots.extend(next.slots);
    }

    fn push(&mut self, key: &[u8], tag: u32, slot: Slot<P>) {
        self.heads.push(self.keys.len() as u32 | tag << TAG_SHIFT);
        self.keys.extend_from_slice(key);
        self.slots.push(slot);
    }

    fn start(&self, at: usize) -> usize {
        self.heads.get(at).map_or(self.keys.len(), |&head| start_of(head))
    }

    /// Gives memory back once much of it is unused.
    fn give_back(&mut self) {
        if self.slots.capacity() > self.slots.len() + 16 {
            self.slots.shrink_to(self.slots.len() + 4);
            self.heads.shrink_to(self.slots.len() + 4);
            self.keys.shrink_to(self.keys.len() + self.keys.len() / 16);
        }
    }
}

fn start_of(head: u32) -> usize {
    (head & ((1 << TAG_SHIFT) - 1)) as usize
}

/// Eight bits in which keys of one leaf are likely to differ. Neighbours differ at their ends.
fn tag_of(key: &[u8]) -> u32 {
    let mut bytes = [0; 8];
    let end = &key[key.len().saturating_sub(8)..];
    bytes[..end.len()].copy_from_slice(end);
    (u64::from_le_bytes(bytes).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u32
}
