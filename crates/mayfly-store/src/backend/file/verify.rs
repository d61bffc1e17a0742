//! Checking every byte of every data file, without changing any.

use std::sync::atomic::Ordering;

use super::engine::Engine;
use super::scan::{FINISHED, Finding, walk};
use super::segment::{HEADER, Header, name_of, unreadable};
use crate::error::Result;

/// How far a check is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VerifyProgress {
    /// Bytes checked so far.
    pub bytes_done: u64,
    /// Bytes to check in all.
    pub bytes_total: u64,
}

/// What a check found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// Data files checked.
    pub segments: u64,
    /// Sound frames in them, live and dead.
    pub frames: u64,
    /// Bytes checked.
    pub bytes: u64,
    /// Places that make no sense.
    pub damaged: Vec<Damage>,
}

/// A damaged place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The file.
    pub file: String,
    /// Where in it.
    pub offset: u64,
    /// How many bytes.
    pub bytes: u64,
    /// What is wrong.
    pub reason: String,
}

/// Checks the bytes of one data file, as they would be read when a store is opened. For tools and fuzzers.
/// An error if the file is newer than this program.
pub fn inspect(name: &str, content: &[u8]) -> Result<VerifyReport> {
    let mut report = VerifyReport { segments: 1, bytes: content.len() as u64, ..VerifyReport::default() };
    let damage = |offset: usize, bytes: usize, reason: &str| Damage {
        file: name.to_owned(),
        offset: offset as u64,
        bytes: bytes as u64,
        reason: reason.to_owned(),
    };
    let Some(header) = content.first_chunk::<HEADER>() else {
        report.damaged.push(damage(0, content.len(), "the header of the file is cut off"));
        return Ok(report);
    };
    let (header, sound) = Header::decode(header, name)?;
    if !sound {
        report.damaged.push(damage(0, HEADER, "the header of the file is damaged"));
    }
    walk(content, HEADER, header.unwrap_or_default().salt, FINISHED, |finding| match finding {
        Finding::Frame { .. } => report.frames += 1,
        Finding::Damage { offset, len, reason } => report.damaged.push(damage(offset, len, reason)),
        Finding::TornTail { offset, .. } => {
            report.damaged.push(damage(offset, content.len() - offset, "the last block was not finished"));
        }
    });
    Ok(report)
}

impl Engine {
    /// Checks all segments as they are now.
    pub(super) fn verify(&self, progress: &mut dyn FnMut(VerifyProgress)) -> Result<VerifyReport> {
        let segments = self.segments.all();
        let bytes_total = segments.iter().map(|segment| segment.size.load(Ordering::Relaxed)).sum();
        let mut total = VerifyReport::default();
        for segment in segments {
            let name = name_of(segment.id);
            let mut content = vec![0; segment.size.load(Ordering::Relaxed) as usize];
            segment.file.read_exact_at(&mut content, 0).map_err(|error| unreadable(&name, error))?;
            let report = inspect(&name, &content)?;
            total.segments += 1;
            total.frames += report.frames;
            total.bytes += report.bytes;
            total.damaged.extend(report.damaged);
            progress(VerifyProgress { bytes_done: total.bytes, bytes_total });
        }
        self.corruptions.fetch_max(total.damaged.len() as u64, Ordering::Relaxed);
        Ok(total)
    }
}
