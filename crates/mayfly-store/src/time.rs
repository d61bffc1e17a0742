//! Time: the newtypes, the injected [`Clock`], and the only place that reads the system's clocks.
//!
//! Two clocks are read together. The wall clock says what time it is and may step; boot time never steps and
//! counts suspends, which `std::time::Instant` does not. How a store combines them is in `timeline.rs`.

use std::fmt;
use std::num::NonZeroU64;
use std::sync::Weak;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::error::{Error, ErrorKind, Result};

/// The longest time to live, 100 years of 365.25 days.
pub const MAX_TTL: Duration = Duration::from_secs(100 * 31_557_600);

/// A point in wall-clock time: Unix milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    /// From Unix milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// Unix milliseconds.
    pub const fn as_millis(self) -> u64 {
        self.0
    }
}

/// How long a record lives: a positive whole number of milliseconds, at most [`MAX_TTL`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ttl(NonZeroU64);

impl Ttl {
    /// From milliseconds; zero and more than 100 years are refused.
    pub fn from_millis(millis: u64) -> Result<Self> {
        NonZeroU64::new(millis).filter(|ms| ms.get() <= MAX_TTL.as_millis() as u64).map(Self).ok_or_else(
            || {
                Error::new(
                    ErrorKind::InvalidTtl,
                    format!(
                        "a ttl of {millis} ms is out of range: it must be at least 1 ms and at most 100 years"
                    ),
                )
            },
        )
    }

    /// From whole seconds, as the Voedger-shaped operations count; zero and below are refused.
    pub fn from_secs(secs: i64) -> Result<Self> {
        u64::try_from(secs).ok().and_then(|secs| secs.checked_mul(1000)).map_or_else(
            || {
                Err(Error::new(
                    ErrorKind::InvalidTtl,
                    format!(
                        "a ttl of {secs} s is out of range: it must be at least 1 s and at most 100 years"
                    ),
                ))
            },
            Self::from_millis,
        )
    }

    /// Milliseconds, never zero.
    pub const fn as_millis(self) -> u64 {
        self.0.get()
    }

    /// Whole seconds, rounded up, so that something alive never reads 0.
    pub const fn as_secs_ceil(self) -> u64 {
        self.0.get().div_ceil(1000)
    }
}

impl TryFrom<Duration> for Ttl {
    type Error = Error;

    /// Refuses what is not a whole number of milliseconds instead of rounding it.
    fn try_from(duration: Duration) -> Result<Self> {
        if !duration.subsec_nanos().is_multiple_of(1_000_000) {
            let message = format!("a ttl of {duration:?} is not a whole number of milliseconds");
            return Err(Error::new(ErrorKind::InvalidTtl, message));
        }
        Self::from_millis(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
    }
}

/// When a record that is being written shall expire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expiry {
    /// Not at all, until somebody deletes it.
    Never,
    /// After this time, counted on boot time: a wall clock that steps does not move it.
    After(Ttl),
    /// When the wall clock shows this time, steps included. It must lie ahead, by at most 100 years. (While the
    /// clock is behind the latest time it has shown, times up to that one count on boot time.)
    At(Timestamp),
}

impl From<Ttl> for Expiry {
    fn from(ttl: Ttl) -> Self {
        Self::After(ttl)
    }
}

/// Both clocks, read at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// What the wall clock shows. It may have stepped since the last reading.
    pub wall: Timestamp,
    /// Time since some fixed point, suspends included. It never goes back.
    pub boot: Duration,
}

/// Where time comes from. Everything in Mayfly gets one; nothing reads the system's clock by itself.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// Reads both clocks.
    fn now(&self) -> Moment;

    /// Asks to ring `alarm` whenever this clock is moved by hand. Real clocks just run and never ring.
    fn ring_when_moved(&self, alarm: Weak<Alarm>);
}

/// The system's clocks.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the system's clocks")]
    fn now(&self) -> Moment {
        use rustix::time::{ClockId, clock_gettime};
        let boot = clock_gettime(ClockId::Boottime);
        let wall = clock_gettime(ClockId::Realtime);
        Moment {
            wall: Timestamp((wall.tv_sec.max(0) as u64) * 1000 + wall.tv_nsec as u64 / 1_000_000),
            boot: Duration::new(boot.tv_sec.max(0) as u64, boot.tv_nsec as u32),
        }
    }

    fn ring_when_moved(&self, _alarm: Weak<Alarm>) {}
}

/// A clock that stands still until a test moves it.
#[derive(Debug)]
pub struct ManualClock {
    state: Mutex<ManualState>,
}

#[derive(Debug)]
struct ManualState {
    now: Moment,
    alarms: Vec<Weak<Alarm>>,
}

impl ManualClock {
    /// A clock whose wall shows `wall`.
    pub fn at(wall: Timestamp) -> Self {
        let now = Moment { wall, boot: Duration::from_secs(1) };
        Self { state: Mutex::new(ManualState { now, alarms: Vec::new() }) }
    }

    /// Lets `duration` pass on both clocks.
    pub fn advance(&self, duration: Duration) {
        self.change(|now| {
            now.wall = Timestamp(now.wall.0.saturating_add(duration.as_millis() as u64));
            now.boot += duration;
        });
    }

    /// Sets the wall clock, as an administrator or NTP would; boot time does not notice.
    pub fn set_wall(&self, wall: Timestamp) {
        self.change(|now| now.wall = wall);
    }

    fn change(&self, change: impl FnOnce(&mut Moment)) {
        let mut state = self.state.lock();
        change(&mut state.now);
        state.alarms.retain(|alarm| alarm.upgrade().is_some_and(|alarm| alarm.ring()));
    }
}

impl Default for ManualClock {
    /// A clock somewhere in 2026.
    fn default() -> Self {
        Self::at(Timestamp(1_790_000_000_000))
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Moment {
        self.state.lock().now
    }

    fn ring_when_moved(&self, alarm: Weak<Alarm>) {
        self.state.lock().alarms.push(alarm);
    }
}

/// What a background thread sleeps on: it wakes when somebody rings, or after a while.
#[derive(Debug, Default)]
pub struct Alarm {
    rung: Mutex<bool>,
    condvar: Condvar,
}

impl Alarm {
    /// Wakes the sleeper, or makes its next [`wait`](Self::wait) return at once. Always true.
    pub fn ring(&self) -> bool {
        *self.rung.lock() = true;
        self.condvar.notify_one();
        true
    }

    /// Sleeps until rung or until `at_most` has passed.
    pub(crate) fn wait(&self, at_most: Duration) {
        let mut rung = self.rung.lock();
        if !*rung {
            self.condvar.wait_for(&mut rung, at_most);
        }
        *rung = false;
    }
}
