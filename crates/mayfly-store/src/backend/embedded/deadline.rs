//! A deadline in eight bytes: milliseconds, which clock they are on, and whether a write is under way.

use super::timeline::Now;

const MILLIS: u64 = (1 << 56) - 1;
const ABSOLUTE: u64 = 1 << 62;
const PENDING: u64 = 1 << 63;

/// The largest time that a deadline can hold, far beyond any clock that is set.
pub(crate) const MAX_MILLIS: u64 = MILLIS - 1;

/// When a record expires, as the index keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Deadline(u64);

impl Deadline {
    /// Never.
    pub(crate) const NEVER: Self = Self(MILLIS);

    /// On the line: `Expiry::After`.
    pub(crate) fn relative(millis: u64) -> Self {
        debug_assert!(millis <= MAX_MILLIS, "timeline.rs refuses later times");
        Self(millis.min(MAX_MILLIS))
    }

    /// On the wall clock: `Expiry::At`.
    pub(crate) fn absolute(millis: u64) -> Self {
        Self(Self::relative(millis).0 | ABSOLUTE)
    }

    pub(crate) fn is_never(self) -> bool {
        self.0 & MILLIS == MILLIS
    }

    pub(crate) fn is_absolute(self) -> bool {
        self.0 & ABSOLUTE != 0
    }

    /// The time on whichever clock it is; larger than any time for never.
    pub(crate) fn millis(self) -> u64 {
        if self.is_never() { u64::MAX } else { self.0 & MILLIS }
    }

    /// Whether it has passed. The boundary belongs to the dead.
    pub(crate) fn is_past(self, now: Now) -> bool {
        self.millis() <= if self.is_absolute() { now.wall } else { now.line }
    }

    /// Milliseconds left; 0 once passed, none for never.
    pub(crate) fn left(self, now: Now) -> Option<u64> {
        let clock = if self.is_absolute() { now.wall } else { now.line };
        (!self.is_never()).then(|| self.millis().saturating_sub(clock))
    }

    /// Milliseconds left for whoever asks: never more than was given, never 0 while it lives; none for never.
    pub(crate) fn remaining(self, now: Now) -> Option<u64> {
        let clock = if self.is_absolute() { now.wall } else { now.ceiling };
        (!self.is_never()).then(|| self.millis().saturating_sub(clock).max(1))
    }

    /// When it passes on the line if the wall clock does not step: what timers go by.
    pub(crate) fn on_line(self, now: Now) -> u64 {
        self.left(now).map_or(u64::MAX, |left| now.line + left)
    }

    /// Whether a committed write to this record waits for the disk. Such a record must not be reaped: the
    /// write was decided while it lived.
    pub(crate) fn is_pending(self) -> bool {
        self.0 & PENDING != 0
    }

    /// For files: whatever [`from_bits`](Self::from_bits) needs. Writes under way are not part of it.
    pub(crate) fn to_bits(self) -> u64 {
        self.0 & (MILLIS | ABSOLUTE)
    }

    pub(crate) fn from_bits(bits: u64) -> Self {
        Self(bits & (MILLIS | ABSOLUTE))
    }

    pub(crate) fn with_pending(self, pending: bool) -> Self {
        if pending { Self(self.0 | PENDING) } else { Self(self.0 & !PENDING) }
    }
}
