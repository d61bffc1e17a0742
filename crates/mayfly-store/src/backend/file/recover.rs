//! Opening a directory: from the snapshot of a clean close, else from every frame of every segment.
//!
//! Of several writes of a key the latest counts, wherever it lies. A torn tail is cut. Damaged bytes are copied
//! into a `.bad` file and reported, and their segment is never deleted.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use foldhash::fast::FixedState;

use super::super::embedded::index::{Index, Slot};
use super::super::embedded::timeline::{LastRun, Marks, Now, Timeline};
use super::clock_file::{ClockFile, Noted};
use super::disk::Disk;
use super::engine::not_written;
use super::frame::{Block, Frame, encode_block};
use super::scan::{Finding, walk};
use super::segment::{HEADER, Place, Role, Segment, id_of, name_of, unreadable};
use super::snapshot::{self, Listed, Snapshot};
use super::subscribers;
use crate::error::Result;
use crate::feed::FeedCursor;
use crate::record::Key;
use crate::time::Clock;

impl Noted {
    /// With what blocks on disk say beside it.
    fn last_run(self, blocks: Marks) -> LastRun {
        let line = self.together.map_or(0, |together| together.line).max(blocks.line);
        let latest = Marks { line, wall: self.latest_wall.max(blocks.wall) };
        LastRun { latest, together: self.together, closed_cleanly: self.clean }
    }
}

/// All that an engine starts from.
#[derive(Debug)]
pub(super) struct Recovered {
    pub(super) index: Index<Place>,
    pub(super) segments: BTreeMap<u32, Arc<Segment>>,
    pub(super) next_id: u32,
    pub(super) last_seq: u64,
    pub(super) timeline: Timeline,
    pub(super) clock_file: ClockFile,
    pub(super) subscribers: BTreeMap<String, FeedCursor>,
    /// What has expired and was not acknowledged by all of them, in expiry order.
    pub(super) backlog: Vec<(Key, Slot<Place>)>,
    pub(super) corruptions: u64,
}

/// Reads a directory that nobody else has open.
pub(super) fn recover(disk: &dyn Disk, clock: Arc<dyn Clock>) -> Result<Recovered> {
    let names = disk.list().map_err(|error| unreadable("the directory", error))?;
    let (clock_file, noted) = ClockFile::open(disk, &names)?;
    let subscribers = subscribers::load(disk, &names)?;
    let segments = load_segments(disk, &names)?;
    let snapshot = snapshot::load(disk)?.filter(|_| noted.clean);
    let to_believe = |snapshot: &Snapshot| lists_all(snapshot, &segments) && snapshot.is_sound();
    let mut recovered = match snapshot.filter(to_believe) {
        Some(snapshot) => from_snapshot(&snapshot, segments, clock, noted, clock_file, subscribers),
        None => Scan::new(disk, segments, noted, subscribers).run(clock, clock_file),
    }?;
    recovered.count_live();
    for name in names.iter().filter(|name| name.ends_with(".tmp")) {
        disk.remove(name).map_err(not_written)?;
    }
    Ok(recovered)
}

fn load_segments(disk: &dyn Disk, names: &[String]) -> Result<BTreeMap<u32, Arc<Segment>>> {
    let mut segments = BTreeMap::new();
    for id in names.iter().filter_map(|name| id_of(name)) {
        match Segment::load(disk, id)? {
            Some(segment) => drop(segments.insert(id, segment)),
            None => disk.remove(&name_of(id)).map_err(not_written)?,
        }
    }
    Ok(segments)
}

/// Whether a snapshot speaks of exactly these segments.
fn lists_all(snapshot: &Snapshot, segments: &BTreeMap<u32, Arc<Segment>>) -> bool {
    let there = segments.values().map(|segment| (segment.id, segment.size.load(Ordering::Relaxed)));
    let listed = snapshot.segments.iter().map(|listed| (listed.id, listed.size));
    there.eq(listed) && segments.values().all(|segment| !segment.damaged.load(Ordering::Relaxed))
}

fn from_snapshot(
    snapshot: &Snapshot,
    segments: BTreeMap<u32, Arc<Segment>>,
    clock: Arc<dyn Clock>,
    noted: Noted,
    clock_file: ClockFile,
    subscribers: BTreeMap<String, FeedCursor>,
) -> Result<Recovered> {
    for Listed { id, frame_bytes, first_deadline, guard, guard_bytes, min_seq, .. } in &snapshot.segments {
        let segment = &segments[id];
        segment.frame_bytes.store(*frame_bytes, Ordering::Relaxed);
        segment.first_deadline.store(*first_deadline, Ordering::Relaxed);
        segment.guard.store(*guard, Ordering::Relaxed);
        segment.guard_bytes.store(*guard_bytes, Ordering::Relaxed);
        segment.min_seq.store(*min_seq, Ordering::Relaxed);
    }
    let last = noted.last_run(Marks::default());
    let timeline = Timeline::start(clock, last)?;
    let now = at_start(&timeline, last.latest);
    let index = Index::new();
    let mut backlog = Vec::new();
    let mut expired = Vec::new();
    let sound = snapshot.records(
        |key, slot| backlog.push((key, slot)),
        |key, slot| match slot.deadline.is_past(now) {
            false => drop(index.write(key, |shard| shard.insert(key, slot, now))),
            true if subscribers.is_empty() => {}
            true => expired.extend(Key::from_bytes(Bytes::copy_from_slice(key)).map(|key| (key, slot))),
        },
    );
    debug_assert!(sound.is_some(), "only a sound snapshot is believed");
    in_order(&mut expired, &timeline);
    backlog.extend(expired);
    Ok(Recovered {
        index,
        segments,
        next_id: snapshot.next_id,
        last_seq: snapshot.last_seq,
        timeline,
        clock_file,
        subscribers,
        backlog,
        corruptions: 0,
    })
}

/// The present for judging what is on disk: an absolute deadline that was once seen to pass has passed.
fn at_start(timeline: &Timeline, seen: Marks) -> Now {
    let mut now = timeline.now();
    now.wall = now.wall.max(seen.wall);
    now
}

fn in_order(items: &mut [(Key, Slot<Place>)], timeline: &Timeline) {
    items.sort_by_key(|(_, slot)| (timeline.on_line(slot.deadline), slot.seq));
}

impl Recovered {
    /// Counts what lives, and what subscribers wait for, at its segment.
    fn count_live(&mut self) {
        let segments = &self.segments;
        self.index.for_each(|_, slot| {
            if let Some(segment) = segments.get(&slot.place.segment) {
                segment.add_live(slot.place.len);
            }
        });
        self.backlog.retain(|(_, slot)| segments.contains_key(&slot.place.segment));
        for (_, slot) in &self.backlog {
            segments[&slot.place.segment].pinned.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// A reading of every frame.
#[derive(Debug)]
struct Scan<'a> {
    disk: &'a dyn Disk,
    segments: BTreeMap<u32, Arc<Segment>>,
    noted: Noted,
    subscribers: BTreeMap<String, FeedCursor>,
    marks: Marks,
    index: Index<Place>,
    last_seq: u64,
    corruptions: u64,
    /// Puts that may have expired unacknowledged, if there are subscribers.
    candidates: Vec<(Key, Slot<Place>)>,
    /// When each write of a key (by its hash) was made, if there are subscribers.
    history: HashMap<u64, Vec<(u64, u64)>>,
}

/// The place of a delete in the index while scanning: frames are never empty.
const DELETED: u32 = 0;

impl<'a> Scan<'a> {
    fn new(
        disk: &'a dyn Disk,
        segments: BTreeMap<u32, Arc<Segment>>,
        noted: Noted,
        subscribers: BTreeMap<String, FeedCursor>,
    ) -> Self {
        Self {
            disk,
            segments,
            noted,
            subscribers,
            marks: Marks::default(),
            index: Index::new(),
            last_seq: 0,
            corruptions: 0,
            candidates: Vec::new(),
            history: HashMap::new(),
        }
    }

    fn run(mut self, clock: Arc<dyn Clock>, clock_file: ClockFile) -> Result<Recovered> {
        let segments: Vec<Arc<Segment>> = self.segments.values().cloned().collect();
        let newest_log = segments.iter().rfind(|segment| segment.role == Role::Log).map(|segment| segment.id);
        for segment in segments {
            let was_written = segment.role == Role::Slice || Some(segment.id) == newest_log;
            self.read(&segment, was_written && !self.noted.clean)?;
        }
        let last = self.noted.last_run(self.marks);
        let timeline = Timeline::start(clock, last)?;
        let now = at_start(&timeline, last.latest);
        self.index.retain(|_, slot| slot.place.len != DELETED && !slot.deadline.is_past(now));
        self.index.reschedule(now);
        let backlog = self.expired(now, &timeline);
        Ok(Recovered {
            index: self.index,
            next_id: self.segments.keys().next_back().map_or(1, |last| last + 1),
            segments: self.segments,
            last_seq: self.last_seq,
            timeline,
            clock_file,
            subscribers: self.subscribers,
            backlog,
            corruptions: self.corruptions,
        })
    }

    /// Reads a segment. `was_written` says whether a crash may have cut its last write off.
    fn read(&mut self, segment: &Segment, was_written: bool) -> Result<()> {
        let name = name_of(segment.id);
        let content = segment.file.read_all().map_err(|error| unreadable(&name, error))?;
        let mut damage = Vec::new();
        if segment.damaged.load(Ordering::Relaxed) {
            damage.push((0, HEADER, "the header of the file is damaged"));
        }
        let mut torn = None;
        let here: BTreeSet<u32> = self.segments.keys().copied().collect();
        // A block that was moved here was synced before its source was unlinked: without the source it is whole.
        let may_be_torn = |block: Option<&Block>| {
            was_written && block.is_none_or(|block| block.source == 0 || here.contains(&block.source))
        };
        walk(&content, HEADER, segment.salt, &may_be_torn, |finding| match finding {
            Finding::Frame { frame, block, offset, len } => {
                self.marks.line = self.marks.line.max(block.marks.line);
                self.marks.wall = self.marks.wall.max(block.marks.wall);
                let place = Place { segment: segment.id, offset: offset as u32, len: len as u32 };
                segment.note_frame(&frame, place.len);
                self.take(&frame, place);
            }
            Finding::Damage { offset, len, reason } => damage.push((offset, len, reason)),
            Finding::TornTail { offset, doubtful } => torn = Some((offset, doubtful)),
        });
        if let Some((offset, doubtful)) = torn {
            if doubtful {
                self.put_aside(segment, &content[offset..], offset)?;
            }
            tracing::info!(file = name, offset, bytes = content.len() - offset, "cutting a torn tail");
            self.cut(segment, offset as u64)?;
        }
        if was_written {
            // A killed process may have left whole blocks that never reached the disk. What is shown from now on
            // must not be lost with the next power cut.
            segment.file.sync_data().map_err(not_written)?;
        }
        for (offset, len, reason) in damage {
            self.quarantine(segment, &content, offset, len, reason)?;
        }
        Ok(())
    }

    /// Cuts a torn tail off and ends the file with an empty block: the block before was acknowledged, and must not
    /// be taken for torn next time, should it ever be damaged. On a full disk it goes without.
    fn cut(&self, segment: &Segment, offset: u64) -> Result<()> {
        segment.file.truncate(offset).map_err(not_written)?;
        let mut end = Vec::new();
        encode_block(&mut end, segment.salt, 0, &[], self.marks);
        let size = match segment.file.write_all_at(&end, offset) {
            Ok(()) => offset + end.len() as u64,
            Err(_) => segment.file.truncate(offset).map(|()| offset).map_err(not_written)?,
        };
        segment.size.store(size, Ordering::Relaxed);
        Ok(())
    }

    /// Lets a frame into the index if it is the latest of its key.
    fn take(&mut self, frame: &Frame<'_>, place: Place) {
        self.last_seq = self.last_seq.max(frame.seq);
        let len = if frame.delete { DELETED } else { place.len };
        let slot = Slot { deadline: frame.deadline, seq: frame.seq, place: Place { len, ..place } };
        if !self.subscribers.is_empty() {
            let hash = FixedState::default().hash_one(frame.key);
            self.history.entry(hash).or_default().push((frame.seq, frame.written));
            let seen = |cursor: &FeedCursor| cursor.has_passed(slot.deadline, slot.seq);
            if !frame.delete && !self.subscribers.values().all(seen) {
                let key = Key::from_bytes(Bytes::copy_from_slice(frame.key));
                self.candidates.push((key.expect("sound frames have valid keys"), slot.clone()));
            }
        }
        self.index.write(frame.key, |shard| {
            // Of two copies of one write, one may have been reduced to what it hides: the whole one counts.
            let rank = |slot: &Slot<Place>| (slot.seq, slot.place.len != DELETED, slot.deadline.millis());
            let later = |known: &Slot<Place>| rank(known) <= rank(&slot);
            if shard.get(frame.key).is_none_or(later) {
                shard.insert(frame.key, slot, Now::ZERO);
            }
        });
    }

    /// What has expired, as opposed to what was replaced or deleted before its deadline: a write that was made
    /// before then leaves a later frame of the key on disk, for as long as the old one could be taken for expired.
    fn expired(&mut self, now: Now, timeline: &Timeline) -> Vec<(Key, Slot<Place>)> {
        let mut once = HashSet::new();
        let mut items = std::mem::take(&mut self.candidates);
        items.retain(|(key, slot)| {
            let hash = FixedState::default().hash_one(key.as_bytes());
            let on_line = timeline.on_line(slot.deadline);
            let replaced = |&(seq, written): &(u64, u64)| seq > slot.seq && written < on_line;
            slot.deadline.is_past(now) && !self.history[&hash].iter().any(replaced) && once.insert(slot.seq)
        });
        in_order(&mut items, timeline);
        items
    }

    /// Copies damaged bytes aside, reports them, and marks their segment.
    fn quarantine(
        &mut self,
        segment: &Segment,
        content: &[u8],
        at: usize,
        len: usize,
        reason: &str,
    ) -> Result<()> {
        let name = name_of(segment.id);
        tracing::error!(file = name, offset = at, bytes = len, reason, "damaged bytes were put aside");
        self.corruptions += 1;
        segment.damaged.store(true, Ordering::Relaxed);
        self.put_aside(segment, &content[at..at + len], at)
    }

    /// Keeps a copy of bytes that are not understood.
    fn put_aside(&self, segment: &Segment, bytes: &[u8], at: usize) -> Result<()> {
        let write = || {
            let file = self.disk.create(&format!("{:010}-{at}.bad", segment.id))?;
            file.write_all_at(bytes, 0)?;
            file.sync_data()
        };
        write().map_err(not_written)
    }
}
