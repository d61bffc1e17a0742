//! A leaf: a few dozen neighbouring keys in one sorted array, their bytes in one arena beside it.
//!
//! This is what keeps a record under 64 bytes beyond its key: no allocation, no pointer and no timer of its own.

use super::super::deadline::Deadline;

/// A leaf is split when it would grow beyond this.
pub(super) const MAX_SLOTS: usize = 64;

/// One record, as the index knows it. `P` is where its value is.
#[derive(Debug, Clone)]
pub(crate) struct Slot<P> {
    pub(crate) deadline: Deadline,
    /// Which write made it; larger = later.
    pub(crate) seq: u64,
    pub(crate) place: P,
}

#[derive(Debug)]
struct Cell<P> {
    slot: Slot<P>,
    /// Where `[u16 length][key]` begins in the arena.
    key_at: u32,
}

#[derive(Debug)]
pub(super) struct Leaf<P> {
    cells: Vec<Cell<P>>,
    arena: Vec<u8>,
    /// Bytes of the arena that no cell refers to any more.
    garbage: u32,
    /// The time on the line for which this leaf stands in the shard's timers; `u64::MAX` = not at all.
    /// Never later than the earliest deadline inside.
    pub(super) alarm: u64,
}

impl<P> Leaf<P> {
    pub(super) fn new() -> Self {
        Self { cells: Vec::new(), arena: Vec::new(), garbage: 0, alarm: u64::MAX }
    }

    pub(super) fn len(&self) -> usize {
        self.cells.len()
    }

    pub(super) fn find(&self, key: &[u8]) -> Result<usize, usize> {
        self.cells.binary_search_by(|cell| key_in(&self.arena, cell.key_at).cmp(key))
    }

    pub(super) fn key(&self, at: usize) -> &[u8] {
        key_in(&self.arena, self.cells[at].key_at)
    }

    pub(super) fn slot(&self, at: usize) -> &Slot<P> {
        &self.cells[at].slot
    }

    pub(super) fn slot_mut(&mut self, at: usize) -> &mut Slot<P> {
        &mut self.cells[at].slot
    }

    pub(super) fn insert(&mut self, at: usize, key: &[u8], slot: Slot<P>) {
        if self.cells.len() == self.cells.capacity() {
            self.cells.reserve_exact(8);
        }
        let key_at = push_key(&mut self.arena, key);
        self.cells.insert(at, Cell { slot, key_at });
    }

    pub(super) fn remove(&mut self, at: usize) -> Slot<P> {
        let cell = self.cells.remove(at);
        self.garbage += 2 + key_in(&self.arena, cell.key_at).len() as u32;
        self.tidy();
        cell.slot
    }

    /// Removes every slot that `dead` says, handing it over with its key.
    pub(super) fn drain_where(
        &mut self,
        mut dead: impl FnMut(&Slot<P>) -> bool,
        mut take: impl FnMut(&[u8], Slot<P>),
    ) {
        let Self { cells, arena, garbage, .. } = self;
        for cell in cells.extract_if(.., |cell| dead(&cell.slot)) {
            let key = key_in(arena, cell.key_at);
            *garbage += 2 + key.len() as u32;
            take(key, cell.slot);
        }
        self.tidy();
    }

    /// Moves the upper part, from `at` on, into a new leaf.
    pub(super) fn split_off(&mut self, at: usize) -> Self {
        let mut upper = Self::new();
        upper.cells.reserve_exact(self.cells.len() - at);
        for cell in self.cells.drain(at..) {
            let key = key_in(&self.arena, cell.key_at);
            self.garbage += 2 + key.len() as u32;
            let key_at = push_key(&mut upper.arena, key);
            upper.cells.push(Cell { slot: cell.slot, key_at });
        }
        self.tidy();
        upper
    }

    /// Takes over all cells of the leaf that follows.
    pub(super) fn append(&mut self, next: Self) {
        self.cells.reserve_exact(next.cells.len());
        for cell in next.cells {
            let key_at = push_key(&mut self.arena, key_in(&next.arena, cell.key_at));
            self.cells.push(Cell { slot: cell.slot, key_at });
        }
    }

    /// Gives memory back once much of it is unused.
    fn tidy(&mut self) {
        if self.cells.capacity() > 16 && self.cells.capacity() > 2 * self.cells.len() {
            self.cells.shrink_to(self.cells.len());
        }
        if self.garbage as usize * 2 > self.arena.len() {
            let mut arena = Vec::with_capacity(self.arena.len() - self.garbage as usize);
            for cell in &mut self.cells {
                cell.key_at = push_key(&mut arena, key_in(&self.arena, cell.key_at));
            }
            (self.arena, self.garbage) = (arena, 0);
        }
    }
}

fn key_in(arena: &[u8], at: u32) -> &[u8] {
    let at = at as usize;
    let len = u16::from_ne_bytes([arena[at], arena[at + 1]]) as usize;
    &arena[at + 2..at + 2 + len]
}

fn push_key(arena: &mut Vec<u8>, key: &[u8]) -> u32 {
    let at = arena.len();
    if arena.capacity() < at + 2 + key.len() {
        arena.reserve_exact((2 + key.len()).max(at / 8).max(64));
    }
    arena.extend_from_slice(&(key.len() as u16).to_ne_bytes());
    arena.extend_from_slice(key);
    at as u32
}
