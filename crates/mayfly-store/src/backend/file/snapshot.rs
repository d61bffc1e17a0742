//! The file `index`: the whole index as it was at a clean close, so that opening need not read the segments.
//!
//! It is removed before the first write after it, and believed only if it names exactly the segments
//! that are there, with their sizes.

use std::io;

use bytes::Bytes;

use super::super::embedded::deadline::Deadline;
use super::super::embedded::index::{Index, Slot};
use super::disk::Disk;
use super::segment::{Place, Segment};
use super::varint;
use super::whole_file::WholeFile;
use crate::error::Result;
use crate::record::Key;
use std::sync::Arc;
use std::sync::atomic::Ordering;

const FILE: WholeFile = WholeFile { name: "index", magic: b"MAYFLYIX", version: 1 };

/// What a snapshot holds.
#[derive(Debug)]
pub(super) struct Snapshot {
    content: Vec<u8>,
    /// Where the records begin.
    records_at: usize,
    pub(super) last_seq: u64,
    pub(super) next_id: u32,
    pub(super) segments: Vec<Listed>,
}

/// A segment as the snapshot lists it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Listed {
    pub(super) id: u32,
    pub(super) size: u64,
    pub(super) frame_bytes: u64,
    pub(super) first_deadline: u64,
    pub(super) guard: u64,
    pub(super) guard_bytes: u64,
    pub(super) min_seq: u64,
}

pub(super) fn remove(disk: &dyn Disk) -> io::Result<()> {
    FILE.remove(disk)
}

/// Writes the index and the items that subscribers wait for.
pub(super) fn save(
    disk: &dyn Disk,
    index: &Index<Place>,
    segments: &[Arc<Segment>],
    backlog: &[(Key, Slot<Place>)],
    last_seq: u64,
    next_id: u32,
) -> io::Result<()> {
    let mut content = FILE.begin();
    let put = varint::put;
    put(&mut content, last_seq);
    put(&mut content, next_id.into());
    put(&mut content, segments.len() as u64);
    for segment in segments {
        put(&mut content, segment.id.into());
        let Segment { size, frame_bytes, first_deadline, guard, guard_bytes, min_seq, .. } = &**segment;
        for counter in [size, frame_bytes, first_deadline, guard, guard_bytes, min_seq] {
            put(&mut content, counter.load(Ordering::Relaxed));
        }
    }
    put(&mut content, backlog.len() as u64);
    for (key, slot) in backlog {
        put_record(&mut content, key.as_bytes(), slot);
    }
    index.for_each(|key, slot| put_record(&mut content, key, slot));
    FILE.save(disk, content)
}

fn put_record(content: &mut Vec<u8>, key: &[u8], slot: &Slot<Place>) {
    varint::put(content, key.len() as u64);
    content.extend_from_slice(key);
    varint::put(content, slot.deadline.to_bits());
    varint::put(content, slot.seq);
    varint::put(content, slot.place.segment.into());
    varint::put(content, slot.place.offset.into());
    varint::put(content, slot.place.len.into());
}

/// The snapshot, or none if there is none to be believed.
pub(super) fn load(disk: &dyn Disk) -> Result<Option<Snapshot>> {
    Ok(FILE.load(disk)?.and_then(parse_head))
}

fn parse_head(content: Vec<u8>) -> Option<Snapshot> {
    let mut rest = &content[..];
    let last_seq = varint::take(&mut rest)?;
    let next_id = u32::try_from(varint::take(&mut rest)?).ok()?;
    let mut segments = Vec::new();
    for _ in 0..varint::take(&mut rest)? {
        segments.push(Listed {
            id: u32::try_from(varint::take(&mut rest)?).ok()?,
            size: varint::take(&mut rest)?,
            frame_bytes: varint::take(&mut rest)?,
            first_deadline: varint::take(&mut rest)?,
            guard: varint::take(&mut rest)?,
            guard_bytes: varint::take(&mut rest)?,
            min_seq: varint::take(&mut rest)?,
        });
    }
    let records_at = content.len() - rest.len();
    Some(Snapshot { records_at, last_seq, next_id, segments, content })
}

impl Snapshot {
    /// Whether all of it makes sense.
    pub(super) fn is_sound(&self) -> bool {
        self.records(|_, _| {}, |_, _| {}).is_some()
    }

    /// Hands over the items of the feed, then the live records. None if the content makes no sense.
    pub(super) fn records(
        &self,
        mut waiting: impl FnMut(Key, Slot<Place>),
        mut live: impl FnMut(&[u8], Slot<Place>),
    ) -> Option<()> {
        let mut rest = &self.content[self.records_at..];
        for _ in 0..varint::take(&mut rest)? {
            let (key, slot) = take_record(&mut rest)?;
            waiting(Key::from_bytes(Bytes::copy_from_slice(key))?, slot);
        }
        while !rest.is_empty() {
            let (key, slot) = take_record(&mut rest)?;
            live(key, slot);
        }
        Some(())
    }
}

fn take_record<'a>(rest: &mut &'a [u8]) -> Option<(&'a [u8], Slot<Place>)> {
    let len = varint::take(rest)? as usize;
    let (key, after) = rest.split_at_checked(len).filter(|(key, _)| Key::is_valid(key))?;
    *rest = after;
    let deadline = Deadline::from_bits(varint::take(rest)?);
    let seq = varint::take(rest)?;
    let mut number = || u32::try_from(varint::take(rest)?).ok();
    let place = Place { segment: number()?, offset: number()?, len: number()? };
    Some((key, Slot { deadline, seq, place }))
}
