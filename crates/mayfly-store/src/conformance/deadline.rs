//! When a record expires, as far as somebody can know who only sees calls begin and end.

use std::time::Duration;

use crate::time::{Expiry, Moment, Timestamp};

/// Relative deadlines count whole milliseconds, so a store may round the moment it wrote in, up or down. On a clock
/// that only shows whole milliseconds there is nothing to round.
const GRAIN: Duration = Duration::from_millis(1);

/// The deadline of a record that was written between two moments.
#[derive(Debug, Clone, Copy)]
pub(super) enum Deadline {
    /// None.
    Never,
    /// On boot time, somewhere between two moments; the wall times are what `expires_at` may say.
    Relative { earliest: Moment, latest: Moment },
    /// On the wall clock, exactly.
    Absolute(Timestamp),
}

impl Deadline {
    /// The deadline that a write with `expiry` sets if it happened between `began` and `ended`.
    pub(super) fn of(expiry: Expiry, began: Moment, ended: Moment, exact: bool) -> Self {
        match expiry {
            Expiry::Never => Self::Never,
            Expiry::After(ttl) => {
                let ttl = Duration::from_millis(ttl.as_millis());
                let rounding = if exact { Duration::ZERO } else { GRAIN };
                Self::Relative { earliest: later(began, ttl), latest: later(ended, ttl + rounding) }
            }
            Expiry::At(at) => Self::Absolute(at),
        }
    }

    /// Whether the record must still have been alive at all times up to `now`.
    pub(super) fn is_surely_ahead(&self, now: Moment) -> bool {
        match self {
            Self::Never => true,
            Self::Relative { earliest, .. } => now.boot + GRAIN <= earliest.boot,
            Self::Absolute(at) => now.wall < *at,
        }
    }

    /// Whether the record must have been expired at all times from `now` on.
    pub(super) fn has_surely_passed(&self, now: Moment) -> bool {
        match self {
            Self::Never => false,
            Self::Relative { latest, .. } => now.boot >= latest.boot,
            Self::Absolute(at) => now.wall >= *at,
        }
    }

    /// How long from `now` until it has surely passed.
    pub(super) fn surely_passes_in(&self, now: Moment) -> Duration {
        match self {
            Self::Never => Duration::MAX,
            Self::Relative { latest, .. } => latest.boot.saturating_sub(now.boot),
            Self::Absolute(at) => Duration::from_millis(at.as_millis().saturating_sub(now.wall.as_millis())),
        }
    }

    /// Whether a read may report `expires_at`; clocks that run by themselves are not read at one instant, which
    /// `slack` allows for.
    pub(super) fn may_read(&self, expires_at: Option<Timestamp>, slack: Duration) -> bool {
        let slack = slack.as_millis() as u64;
        match (self, expires_at.map(Timestamp::as_millis)) {
            (Self::Never, found) => found.is_none(),
            (_, None) => false,
            (Self::Relative { earliest, latest }, Some(found)) => {
                found + slack >= earliest.wall.as_millis() && found <= latest.wall.as_millis() + slack
            }
            (Self::Absolute(at), Some(found)) => found == at.as_millis(),
        }
    }
}

fn later(moment: Moment, by: Duration) -> Moment {
    Moment {
        wall: Timestamp::from_millis(moment.wall.as_millis() + by.as_millis() as u64),
        boot: moment.boot + by,
    }
}
