//! The file `feed`: who listens to the expired feed, and how far each has acknowledged.

use std::collections::BTreeMap;
use std::io;

use super::disk::Disk;
use super::varint;
use super::whole_file::WholeFile;
use crate::error::{Error, ErrorKind, Result};
use crate::feed::FeedCursor;

const FILE: WholeFile = WholeFile { name: "feed", magic: b"MAYFLYFD", version: 1 };

/// The subscribers. A damaged file is an error: to forget a subscriber would be to lose its records.
pub(super) fn load(disk: &dyn Disk, known: &[String]) -> Result<BTreeMap<String, FeedCursor>> {
    if !known.iter().any(|name| name == FILE.name) {
        return Ok(BTreeMap::new());
    }
    FILE.load(disk)?.and_then(|content| decode(&content)).ok_or_else(|| {
        let message =
            "the file `feed` is damaged: restore it, or remove it to forget who listens to the expired feed";
        Error::new(ErrorKind::Corrupt, message)
    })
}

/// Replaces the file.
pub(super) fn save(disk: &dyn Disk, subscribers: &BTreeMap<String, FeedCursor>) -> io::Result<()> {
    let mut content = FILE.begin();
    varint::put(&mut content, subscribers.len() as u64);
    for (name, cursor) in subscribers {
        varint::put(&mut content, name.len() as u64);
        content.extend_from_slice(name.as_bytes());
        for number in [cursor.relative.0, cursor.relative.1, cursor.absolute.0, cursor.absolute.1] {
            varint::put(&mut content, number);
        }
    }
    FILE.save(disk, content)
}

fn decode(mut content: &[u8]) -> Option<BTreeMap<String, FeedCursor>> {
    let content = &mut content;
    let mut subscribers = BTreeMap::new();
    for _ in 0..varint::take(content)? {
        let len = varint::take(content)? as usize;
        let (name, rest) = content.split_at_checked(len)?;
        *content = rest;
        let relative = (varint::take(content)?, varint::take(content)?);
        let absolute = (varint::take(content)?, varint::take(content)?);
        subscribers.insert(String::from_utf8(name.to_vec()).ok()?, FeedCursor { relative, absolute });
    }
    Some(subscribers)
}
