//! The one error type of the contract: a kind to act on, a message to read, a source to dig into.
//!
//! Absent, expired and lost-the-race are results, not errors: they live in the return types of `store.rs`.

use std::error::Error as StdError;
use std::fmt;

/// What went wrong, as far as a caller would behave differently. Each variant says what to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The partition is empty. Give it at least one byte.
    PartitionEmpty,
    /// The partition is longer than [`MAX_PARTITION`](crate::MAX_PARTITION). Shorten or hash it.
    PartitionTooLong,
    /// The sort columns are longer than this backend takes. Shorten or hash them.
    SortTooLong,
    /// The value is longer than [`MAX_VALUE`](crate::MAX_VALUE). Split it, as the blob recipe does.
    ValueTooLong,
    /// A time to live of zero, below zero, over 100 years, or a deadline that has passed already.
    InvalidTtl,
    /// An argument other than key, value and time to live is out of its range.
    InvalidArgument,
    /// The disk is full. Nothing acknowledged is lost; the write was not applied. Make room and try again.
    DiskFull,
    /// The storage does not answer or answered with an I/O error. The write was not applied; try again later.
    Unavailable,
    /// A write may or may not have been applied. Read before you decide; never repeat it blindly.
    UnknownOutcome,
    /// Stored bytes do not match their checksum. They are kept for inspection; other records are unaffected.
    Corrupt,
    /// Another process has this data directory open. Stop it, or use its server.
    Locked,
    /// Files were written by a newer version of Mayfly. Upgrade; nothing was touched.
    UnsupportedFormat,
    /// The store was closed. Open it again.
    Closed,
}

/// An error of a store: what kind it is, what happened, and what caused it.
pub struct Error {
    kind: ErrorKind,
    message: String,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

/// The result of a store operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error without a deeper cause.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), source: None }
    }

    /// Attaches the cause.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// The kind, to branch on.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The same error for another caller who waited for the same thing: kind and text, the cause as text.
    pub(crate) fn duplicate(&self) -> Self {
        Self { kind: self.kind, message: self.to_string(), source: None }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.source {
            Some(source) => write!(f, ": {source}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.kind)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_ref().map(|source| &**source as _)
    }
}
