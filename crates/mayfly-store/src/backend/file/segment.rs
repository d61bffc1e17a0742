//! One data file: its header, and what is known about its content.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crc32c::crc32c;

use super::disk::{Disk, DiskFile};
use super::frame::{Frame, Salt};
use crate::error::{Error, ErrorKind, Result};
use crate::stats::SegmentStats;

/// The size of a file header: two copies of the same.
pub(super) const HEADER: usize = 2 * COPY;
const COPY: usize = 32;
const MAGIC: &[u8; 8] = b"MAYFLYSG";
const VERSION: u16 = 1;

/// What a segment was written for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Role {
    /// The log that all writes go to first.
    #[default]
    Log,
    /// Records that outlived their log, regrouped by the time at which they expire.
    Slice,
}

/// Where a frame is. Segment numbers are never used twice, so a place never means two things.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) segment: u32,
    pub(super) offset: u32,
    pub(super) len: u32,
}

/// A data file and its counters. The counters may be read at any time and are exact between changes.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) id: u32,
    pub(super) role: Role,
    pub(super) salt: Salt,
    pub(super) file: Arc<dyn DiskFile>,
    pub(super) size: AtomicU64,
    /// The bytes of all frames, live and dead; the rest of the size is what holds them together.
    pub(super) frame_bytes: AtomicU64,
    pub(super) live_bytes: AtomicU64,
    pub(super) live_records: AtomicU64,
    /// Expired records that subscribers of the feed still wait for.
    pub(super) pinned: AtomicU64,
    /// Until when frames in here hide older ones elsewhere; see `Frame::guard`.
    pub(super) guard: AtomicU64,
    /// The bytes of those frames.
    pub(super) guard_bytes: AtomicU64,
    /// The earliest deadline of a frame in here, whether it is still alive or not.
    pub(super) first_deadline: AtomicU64,
    /// The earliest write in here.
    pub(super) min_seq: AtomicU64,
    /// Whether it is still appended to.
    pub(super) open: AtomicBool,
    /// Whether some of its bytes make no sense. Such a file is kept for inspection, whatever is left in it.
    pub(super) damaged: AtomicBool,
}

impl Segment {
    fn new(id: u32, Header { role, salt }: Header, file: Arc<dyn DiskFile>, size: u64) -> Arc<Self> {
        Arc::new(Self {
            id,
            role,
            salt,
            file,
            size: AtomicU64::new(size),
            frame_bytes: AtomicU64::new(0),
            live_bytes: AtomicU64::new(0),
            live_records: AtomicU64::new(0),
            pinned: AtomicU64::new(0),
            guard: AtomicU64::new(0),
            guard_bytes: AtomicU64::new(0),
            first_deadline: AtomicU64::new(u64::MAX),
            min_seq: AtomicU64::new(u64::MAX),
            open: AtomicBool::new(false),
            damaged: AtomicBool::new(false),
        })
    }

    /// A new file with its header written, durable together with its name.
    pub(super) fn create(disk: &dyn Disk, id: u32, role: Role) -> io::Result<Arc<Self>> {
        let file = disk.create(&name_of(id))?;
        let header = Header { role, salt: Salt(RandomState::new().hash_one(id) as u32) };
        let written = file.write_all_at(&header.encode(id), 0).and_then(|()| file.sync_data());
        if let Err(error) = written.and_then(|()| disk.sync_dir()) {
            // A file without a header holds nothing; if it cannot be removed now, recovery will.
            let _ = disk.remove(&name_of(id));
            return Err(error);
        }
        let segment = Self::new(id, header, file, HEADER as u64);
        segment.open.store(true, Ordering::Release);
        Ok(segment)
    }

    /// An existing file. None if its header was never finished, so that it holds nothing.
    pub(super) fn load(disk: &dyn Disk, id: u32) -> Result<Option<Arc<Self>>> {
        let name = name_of(id);
        let failed = |error| unreadable(&name, error);
        let file = disk.open(&name).map_err(failed)?;
        let size = file.size().map_err(failed)?;
        let mut header = [0; HEADER];
        if size < HEADER as u64 {
            return Ok(None);
        }
        file.read_exact_at(&mut header, 0).map_err(failed)?;
        let (header, sound) = Header::decode(&header, &name)?;
        if header.is_none() && size == HEADER as u64 {
            return Ok(None);
        }
        let segment = Self::new(id, header.unwrap_or_default(), file, size);
        segment.damaged.store(!sound, Ordering::Relaxed);
        Ok(Some(segment))
    }

    /// Counts a record that now lives here.
    pub(super) fn add_live(&self, len: u32) {
        self.live_bytes.fetch_add(len.into(), Ordering::Relaxed);
        self.live_records.fetch_add(1, Ordering::Relaxed);
    }

    /// Uncounts records that no longer do.
    pub(super) fn remove_live(&self, bytes: u64, records: u64) {
        self.live_bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.live_records.fetch_sub(records, Ordering::Relaxed);
    }

    /// Notes what a frame that was written here says about the file.
    pub(super) fn note_frame(&self, frame: &Frame<'_>, len: u32) {
        self.frame_bytes.fetch_add(len.into(), Ordering::Relaxed);
        self.first_deadline.fetch_min(frame.deadline.millis(), Ordering::Relaxed);
        self.min_seq.fetch_min(frame.seq, Ordering::Relaxed);
        if frame.guard != 0 {
            self.guard.fetch_max(frame.guard, Ordering::Relaxed);
            self.guard_bytes.fetch_add(len.into(), Ordering::Relaxed);
        }
    }

    pub(super) fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }

    /// Bytes of frames that are neither live nor needed to hide something at `floor`.
    pub(super) fn dead_bytes(&self, floor: u64) -> u64 {
        let guards = match self.guard.load(Ordering::Relaxed) > floor {
            true => self.guard_bytes.load(Ordering::Relaxed),
            false => 0,
        };
        let used = self.live_bytes.load(Ordering::Relaxed) + guards;
        self.frame_bytes.load(Ordering::Relaxed).saturating_sub(used)
    }

    pub(super) fn stats(&self) -> SegmentStats {
        SegmentStats {
            id: self.id,
            bytes: self.size.load(Ordering::Relaxed),
            live_bytes: self.live_bytes.load(Ordering::Relaxed),
            live_records: self.live_records.load(Ordering::Relaxed),
            open: self.is_open(),
        }
    }
}

/// The file name of a segment.
pub(super) fn name_of(id: u32) -> String {
    format!("{id:010}.seg")
}

/// The segment that a file name names.
pub(super) fn id_of(name: &str) -> Option<u32> {
    let digits = name.strip_suffix(".seg")?;
    (digits.len() == 10).then(|| digits.parse().ok()).flatten()
}

/// What a file says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Header {
    pub(super) role: Role,
    pub(super) salt: Salt,
}

impl Header {
    fn encode(self, id: u32) -> [u8; HEADER] {
        let mut copy = [0; COPY];
        copy[..8].copy_from_slice(MAGIC);
        copy[8..10].copy_from_slice(&VERSION.to_le_bytes());
        copy[10] = u8::from(self.role == Role::Slice);
        copy[12..16].copy_from_slice(&id.to_le_bytes());
        copy[16..20].copy_from_slice(&self.salt.0.to_le_bytes());
        let crc = crc32c(&copy[..28]);
        copy[28..].copy_from_slice(&crc.to_le_bytes());
        let mut header = [0; HEADER];
        header[..COPY].copy_from_slice(&copy);
        header[COPY..].copy_from_slice(&copy);
        header
    }

    /// The header, if one of its copies is sound, and whether both are. An error if it is newer than this program.
    pub(super) fn decode(header: &[u8; HEADER], name: &str) -> Result<(Option<Self>, bool)> {
        let copies = header.chunks_exact(COPY);
        let is_sound = |copy: &&[u8]| &copy[..8] == MAGIC && copy[28..] == crc32c(&copy[..28]).to_le_bytes();
        let sound: Vec<&[u8]> = copies.filter(is_sound).collect();
        let Some(copy) = sound.first() else { return Ok((None, false)) };
        check_version(u16::from_le_bytes([copy[8], copy[9]]), VERSION, name)?;
        let role = if copy[10] == 0 { Role::Log } else { Role::Slice };
        let salt = Salt(u32::from_le_bytes([copy[16], copy[17], copy[18], copy[19]]));
        Ok((Some(Self { role, salt }), sound.len() == 2))
    }
}

/// Refuses files of a newer format.
pub(super) fn check_version(found: u16, known: u16, name: &str) -> Result<()> {
    if found > known {
        let message = format!(
            "{name} has format version {found}, this program knows up to {known}: use the newer Mayfly that wrote it"
        );
        return Err(Error::new(ErrorKind::UnsupportedFormat, message));
    }
    Ok(())
}

/// A file that the disk did not give.
pub(super) fn unreadable(name: &str, error: io::Error) -> Error {
    Error::new(ErrorKind::Unavailable, format!("cannot read {name}")).with_source(error)
}
