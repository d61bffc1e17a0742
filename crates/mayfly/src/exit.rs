//! Exit codes, documented in `docs/cli.md`. Scripts depend on them: numbers never change their meaning.

use std::fmt;
use std::io;
use std::process::ExitCode;

use mayfly_store::{Error, ErrorKind};

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done.
    Success = 0,
    /// The answer is no: absent, not inserted, not swapped, not deleted.
    Condition = 1,
    /// The command cannot be run as given.
    Usage = 2,
    /// The storage or a file cannot be used now: missing, locked, full, broken, or of a newer version.
    Unavailable = 3,
    // 4 is kept for refused credentials, once there is a server to refuse them.
    /// Stored bytes are damaged.
    Corrupt = 5,
    /// A write may or may not have been applied.
    UnknownOutcome = 6,
}

impl Exit {
    /// Success or a failed condition.
    pub(crate) fn condition(holds: bool) -> Self {
        if holds { Self::Success } else { Self::Condition }
    }

    /// What an error means to a script.
    pub(crate) fn of(error: &anyhow::Error) -> Self {
        if let Some(error) = error.downcast_ref::<Error>() {
            return Self::of_kind(error.kind());
        }
        if error.is::<Misuse>() {
            return Self::Usage;
        }
        match error.downcast_ref::<io::Error>() {
            // Whoever reads our output has seen enough: `mayfly scan … | head` is no failure.
            Some(error) if error.kind() == io::ErrorKind::BrokenPipe => Self::Success,
            _ => Self::Unavailable,
        }
    }

    fn of_kind(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::PartitionEmpty
            | ErrorKind::PartitionTooLong
            | ErrorKind::SortTooLong
            | ErrorKind::ValueTooLong
            | ErrorKind::InvalidTtl
            | ErrorKind::InvalidArgument => Self::Usage,
            ErrorKind::Corrupt => Self::Corrupt,
            ErrorKind::UnknownOutcome => Self::UnknownOutcome,
            _ => Self::Unavailable,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Arguments that make no sense, found after clap has accepted their shape.
#[derive(Debug)]
pub(crate) struct Misuse(String);

impl Misuse {
    /// Says what is wrong, and how it should be.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

impl fmt::Display for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Misuse {}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(error: impl Into<anyhow::Error>, exit: Exit) {
        assert_eq!(Exit::of(&error.into()), exit);
    }

    #[test]
    fn each_kind_of_error_has_its_code() {
        for (kind, exit) in [
            (ErrorKind::ValueTooLong, Exit::Usage),
            (ErrorKind::InvalidTtl, Exit::Usage),
            (ErrorKind::Locked, Exit::Unavailable),
            (ErrorKind::DiskFull, Exit::Unavailable),
            (ErrorKind::UnsupportedFormat, Exit::Unavailable),
            (ErrorKind::Corrupt, Exit::Corrupt),
            (ErrorKind::UnknownOutcome, Exit::UnknownOutcome),
        ] {
            check(Error::new(kind, "x"), exit);
        }
        check(Misuse::new("x"), Exit::Usage);
        check(io::Error::from(io::ErrorKind::BrokenPipe), Exit::Success);
        check(io::Error::from(io::ErrorKind::PermissionDenied), Exit::Unavailable);
    }
}
