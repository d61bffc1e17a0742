//! Regrouping: what is still alive in a mostly dead segment moves into segments by the time of its expiry, and
//! the old file goes. Short-lived records are never copied, and files full of records that expire together are
//! unlinked whole.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::super::embedded::deadline::Deadline;
use super::super::embedded::timeline::Now;
use super::engine::Engine;
use super::frame::{BLOCK_BYTES, Frame, encode_block};
use super::scan::{FINISHED, Finding, walk};
use super::segment::{HEADER, Place, Role, Segment};

/// So many slices may be open at a time; the smallest is ended for a new one.
const MAX_OPEN: usize = 128;
/// How long to wait for the reaper.
const REAPING: Duration = Duration::from_millis(10);
/// Slices are not narrower than 2^10 ms.
const NARROWEST: u32 = 10;

/// Frames that expire within one span of time: `[number << width, (number + 1) << width)` ms. Never is its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Slice {
    width: u32,
    number: u64,
}

impl Slice {
    /// The width grows with the time to go, so that at most an eighth of it is spent dead on disk.
    fn of(time: u64, now: u64) -> Self {
        if time == u64::MAX {
            return Self { width: 63, number: 1 };
        }
        let width = (time.saturating_sub(now) / 8).max(1).ilog2().max(NARROWEST);
        Self { width, number: time >> width }
    }

    fn is_over(self, now: u64) -> bool {
        self.width < 63 && (self.number + 1) << self.width <= now
    }
}

/// Whether half of a segment is dead, so that moving the rest pays. A slice whose time has begun is left alone: it
/// will soon be dead as a whole.
pub(super) fn is_worthwhile(segment: &Segment, now: Now, floor: u64) -> bool {
    let frames = segment.frame_bytes.load(Ordering::Relaxed);
    let expires_now =
        segment.role == Role::Slice && segment.first_deadline.load(Ordering::Relaxed) <= now.line;
    frames > 0
        && !expires_now
        && segment.dead_bytes(floor) * 2 >= frames
        && segment.pinned.load(Ordering::Relaxed) == 0
        && !segment.damaged.load(Ordering::Relaxed)
}

#[derive(Debug)]
pub(super) struct Regrouper {
    engine: Arc<Engine>,
    open: HashMap<Slice, Arc<Segment>>,
    /// Slices that are full or in doubt. They count as open until what was moved into them is visible.
    full: Vec<Arc<Segment>>,
}

/// A frame that stays, and where its record is now if it is one; a frame that only hides others is no record.
#[derive(Debug)]
struct Survivor<'a> {
    frame: Frame<'a>,
    from: Option<Place>,
}

impl Regrouper {
    pub(super) fn new(engine: Arc<Engine>) -> Self {
        Self { engine, open: HashMap::new(), full: Vec::new() }
    }

    /// Regroups the segment with the most dead bytes, if one is worth it. Returns how long to rest.
    pub(super) fn round(&mut self) -> Duration {
        let engine = self.engine.clone();
        let now = engine.timeline.now();
        let floor = engine.guard_floor(now);
        self.end_slices(now);
        if engine.index.next_alarm() <= now.line {
            // What is about to be let go need not be moved first.
            return REAPING;
        }
        let segments = engine.segments.all();
        let worthwhile =
            segments.iter().filter(|segment| !segment.is_open() && is_worthwhile(segment, now, floor));
        let Some(segment) = worthwhile.max_by_key(|segment| segment.dead_bytes(floor)) else {
            return Duration::from_secs(1);
        };
        match self.regroup(segment, now, floor) {
            Ok(()) => {
                engine.bell.alarm().ring();
                Duration::ZERO
            }
            Err(error) => {
                tracing::warn!(%error, segment = segment.id, "a segment could not be regrouped");
                Duration::from_secs(1)
            }
        }
    }

    fn regroup(&mut self, segment: &Segment, now: Now, floor: u64) -> io::Result<()> {
        if segment.live_records.load(Ordering::Relaxed) == 0 && segment.guard.load(Ordering::Relaxed) <= floor
        {
            return Ok(());
        }
        let content = segment.file.read_all()?;
        let older_elsewhere = self.engine.segments.min_seq_besides(segment.id);
        let mut slices: BTreeMap<Slice, Vec<Survivor<'_>>> = BTreeMap::new();
        let mut damaged = false;
        walk(&content, HEADER, segment.salt, FINISHED, |finding| match finding {
            Finding::Frame { frame, offset, len, .. } => {
                let place = Place { segment: segment.id, offset: offset as u32, len: len as u32 };
                if let Some(survivor) = self.survivor(frame, place, floor, older_elsewhere) {
                    let deadline = survivor.from.map_or(0, |_| survivor.frame.deadline.millis());
                    let slice = Slice::of(deadline.max(survivor.frame.guard), now.line);
                    slices.entry(slice).or_default().push(survivor);
                }
            }
            Finding::Damage { .. } | Finding::TornTail { .. } => damaged = true,
        });
        let mut moved = Vec::new();
        for (slice, survivors) in &slices {
            self.append(*slice, segment.id, survivors, now, &mut moved)?;
        }
        self.relocate(&moved);
        if damaged {
            segment.damaged.store(true, Ordering::Relaxed);
        } else {
            segment.guard.store(0, Ordering::Relaxed);
            segment.guard_bytes.store(0, Ordering::Relaxed);
        }
        Ok(())
    }

    /// What must be kept of a frame: the record if it is the live one, else its key if it still hides others.
    fn survivor<'a>(&self, frame: Frame<'a>, place: Place, floor: u64, older: u64) -> Option<Survivor<'a>> {
        let hides = frame.guard > floor && !(frame.guard == u64::MAX && frame.seq < older);
        let guard = if hides { frame.guard } else { 0 };
        match self.engine.index.get(frame.key) {
            Some(slot) if slot.place == place => {
                return Some(Survivor { frame: Frame { guard, ..frame }, from: Some(place) });
            }
            // A copy of this very write lives elsewhere, guard included.
            Some(slot) if slot.seq == frame.seq => return None,
            _ => {}
        }
        let tombstone = Frame { delete: true, deadline: Deadline::NEVER, value: b"", guard, ..frame };
        hides.then_some(Survivor { frame: tombstone, from: None })
    }

    /// Appends survivors to their slice. What was moved is visible only after `relocate`.
    fn append<'a>(
        &mut self,
        slice: Slice,
        source: u32,
        survivors: &'a [Survivor<'a>],
        now: Now,
        moved: &mut Vec<(Survivor<'a>, Place)>,
    ) -> io::Result<()> {
        let mut rest = survivors;
        while !rest.is_empty() {
            let mut bytes = 0;
            let fits = rest.iter().take_while(|survivor| {
                let before = bytes;
                bytes += survivor.frame.key.len() + survivor.frame.value.len() + 32;
                before < BLOCK_BYTES
            });
            let (block, later) = rest.split_at(fits.count());
            rest = later;
            let frames: Vec<Frame<'_>> = block.iter().map(|survivor| survivor.frame).collect();
            let mut buffer = Vec::new();
            let segment = self.slice_with_room(slice, bytes as u64)?;
            let places =
                encode_block(&mut buffer, segment.salt, source, &frames, self.engine.timeline.marks(now));
            let start = segment.size.load(Ordering::Relaxed);
            // One block at a time is unsynced, so that only the last one of a file can be torn.
            if let Err(error) =
                segment.file.write_all_at(&buffer, start).and_then(|()| segment.file.sync_data())
            {
                self.abandon(slice, &segment);
                return Err(error);
            }
            segment.size.fetch_add(buffer.len() as u64, Ordering::Relaxed);
            for (survivor, (offset, len)) in block.iter().zip(places) {
                segment.note_frame(&survivor.frame, len);
                let to = Place { segment: segment.id, offset: start as u32 + offset, len };
                moved.push((Survivor { frame: survivor.frame, from: survivor.from }, to));
            }
        }
        Ok(())
    }

    /// Points the index to the copies, except where a record has changed meanwhile.
    fn relocate(&self, moved: &[(Survivor<'_>, Place)]) {
        for (survivor, to) in moved {
            let Some(from) = survivor.from else { continue };
            self.engine.index.write(survivor.frame.key, |shard| {
                if let Some(slot) = shard.get_mut(survivor.frame.key).filter(|slot| slot.place == from) {
                    slot.place = *to;
                    self.engine.segments.add_live(*to);
                    self.engine.segments.remove_live(from);
                }
            });
        }
    }

    fn slice_with_room(&mut self, slice: Slice, bytes: u64) -> io::Result<Arc<Segment>> {
        if let Some(segment) = self.open.get(&slice) {
            if segment.size.load(Ordering::Relaxed) + bytes <= self.engine.options.segment_bytes {
                return Ok(segment.clone());
            }
            self.full.extend(self.open.remove(&slice));
        }
        let segment = self.engine.segments.create(Role::Slice)?;
        self.open.insert(slice, segment.clone());
        Ok(segment)
    }

    /// Gives up a slice whose tail a failed write has left in doubt: nothing is appended behind it.
    fn abandon(&mut self, slice: Slice, segment: &Arc<Segment>) {
        if segment.file.truncate(segment.size.load(Ordering::Relaxed)).is_err() {
            self.full.extend(self.open.remove(&slice));
        }
    }

    /// Ends slices whose time is over and, if there are too many, the smallest.
    fn end_slices(&mut self, now: Now) {
        self.full.drain(..).for_each(|segment| segment.open.store(false, Ordering::Release));
        let over: Vec<Slice> = self.open.keys().filter(|slice| slice.is_over(now.line)).copied().collect();
        let spare = (self.open.len() - over.len()).saturating_sub(MAX_OPEN);
        let mut by_size: Vec<Slice> =
            self.open.keys().filter(|slice| !slice.is_over(now.line)).copied().collect();
        by_size.sort_by_key(|slice| self.open[slice].size.load(Ordering::Relaxed));
        for slice in over.into_iter().chain(by_size.into_iter().take(spare)) {
            if let Some(segment) = self.open.remove(&slice) {
                segment.open.store(false, Ordering::Release);
            }
        }
    }
}
