//! The two-clock rule: one line of time that never steps, anchored to the wall clock when a store opens.
//!
//! Relative deadlines lie on the line, so a wall clock that steps during a run does not move them. Absolute
//! deadlines lie on the wall clock. Across restarts the line continues from the wall clock, or from the latest
//! time seen on disk if the wall clock was set back meanwhile: nothing that had expired comes back.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::deadline::{Deadline, MAX_MILLIS};
use crate::error::{Error, ErrorKind, Result};
use crate::time::{Alarm, Clock, Expiry, MAX_TTL, Timestamp};

/// How often a running file store notes the time on disk: the most that a crash can leave unseen.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(1);

/// Wall and line may drift apart by slewing; more than this at once is a step.
const STEP: u64 = 500;

/// The present, on both clocks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Now {
    pub(crate) line: u64,
    pub(crate) wall: u64,
    /// The line rounded up to a whole millisecond, from which a ttl is counted so that it never ends early.
    pub(crate) ceiling: u64,
}

impl Now {
    /// The earlier of two readings, clock by clock.
    pub(crate) fn at_most(self, other: Self) -> Self {
        Self {
            line: self.line.min(other.line),
            wall: self.wall.min(other.wall),
            ceiling: self.ceiling.min(other.ceiling),
        }
    }

    /// Before anything: for setting timers that will be set anew.
    pub(crate) const ZERO: Self = Self { line: 0, wall: 0, ceiling: 0 };
}

/// The latest times that are known to have been seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Marks {
    pub(crate) line: u64,
    pub(crate) wall: u64,
}

/// What a store remembers of its last run.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LastRun {
    pub(crate) latest: Marks,
    /// What both clocks showed at one moment, shortly before the end: from there the wall clock tells how long
    /// the store was closed, whatever it did during the run.
    pub(crate) together: Option<Marks>,
    /// Whether `together` is the very end.
    pub(crate) closed_cleanly: bool,
}

#[derive(Debug)]
pub(crate) struct Timeline {
    clock: Arc<dyn Clock>,
    anchor_line: u64,
    anchor_boot: Duration,
    /// Wall minus line, as deadlines are translated. It follows the clocks when they have drifted far apart.
    offset: AtomicI64,
    /// Wall minus line, when the clocks were last read.
    observed: AtomicI64,
    latest_wall: AtomicU64,
    steps: AtomicU64,
    shifts: AtomicU64,
    /// Held by the thread that decides whether the wall clock has stepped.
    stepping: Mutex<()>,
}

impl Timeline {
    /// Starts the line where the last run ended, plus the time since.
    pub(crate) fn start(clock: Arc<dyn Clock>, last: LastRun) -> Result<Self> {
        let now = clock.now();
        let wall = now.wall.as_millis();
        let furthest = MAX_MILLIS - 2 * MAX_TTL.as_millis() as u64;
        if wall.max(last.latest.line) > furthest {
            let message =
                format!("the clock shows {wall} ms since 1970; at most {furthest} can be handled: set it");
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
        let together = last.together.unwrap_or(last.latest);
        let continued = match wall.checked_sub(together.wall) {
            Some(closed_for) if last.together.is_some() => together.line + closed_for,
            Some(_) => wall,
            // Set back meanwhile: no time is known to have passed but what a crash left unnoticed.
            None if last.closed_cleanly => together.line,
            None => together.line + HEARTBEAT.as_millis() as u64,
        };
        let set_back = together.wall > wall + STEP;
        if set_back {
            let by_ms = together.wall - wall;
            tracing::warn!(by_ms, "the wall clock was set back while the store was closed");
        }
        let anchor_line = continued.max(last.latest.line);
        let offset = wall as i64 - anchor_line as i64;
        Ok(Self {
            clock,
            anchor_line,
            anchor_boot: now.boot,
            offset: AtomicI64::new(offset),
            observed: AtomicI64::new(offset),
            latest_wall: AtomicU64::new(last.latest.wall.max(wall)),
            steps: AtomicU64::new(set_back.into()),
            shifts: AtomicU64::new(0),
            stepping: Mutex::new(()),
        })
    }

    pub(crate) fn now(&self) -> Now {
        let moment = self.clock.now();
        let elapsed = moment.boot.saturating_sub(self.anchor_boot);
        let line = self.anchor_line + elapsed.as_millis() as u64;
        let ceiling = line + u64::from(!elapsed.subsec_nanos().is_multiple_of(1_000_000));
        let wall = moment.wall.as_millis();
        if wall > self.latest_wall.load(Ordering::Relaxed) {
            self.latest_wall.fetch_max(wall, Ordering::Relaxed);
        }
        let observed = (wall as i64).wrapping_sub(line as i64);
        if self.observed.load(Ordering::Relaxed) != observed {
            self.compare_clocks(observed);
        }
        Now { line, wall, ceiling }
    }

    /// The clocks have moved against each other: by slewing, which only shifts translations once it has added
    /// up, or by a step. What looks like a step may be a reading from before the last one, so it is read again,
    /// by one thread at a time.
    fn compare_clocks(&self, observed: i64) {
        let before = self.observed.load(Ordering::Relaxed);
        if before.abs_diff(observed) <= STEP {
            let relaxed = Ordering::Relaxed;
            if self.observed.compare_exchange(before, observed, relaxed, relaxed).is_ok() {
                self.follow(observed);
            }
            return;
        }
        let _one_at_a_time = self.stepping.lock();
        let moment = self.clock.now();
        let line = self.anchor_line + moment.boot.saturating_sub(self.anchor_boot).as_millis() as u64;
        let observed = (moment.wall.as_millis() as i64).wrapping_sub(line as i64);
        let before = self.observed.swap(observed, Ordering::Relaxed);
        if before.abs_diff(observed) > STEP {
            self.steps.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(by_ms = observed.wrapping_sub(before), "the wall clock stepped");
        }
        self.follow(observed);
    }

    /// Translates deadlines by the new difference once it is far from the one in use.
    fn follow(&self, observed: i64) {
        if self.offset.load(Ordering::Relaxed).abs_diff(observed) > STEP {
            self.offset.store(observed, Ordering::Relaxed);
            self.shifts.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How often the wall clock has stepped.
    pub(crate) fn steps(&self) -> u64 {
        self.steps.load(Ordering::Relaxed)
    }

    /// How often translations between the clocks have changed.
    pub(crate) fn shifts(&self) -> u64 {
        self.shifts.load(Ordering::Relaxed)
    }

    /// The latest times, for the disk.
    pub(crate) fn marks(&self, now: Now) -> Marks {
        Marks { line: now.line, wall: self.latest_wall.load(Ordering::Relaxed) }
    }

    /// What both clocks show at one moment, for the next run to continue from.
    pub(crate) fn together(&self, now: Now) -> Marks {
        // Each clock is cut to whole milliseconds at its own place, so half of the readings are one apart. That is
        // no drift: noted as such, it would move every deadline a little further with every run.
        let translated = now.line.saturating_add_signed(self.offset.load(Ordering::Relaxed));
        let wall = if now.wall.abs_diff(translated) <= 1 { translated } else { now.wall };
        Marks { line: now.line, wall }
    }

    /// Has `alarm` rung when somebody moves the clock by hand.
    pub(crate) fn ring_when_moved(&self, alarm: &Arc<Alarm>) {
        self.clock.ring_when_moved(Arc::downgrade(alarm));
    }

    /// Turns what a caller asked for into a deadline, or refuses it.
    pub(crate) fn deadline(&self, expiry: Expiry, now: Now) -> Result<Deadline> {
        match expiry {
            Expiry::Never => Ok(Deadline::NEVER),
            Expiry::After(ttl) => Ok(Deadline::relative((now.ceiling + ttl.as_millis()).min(MAX_MILLIS))),
            Expiry::At(at) => {
                let ahead = at.as_millis().saturating_sub(now.wall);
                if ahead == 0 || u128::from(ahead) > MAX_TTL.as_millis() || at.as_millis() > MAX_MILLIS {
                    let (at, wall) = (at.as_millis(), now.wall);
                    let message =
                        format!("a deadline at {at} ms must lie after now ({wall} ms), by at most 100 years");
                    return Err(Error::new(ErrorKind::InvalidTtl, message));
                }
                // A time that the wall clock has shown already counts as passed after a restart. If the clock
                // was set back and the time lies ahead again, it is kept on the line instead.
                if at.as_millis() <= self.latest_wall.load(Ordering::Relaxed) {
                    return Ok(Deadline::relative((now.ceiling + ahead).min(MAX_MILLIS)));
                }
                Ok(Deadline::absolute(at.as_millis()))
            }
        }
    }

    /// What the wall clock will show, as far as is known now, when a deadline passes.
    pub(crate) fn expires_at(&self, deadline: Deadline) -> Option<Timestamp> {
        let offset = if deadline.is_absolute() { 0 } else { self.offset.load(Ordering::Relaxed) };
        (!deadline.is_never())
            .then(|| Timestamp::from_millis(deadline.millis().saturating_add_signed(offset)))
    }

    /// When a deadline passes or passed, on the line: the order in which the feed reports.
    pub(crate) fn on_line(&self, deadline: Deadline) -> u64 {
        let offset = if deadline.is_absolute() { self.offset.load(Ordering::Relaxed) } else { 0 };
        deadline.millis().saturating_add_signed(offset.saturating_neg())
    }
}
