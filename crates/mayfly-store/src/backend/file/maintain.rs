//! The janitor of a file store: lets go of what has expired, unlinks files in which nothing is left, and notes
//! the time.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::super::embedded::index::Slot;
use super::super::embedded::timeline::{HEARTBEAT, Now};
use super::clock_file::ClockFile;
use super::engine::Engine;
use super::options::Sync;
use super::regroup::is_worthwhile;
use super::segment::{Place, Segment};

/// A log smaller than this is not ended before it is full, however dead it is.
const SMALL_LOG: u64 = 1 << 20;

#[derive(Debug)]
pub(super) struct Maintainer {
    engine: Arc<Engine>,
    clock_file: ClockFile,
    noted: u64,
    /// Shifts of the wall clock that were noted on disk.
    shifts: u64,
}

impl Maintainer {
    pub(super) fn new(engine: Arc<Engine>, clock_file: ClockFile) -> Self {
        Self { engine, clock_file, noted: 0, shifts: 0 }
    }

    /// One round; returns for how long nothing is due.
    pub(super) fn round(&mut self) -> Duration {
        let engine = self.engine.clone();
        let now = engine.timeline.now();
        self.reap(now);
        let floor = engine.guard_floor(now);
        if let Err(error) = engine.segments.drop_empty(floor) {
            tracing::warn!(%error, "a data file could not be unlinked");
        }
        self.look_for_dead_weight(now, floor);
        let heartbeat = HEARTBEAT.as_millis() as u64;
        let shifts = engine.timeline.shifts();
        if now.line >= self.noted + heartbeat || shifts != self.shifts {
            self.shifts = shifts;
            self.note(now, false);
        }
        let next = engine.bell.plan(|| engine.index.next_alarm()).min(self.noted + heartbeat);
        Duration::from_millis(next.saturating_sub(engine.timeline.now().line).clamp(1, heartbeat))
    }

    fn reap(&self, now: Now) {
        let Engine { reaper, index, timeline, backlog, segments, .. } = &*self.engine;
        let mut tally = Tally::default();
        let unwanted = reaper.reap(index, timeline, now, backlog, |slot, kept| {
            if !tally.count(slot, kept) {
                tally.settle(segments.get(tally.segment).as_deref());
                tally.begin(slot, kept);
            }
        });
        tally.settle(segments.get(tally.segment).as_deref());
        segments.unpin(&unwanted);
    }

    /// Has mostly dead segments regrouped, and an open log that is mostly dead ended first.
    fn look_for_dead_weight(&self, now: Now, floor: u64) {
        let engine = &self.engine;
        for segment in engine.segments.all() {
            if !is_worthwhile(&segment, now, floor) {
                continue;
            }
            if !segment.is_open() {
                engine.regroup_bell.alarm().ring();
            } else if segment.size.load(Ordering::Relaxed) >= SMALL_LOG.min(engine.options.segment_bytes / 2)
                && !engine.rotate.swap(true, Ordering::AcqRel)
            {
                engine.queue.poke();
            }
        }
    }

    /// Notes the time on disk.
    pub(super) fn note(&mut self, now: Now, clean: bool) {
        let sync = self.engine.options.sync != Sync::Never;
        let together = self.engine.timeline.together(now);
        let latest_wall = self.engine.timeline.marks(now).wall;
        match self.clock_file.note(together, latest_wall, clean, sync) {
            Ok(()) => self.noted = now.line,
            Err(error) => tracing::warn!(%error, "the time could not be noted on disk"),
        }
    }
}

/// Records of one segment that have expired, counted before the segment is told: neighbours in the index often
/// lie in the same one.
#[derive(Debug, Default)]
struct Tally {
    segment: u32,
    records: u64,
    bytes: u64,
    kept: u64,
}

impl Tally {
    /// Counts a slot; false if it lies in another segment.
    fn count(&mut self, slot: &Slot<Place>, kept: bool) -> bool {
        let same = slot.place.segment == self.segment;
        if same {
            self.records += 1;
            self.bytes += u64::from(slot.place.len);
            self.kept += u64::from(kept);
        }
        same
    }

    fn begin(&mut self, slot: &Slot<Place>, kept: bool) {
        *self = Self { segment: slot.place.segment, ..Self::default() };
        self.count(slot, kept);
    }

    fn settle(&self, segment: Option<&Segment>) {
        if let Some(segment) = segment {
            segment.pinned.fetch_add(self.kept, Ordering::Relaxed);
            segment.remove_live(self.bytes, self.records);
        }
    }
}
