//! What the threads of a file store share: the index, the segments, the line of time, the queue of writes.

use std::any::Any;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::super::embedded::backlog::Backlog;
use super::super::embedded::index::{Index, Shard, Slot};
use super::super::embedded::janitor::Bell;
use super::super::embedded::reaper::Reaper;
use super::super::embedded::timeline::{Now, Timeline};
use super::disk::Disk;
use super::options::FileOptions;
use super::queue::Queue;
use super::segment::Place;
use super::segments::Segments;
use crate::error::{Error, ErrorKind, Result};
use crate::record::Key;
use crate::stats::Stats;

#[derive(Debug)]
pub(super) struct Engine {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) options: FileOptions,
    pub(super) index: Index<Place>,
    pub(super) segments: Segments,
    pub(super) timeline: Timeline,
    pub(super) reaper: Reaper<Place>,
    pub(super) backlog: Backlog<Place>,
    pub(super) queue: Queue,
    /// Wakes the thread that lets go of what has expired.
    pub(super) bell: Arc<Bell>,
    /// Wakes the thread that regroups.
    pub(super) regroup_bell: Arc<Bell>,
    /// Told after each commit, for readers that met a dead record with a write under way.
    pub(super) committed: Notify,
    /// The last write. Only the committer adds to it.
    pub(super) last_seq: AtomicU64,
    /// Asks the committer to begin a new log because the open one is mostly dead.
    pub(super) rotate: AtomicBool,
    pub(super) corruptions: AtomicU64,
    /// Held while the file of the feed's subscribers is written.
    pub(super) subscribers_file: Mutex<()>,
    pub(super) closed: AtomicBool,
    /// Keeps other processes away until the store is closed.
    pub(super) lock: Mutex<Option<Box<dyn Any + Send + Sync>>>,
}

impl Engine {
    /// The present, if the store is open.
    pub(super) fn open(&self) -> Result<Now> {
        match self.closed.load(Ordering::Acquire) {
            false => Ok(self.timeline.now()),
            true => Err(closed()),
        }
    }

    /// Until when every guard may be forgotten: both clocks have passed it, and so has every subscriber.
    pub(super) fn guard_floor(&self, now: Now) -> u64 {
        let marks = self.timeline.marks(now);
        let cursors = self.backlog.cursors();
        let subscribers = cursors.values().map(|cursor| cursor.relative.0.min(cursor.absolute.0));
        subscribers.chain([marks.line, marks.wall]).min().unwrap_or(0)
    }

    /// Removes a record that a read has found dead on the wall clock: the clock may step back, but what was
    /// once seen as expired stays expired.
    pub(super) fn evict(&self, key: &Key, now: Now) {
        self.index.write(key.as_bytes(), |shard: &mut Shard<Place>| {
            let now = now.at_most(self.timeline.now());
            let dead = |slot: &Slot<Place>| slot.deadline.is_past(now) && !slot.deadline.is_pending();
            if shard.get(key.as_bytes()).is_some_and(dead)
                && let Some(slot) = shard.remove(key.as_bytes())
            {
                self.reaper.evict(key.clone(), slot);
            }
        });
    }

    pub(super) fn stats(&self) -> Stats {
        let now = self.timeline.now();
        let segments: Vec<_> = self.segments.all().iter().map(|segment| segment.stats()).collect();
        let mut stats = Stats {
            expired: self.reaper.expired(),
            lateness: self.reaper.lateness(),
            feed_backlog: self.backlog.len() as u64,
            clock_steps: self.timeline.steps(),
            corruptions: self.corruptions.load(Ordering::Relaxed),
            ..Stats::default()
        };
        self.index.for_each(|_, slot| {
            if !slot.deadline.is_past(now) {
                let bytes = slot.place.len.into();
                stats.records += 1;
                stats.live_bytes += bytes;
                stats.horizon.add(slot.deadline.left(now), bytes);
            }
        });
        let total: u64 = segments.iter().map(|segment| segment.bytes).sum();
        stats.dead_bytes = total.saturating_sub(stats.live_bytes);
        stats.segments = segments;
        stats
    }
}

pub(super) fn closed() -> Error {
    Error::new(ErrorKind::Closed, "the store is closed")
}

/// Says what an I/O error means for a write that was not applied.
pub(super) fn not_written(error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            let message = "the disk is full: nothing was written, and nothing acknowledged is lost";
            Error::new(ErrorKind::DiskFull, message).with_source(error)
        }
        _ => Error::new(ErrorKind::Unavailable, "the disk refused a write: nothing was written")
            .with_source(error),
    }
}
