//! The file `clock`: the latest times seen, so that a clock set back while the store is closed resurrects
//! nothing, and whether the store was closed cleanly. Two slots are written in turn; one always survives.

use std::io;
use std::sync::Arc;

use crc32c::crc32c;

use super::super::embedded::timeline::Marks;
use super::disk::{Disk, DiskFile};
use super::segment::{check_version, unreadable};
use crate::error::Result;

const NAME: &str = "clock";
const MAGIC: &[u8; 4] = b"MFCK";
const VERSION: u16 = 1;
const SLOT: usize = 64;

#[derive(Debug)]
pub(super) struct ClockFile {
    file: Arc<dyn DiskFile>,
    /// Counts writes; the slot of a write is its parity.
    turn: u64,
}

/// What the file said.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Noted {
    /// What both clocks showed when it was written; none if nothing is known.
    pub(super) together: Option<Marks>,
    pub(super) latest_wall: u64,
    pub(super) clean: bool,
    turn: u64,
}

impl ClockFile {
    /// Reads the file, or makes it.
    pub(super) fn open(disk: &dyn Disk, known: &[String]) -> Result<(Self, Noted)> {
        let failed = |error| unreadable(NAME, error);
        if !known.iter().any(|name| name == NAME) {
            let file = disk.create(NAME).map_err(failed)?;
            disk.sync_dir().map_err(failed)?;
            return Ok((Self { file, turn: 0 }, Noted::default()));
        }
        let file = disk.open(NAME).map_err(failed)?;
        let content = file.read_all().map_err(failed)?;
        let mut noted = Noted::default();
        for slot in content.chunks_exact(SLOT) {
            if let Some(found) = decode(slot)?.filter(|found| found.turn >= noted.turn) {
                noted = found;
            }
        }
        Ok((Self { file, turn: noted.turn }, noted))
    }

    /// Notes the time.
    pub(super) fn note(&mut self, now: Marks, latest_wall: u64, clean: bool, sync: bool) -> io::Result<()> {
        self.turn += 1;
        let slot = encode(now, latest_wall, clean, self.turn);
        self.file.write_all_at(&slot, (self.turn % 2) * SLOT as u64)?;
        if sync { self.file.sync_data() } else { Ok(()) }
    }
}

fn encode(now: Marks, latest_wall: u64, clean: bool, turn: u64) -> [u8; SLOT] {
    let mut slot = [0; SLOT];
    slot[..4].copy_from_slice(MAGIC);
    slot[4..6].copy_from_slice(&VERSION.to_le_bytes());
    slot[6] = clean.into();
    slot[8..16].copy_from_slice(&turn.to_le_bytes());
    slot[16..24].copy_from_slice(&now.line.to_le_bytes());
    slot[24..32].copy_from_slice(&now.wall.to_le_bytes());
    slot[32..40].copy_from_slice(&latest_wall.to_le_bytes());
    let crc = crc32c(&slot[..60]);
    slot[60..].copy_from_slice(&crc.to_le_bytes());
    slot
}

fn decode(slot: &[u8]) -> Result<Option<Noted>> {
    if &slot[..4] != MAGIC || slot[60..] != crc32c(&slot[..60]).to_le_bytes() {
        return Ok(None);
    }
    check_version(u16::from_le_bytes([slot[4], slot[5]]), VERSION, NAME)?;
    let long = |at: usize| u64::from_le_bytes(slot[at..at + 8].try_into().expect("eight bytes"));
    Ok(Some(Noted {
        together: Some(Marks { line: long(16), wall: long(24) }),
        latest_wall: long(32),
        clean: slot[6] != 0,
        turn: long(8),
    }))
}
