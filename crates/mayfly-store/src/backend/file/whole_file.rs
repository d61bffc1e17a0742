//! Files that are written whole: replaced atomically, and believed only if their checksum fits.

use std::io;

use crc32c::crc32c;

use super::disk::Disk;
use super::segment::{check_version, unreadable};
use crate::error::Result;

const HEADER: usize = 16;

/// A kind of whole file.
#[derive(Debug, Clone, Copy)]
pub(super) struct WholeFile {
    pub(super) name: &'static str,
    pub(super) magic: &'static [u8; 8],
    pub(super) version: u16,
}

impl WholeFile {
    /// The content, or none if the file is missing or damaged.
    pub(super) fn load(&self, disk: &dyn Disk) -> Result<Option<Vec<u8>>> {
        let file = match disk.open(self.name) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(unreadable(self.name, error)),
        };
        let mut content = file.read_all().map_err(|error| unreadable(self.name, error))?;
        if content.len() < HEADER + 4 || &content[..8] != self.magic {
            return Ok(None);
        }
        let end = content.len() - 4;
        if content[end..] != crc32c(&content[..end]).to_le_bytes() {
            return Ok(None);
        }
        check_version(u16::from_le_bytes([content[8], content[9]]), self.version, self.name)?;
        content.truncate(end);
        content.drain(..HEADER);
        Ok(Some(content))
    }

    /// An empty buffer to append the content to and to [`save`](Self::save).
    pub(super) fn begin(&self) -> Vec<u8> {
        let mut content = Vec::with_capacity(256);
        content.extend_from_slice(self.magic);
        content.extend_from_slice(&self.version.to_le_bytes());
        content.resize(HEADER, 0);
        content
    }

    /// Puts the content in the file's place, durably.
    pub(super) fn save(&self, disk: &dyn Disk, mut content: Vec<u8>) -> io::Result<()> {
        let crc = crc32c(&content);
        content.extend_from_slice(&crc.to_le_bytes());
        let temporary = format!("{}.tmp", self.name);
        let file = disk.create(&temporary)?;
        let written = file.write_all_at(&content, 0).and_then(|()| file.sync_data());
        if let Err(error) = written {
            // It would only take up room; if it cannot be removed now, recovery will.
            let _ = disk.remove(&temporary);
            return Err(error);
        }
        disk.rename(&temporary, self.name)?;
        disk.sync_dir()
    }

    /// Removes the file, durably, if it is there.
    pub(super) fn remove(&self, disk: &dyn Disk) -> io::Result<()> {
        match disk.remove(self.name) {
            Ok(()) => disk.sync_dir(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }
}
