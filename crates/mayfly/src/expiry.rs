//! How deadlines are asked for (`--ttl`, `--at`, `--never`) and shown. How a ttl is written is decided in
//! `mayfly-store`, `ttl_text.rs`.

use std::fmt;

use anyhow::anyhow;
use clap::Args;
use jiff::tz::TimeZone;
use mayfly_store::{Expiry, Timestamp, Ttl};
use serde::Serialize;

/// When the record shall expire. Nothing lives for ever by accident: one of the three must be there.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Lifetime {
    /// Expire after this time: 900 (seconds), 250ms, 15m, 1h30m, 1d, 2w, or ISO 8601 such as PT15M
    #[arg(long, value_name = "TTL")]
    ttl: Option<Ttl>,

    /// Expire at this time: 2026-12-31T23:59:59Z, or @ and Unix milliseconds
    #[arg(long, value_name = "WHEN", value_parser = parse_when)]
    at: Option<Timestamp>,

    /// Do not expire
    #[arg(long)]
    never: bool,
}

impl Lifetime {
    pub(crate) fn expiry(&self) -> Expiry {
        match (self.ttl, self.at) {
            (Some(ttl), _) => Expiry::After(ttl),
            (None, Some(at)) => Expiry::At(at),
            (None, None) => Expiry::Never,
        }
    }
}

/// Reads `@<unix ms>` or RFC 3339 with a zone. What is finer than a millisecond is refused, not rounded.
fn parse_when(text: &str) -> anyhow::Result<Timestamp> {
    if let Some(millis) = text.strip_prefix('@') {
        let digits = !millis.is_empty() && millis.bytes().all(|byte| byte.is_ascii_digit());
        let millis = digits.then(|| millis.parse().ok()).flatten();
        return millis
            .map(Timestamp::from_millis)
            .ok_or_else(|| anyhow!("@ wants Unix milliseconds after it"));
    }
    let time: jiff::Timestamp = text.parse().map_err(|_| {
        anyhow!("write the time with its zone, as in 2026-12-31T23:59:59Z or 2026-12-31T23:59:59+01:00")
    })?;
    if time.as_nanosecond() % 1_000_000 != 0 {
        return Err(anyhow!("it is finer than a millisecond"));
    }
    let millis = u64::try_from(time.as_millisecond()).map_err(|_| anyhow!("it lies before 1970"))?;
    Ok(Timestamp::from_millis(millis))
}

/// A deadline as it looks at one moment; none = never.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Deadline {
    /// Unix milliseconds.
    expires_at: Option<u64>,
    /// The same in RFC 3339, UTC.
    expires: Option<String>,
    /// What is left, in milliseconds.
    left_ms: Option<u64>,
}

impl Deadline {
    pub(crate) fn new(expires_at: Option<Timestamp>, now: Timestamp) -> Self {
        let millis = expires_at.map(Timestamp::as_millis);
        Self {
            expires_at: millis,
            expires: millis.and_then(to_jiff).map(|time| format!("{time:.3}")),
            left_ms: millis.map(|millis| millis.saturating_sub(now.as_millis())),
        }
    }

    /// What is left, in whole seconds rounded up, such as `14m58s`; `never` without a deadline.
    pub(crate) fn left(&self) -> String {
        match self.left_ms {
            None => "never".to_owned(),
            Some(millis) => {
                let seconds = i64::try_from(millis.div_ceil(1000)).unwrap_or(i64::MAX);
                Ttl::from_secs(seconds).map_or_else(|_| "0s".to_owned(), |ttl| ttl.to_string())
            }
        }
    }
}

impl fmt::Display for Deadline {
    /// In the time zone of whoever reads it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.expires_at.and_then(to_jiff) {
            None => f.write_str("never expires"),
            Some(time) => {
                let time = time.to_zoned(TimeZone::system());
                write!(f, "expires {}, {} left", time.strftime("%Y-%m-%d %H:%M:%S %Z"), self.left())
            }
        }
    }
}

fn to_jiff(millis: u64) -> Option<jiff::Timestamp> {
    jiff::Timestamp::from_millisecond(i64::try_from(millis).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absolute_times_are_read_to_the_millisecond() {
        for (text, millis) in [
            ("@0", 0),
            ("@1790000000123", 1_790_000_000_123),
            ("2026-09-21T14:13:20Z", 1_790_000_000_000),
            ("2026-09-21T16:13:20.123+02:00", 1_790_000_000_123),
            ("2026-09-21 14:13:20Z", 1_790_000_000_000),
        ] {
            assert_eq!(parse_when(text).unwrap().as_millis(), millis, "{text}");
        }
    }

    #[test]
    fn times_that_are_vague_or_too_fine_are_refused() {
        for text in [
            "",
            "@",
            "@-1",
            "@+1",
            "@1.5",
            "@99999999999999999999",
            "1790000000123",
            "tomorrow",
            "2026-09-21",
            "2026-09-21T14:13:20",
            "2026-09-21T14:13:20.0001Z",
            "1969-12-31T23:59:59Z",
        ] {
            assert!(parse_when(text).is_err(), "{text}");
        }
    }

    #[test]
    fn time_left_is_rounded_up_so_that_something_alive_never_reads_zero() {
        let left =
            |at: u64| Deadline::new(Some(Timestamp::from_millis(at)), Timestamp::from_millis(10_000)).left();
        assert_eq!(left(10_001), "1s");
        assert_eq!(left(11_000), "1s");
        assert_eq!(left(11_001), "2s");
        assert_eq!(left(5_410_000), "1h30m");
        assert_eq!(left(9_000), "0s");
        assert_eq!(Deadline::new(None, Timestamp::from_millis(0)).left(), "never");
    }

    #[test]
    fn json_has_the_deadline_in_milliseconds_and_in_words() {
        let deadline = Deadline::new(
            Some(Timestamp::from_millis(1_790_000_000_000)),
            Timestamp::from_millis(1_789_999_999_500),
        );
        assert_eq!(
            serde_json::to_string(&deadline).unwrap(),
            r#"{"expires_at":1790000000000,"expires":"2026-09-21T14:13:20.000Z","left_ms":500}"#
        );
    }
}
