//! What a store knows about itself: sizes, segments, what will expire when, and how late expiry was noticed.

use std::time::Duration;

/// A snapshot of an embedded store's figures.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Stats {
    /// Live records.
    pub records: u64,
    /// Bytes that live records occupy (keys, values and framing).
    pub live_bytes: u64,
    /// Bytes on disk that belong to no live record and wait to be reclaimed. 0 in memory.
    pub dead_bytes: u64,
    /// The data files, oldest first. Empty in memory.
    pub segments: Vec<SegmentStats>,
    /// What will expire when.
    pub horizon: Horizon,
    /// Records that expired since the store was opened.
    pub expired: u64,
    /// How long after its deadline an expired record was let go.
    pub lateness: Lateness,
    /// Records that expired but were not acknowledged by every subscriber of the expired feed.
    pub feed_backlog: u64,
    /// Steps of the wall clock noticed since the store was opened.
    pub clock_steps: u64,
    /// Damaged places found in files since the store was opened.
    pub corruptions: u64,
}

/// One data file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentStats {
    /// Its number, which is also its name.
    pub id: u32,
    /// Its size.
    pub bytes: u64,
    /// Bytes of live records in it.
    pub live_bytes: u64,
    /// Live records in it.
    pub live_records: u64,
    /// Whether it is still written to.
    pub open: bool,
}

/// Live records and bytes by the time they have left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Horizon {
    /// From soon to late; the last two are "later" and "never".
    pub slices: Vec<HorizonSlice>,
}

/// What expires within one slice of time from now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HorizonSlice {
    /// How it is called: "1 min" holds what has at most a minute left, and more than the slice before.
    pub label: &'static str,
    /// The longest time left that belongs here; none = never expires.
    pub within: Option<Duration>,
    /// Records.
    pub records: u64,
    /// Bytes of these records.
    pub bytes: u64,
}

const SECOND: u64 = 1000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

const SLICES: [(&str, u64); 13] = [
    ("1 s", SECOND),
    ("10 s", 10 * SECOND),
    ("1 min", MINUTE),
    ("5 min", 5 * MINUTE),
    ("15 min", 15 * MINUTE),
    ("1 h", HOUR),
    ("6 h", 6 * HOUR),
    ("1 day", DAY),
    ("1 week", 7 * DAY),
    ("30 days", 30 * DAY),
    ("1 year", 365 * DAY),
    ("10 years", 3653 * DAY),
    ("later", u64::MAX),
];

impl Default for Horizon {
    fn default() -> Self {
        let timed = SLICES.iter().map(|&(label, within)| (label, Some(Duration::from_millis(within))));
        let slices = timed.chain([("never", None)]);
        Self {
            slices: slices
                .map(|(label, within)| HorizonSlice { label, within, records: 0, bytes: 0 })
                .collect(),
        }
    }
}

impl Horizon {
    /// Counts one record with so many milliseconds left, none = never.
    pub(crate) fn add(&mut self, left: Option<u64>, bytes: u64) {
        let slice = match left {
            Some(left) => SLICES.partition_point(|&(_, within)| within < left),
            None => SLICES.len(),
        };
        self.slices[slice].records += 1;
        self.slices[slice].bytes += bytes;
    }
}

/// A histogram of delays with buckets of powers of two milliseconds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Lateness {
    counts: [u64; 32],
    max: Duration,
}

impl Lateness {
    /// Counts a record that was this late.
    pub(crate) fn add(&mut self, millis: u64) {
        self.counts[(64 - millis.leading_zeros() as usize).min(31)] += 1;
        self.max = self.max.max(Duration::from_millis(millis));
    }

    /// Adds all that another histogram counted.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.counts.iter_mut().zip(other.counts).for_each(|(count, more)| *count += more);
        self.max = self.max.max(other.max);
    }

    /// An upper bound for the share `quantile` (0.0 to 1.0) of all records; exact to a factor of two.
    pub fn quantile(&self, quantile: f64) -> Duration {
        let total: u64 = self.counts.iter().sum();
        let wanted = (total as f64 * quantile).ceil() as u64;
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted && *count > 0 {
                return Duration::from_millis((1 << bucket) - 1).min(self.max);
            }
        }
        Duration::ZERO
    }

    /// The longest delay.
    pub fn max(&self) -> Duration {
        self.max
    }
}
