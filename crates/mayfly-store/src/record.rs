//! What is stored: keys, values, records, ranges, and their limits.
//!
//! Every type here is valid by construction, so that no backend has to check a length again.

use std::fmt;
use std::ops::Deref;

use bytes::{BufMut, Bytes, BytesMut};

use crate::error::{Error, ErrorKind, Result};
use crate::time::{Expiry, Timestamp};

/// The longest partition, in bytes.
pub const MAX_PARTITION: usize = 1024;
/// The longest sort columns, in bytes.
pub const MAX_SORT: usize = 1024;
/// The longest value, in bytes.
pub const MAX_VALUE: usize = 262_144;

/// The address of a record: a partition (1 to 1,024 bytes) and sort columns (0 to 1,024 bytes).
///
/// Both lie in one buffer, `[u16 big-endian length of partition][partition][sort]`, so that comparing buffers
/// keeps a partition together and orders it by its sort columns, bytewise and unsigned.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Bytes);

impl Key {
    /// Checks the limits and builds the key. `sort` may be empty.
    pub fn new(partition: impl AsRef<[u8]>, sort: impl AsRef<[u8]>) -> Result<Self> {
        let (partition, sort) = (partition.as_ref(), sort.as_ref());
        check_partition(partition)?;
        if sort.len() > MAX_SORT {
            return Err(too_long(ErrorKind::SortTooLong, "the sort columns", sort.len(), MAX_SORT));
        }
        let mut buffer = BytesMut::with_capacity(2 + partition.len() + sort.len());
        buffer.put_u16(partition.len() as u16);
        buffer.put_slice(partition);
        buffer.put_slice(sort);
        Ok(Self(buffer.freeze()))
    }

    /// The partition.
    pub fn partition(&self) -> &[u8] {
        &self.0[2..2 + self.partition_len()]
    }

    /// The sort columns.
    pub fn sort(&self) -> &[u8] {
        &self.0[2 + self.partition_len()..]
    }

    /// The buffer described at the type.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Takes a buffer of the layout described at the type; none if it breaks a limit.
    pub(crate) fn from_bytes(buffer: Bytes) -> Option<Self> {
        Self::is_valid(&buffer).then_some(Self(buffer))
    }

    /// Whether a buffer has the layout described at the type.
    pub(crate) fn is_valid(buffer: &[u8]) -> bool {
        let Some((partition, rest)) = buffer.split_first_chunk::<2>() else { return false };
        let partition = u16::from_be_bytes(*partition) as usize;
        let sort = rest.len().checked_sub(partition);
        (1..=MAX_PARTITION).contains(&partition) && sort.is_some_and(|sort| sort <= MAX_SORT)
    }

    fn partition_len(&self) -> usize {
        u16::from_be_bytes([self.0[0], self.0[1]]) as usize
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.partition().escape_ascii(), self.sort().escape_ascii())
    }
}

fn check_partition(partition: &[u8]) -> Result<()> {
    match partition.len() {
        0 => Err(Error::new(ErrorKind::PartitionEmpty, "the partition is empty: it needs at least 1 byte")),
        len if len > MAX_PARTITION => {
            Err(too_long(ErrorKind::PartitionTooLong, "the partition", len, MAX_PARTITION))
        }
        _ => Ok(()),
    }
}

fn too_long(kind: ErrorKind, what: &str, len: usize, limit: usize) -> Error {
    Error::new(kind, format!("{what} has {len} bytes; at most {limit} are allowed"))
}

/// The bytes of a record, 0 to 262,144. An empty value is a value, not an absence.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Value(Bytes);

impl Value {
    /// Checks the limit.
    pub fn new(bytes: impl Into<Bytes>) -> Result<Self> {
        let bytes = bytes.into();
        if bytes.len() > MAX_VALUE {
            return Err(too_long(ErrorKind::ValueTooLong, "the value", bytes.len(), MAX_VALUE));
        }
        Ok(Self(bytes))
    }

    /// The bytes themselves.
    pub fn into_bytes(self) -> Bytes {
        self.0
    }
}

impl Deref for Value {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.len() {
            len if len > 64 => write!(f, "\"{}…\" ({len} bytes)", self[..64].escape_ascii()),
            _ => write!(f, "\"{}\"", self.escape_ascii()),
        }
    }
}

/// What a point read finds: the value and its deadline, none if it has none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The value.
    pub value: Value,
    /// When it expires, in wall-clock time; none = never.
    pub expires_at: Option<Timestamp>,
}

/// What a range read and the expired feed bring: an entry with its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The address.
    pub key: Key,
    /// The value.
    pub value: Value,
    /// When it expires or expired, in wall-clock time; none = never.
    pub expires_at: Option<Timestamp>,
}

/// One unconditional write of a batch.
#[derive(Debug, Clone)]
pub struct Put {
    /// The address.
    pub key: Key,
    /// The new value.
    pub value: Value,
    /// The new expiry; it replaces the old one.
    pub expiry: Expiry,
}

impl Put {
    /// A write of one record.
    pub fn new(key: &Key, value: Value, expiry: Expiry) -> Self {
        Self { key: key.clone(), value, expiry }
    }
}

/// A part of one partition: start inclusive, finish exclusive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Range {
    partition: Bytes,
    start: Bytes,
    finish: Bytes,
}

impl Range {
    /// From `start` up to, but without, `finish`. Empty start = from the first, empty finish = to the end;
    /// start ≥ finish = nothing. The bounds may have any length, so that `prefix + 0xff…` works.
    pub fn new(
        partition: impl AsRef<[u8]>,
        start: impl AsRef<[u8]>,
        finish: impl AsRef<[u8]>,
    ) -> Result<Self> {
        check_partition(partition.as_ref())?;
        Ok(Self {
            partition: Bytes::copy_from_slice(partition.as_ref()),
            start: Bytes::copy_from_slice(start.as_ref()),
            finish: Bytes::copy_from_slice(finish.as_ref()),
        })
    }

    /// The whole partition.
    pub fn all(partition: impl AsRef<[u8]>) -> Result<Self> {
        Self::new(partition, [], [])
    }

    /// All sort columns that begin with `prefix`.
    pub fn prefix(partition: impl AsRef<[u8]>, prefix: impl AsRef<[u8]>) -> Result<Self> {
        let prefix = prefix.as_ref();
        let mut finish = prefix.to_vec();
        while finish.pop_if(|last| *last == 0xff).is_some() {}
        if let Some(last) = finish.last_mut() {
            *last += 1;
        }
        Self::new(partition, prefix, finish)
    }

    /// The partition.
    pub fn partition(&self) -> &[u8] {
        &self.partition
    }

    /// The first sort columns that belong to the range.
    pub fn start(&self) -> &[u8] {
        &self.start
    }

    /// The first sort columns that do not; empty = to the end of the partition.
    pub fn finish(&self) -> &[u8] {
        &self.finish
    }
}
