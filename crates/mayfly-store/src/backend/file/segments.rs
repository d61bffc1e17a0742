//! All data files of a store by number, and which of them can go.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::{Mutex, RwLock};

use super::super::embedded::index::Slot;
use super::disk::Disk;
use super::segment::{Place, Role, Segment, name_of};
use super::snapshot;

#[derive(Debug)]
pub(super) struct Segments {
    disk: Arc<dyn Disk>,
    by_id: RwLock<BTreeMap<u32, Arc<Segment>>>,
    next_id: AtomicU32,
    /// Whether an index snapshot may lie on disk; it must go before the first write.
    snapshot: Mutex<bool>,
}

impl Segments {
    pub(super) fn new(disk: Arc<dyn Disk>, segments: BTreeMap<u32, Arc<Segment>>, next_id: u32) -> Self {
        Self {
            disk,
            by_id: RwLock::new(segments),
            next_id: AtomicU32::new(next_id),
            snapshot: Mutex::new(true),
        }
    }

    pub(super) fn get(&self, id: u32) -> Option<Arc<Segment>> {
        self.by_id.read().get(&id).cloned()
    }

    pub(super) fn all(&self) -> Vec<Arc<Segment>> {
        self.by_id.read().values().cloned().collect()
    }

    pub(super) fn next_id(&self) -> u32 {
        self.next_id.load(Ordering::Relaxed)
    }

    /// Removes the snapshot of the last clean close, durably. It stops being true with the first write.
    pub(super) fn forget_snapshot(&self) -> io::Result<()> {
        let mut snapshot = self.snapshot.lock();
        if *snapshot {
            snapshot::remove(&*self.disk)?;
            *snapshot = false;
        }
        Ok(())
    }

    /// Begins a new segment.
    pub(super) fn create(&self, role: Role) -> io::Result<Arc<Segment>> {
        self.forget_snapshot()?;
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let segment = Segment::create(&*self.disk, id, role)?;
        self.by_id.write().insert(id, segment.clone());
        Ok(segment)
    }

    /// The latest log of an earlier run, if there is room in it and nothing wrong with it: short runs share one.
    pub(super) fn unfinished_log(&self, segment_bytes: u64) -> Option<Arc<Segment>> {
        let segments = self.by_id.read();
        let log = segments.values().rfind(|segment| segment.role == Role::Log)?;
        let has_room = log.size.load(Ordering::Relaxed) < segment_bytes / 2;
        (has_room && !log.damaged.load(Ordering::Relaxed)).then(|| {
            log.open.store(true, Ordering::Release);
            log.clone()
        })
    }

    /// Counts a record at its place.
    pub(super) fn add_live(&self, place: Place) {
        if let Some(segment) = self.by_id.read().get(&place.segment) {
            segment.add_live(place.len);
        }
    }

    /// Uncounts a record at its place.
    pub(super) fn remove_live(&self, place: Place) {
        if let Some(segment) = self.by_id.read().get(&place.segment) {
            segment.remove_live(place.len.into(), 1);
        }
    }

    /// Lets go of records that no subscriber waits for any more.
    pub(super) fn unpin<K>(&self, items: &[(K, Slot<Place>)]) {
        let segments = self.by_id.read();
        for (_, slot) in items {
            if let Some(segment) = segments.get(&slot.place.segment) {
                segment.pinned.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    /// Unlinks every segment in which nothing lives, nothing is waited for and nothing hides anything at
    /// `floor`. Not one byte of them is read.
    pub(super) fn drop_empty(&self, floor: u64) -> io::Result<u64> {
        let empty = |segment: &Segment| {
            !segment.is_open()
                && !segment.damaged.load(Ordering::Relaxed)
                && segment.live_records.load(Ordering::Relaxed) == 0
                && segment.pinned.load(Ordering::Relaxed) == 0
                && segment.guard.load(Ordering::Relaxed) <= floor
        };
        let gone: Vec<u32> =
            self.by_id.read().values().filter(|segment| empty(segment)).map(|segment| segment.id).collect();
        for &id in &gone {
            self.disk.remove(&name_of(id))?;
            self.by_id.write().remove(&id);
        }
        Ok(gone.len() as u64)
    }

    /// The earliest write that any segment but this one holds.
    pub(super) fn min_seq_besides(&self, id: u32) -> u64 {
        let segments = self.by_id.read();
        let others = segments.values().filter(|segment| segment.id != id);
        others.map(|segment| segment.min_seq.load(Ordering::Relaxed)).min().unwrap_or(u64::MAX)
    }
}
