//! How a time to live is written: `900`, `15m`, `1h30m`, `PT15M`. Parsing is pure and exact.
//!
//! A text that cannot be honoured to the millisecond is refused, never clamped or rounded. Months and years
//! have no fixed length, so there are none; `m` is always minutes.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, ErrorKind};
use crate::time::Ttl;

/// Milliseconds per unit, from long to short: the order in which a text must name them.
const UNITS: [(&str, u64); 6] =
    [("w", 7 * 86_400_000), ("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];

/// The same for the part of an ISO 8601 duration before the `T`, and for the part after it.
const ISO_DATE: [(&str, u64); 2] = [("W", 7 * 86_400_000), ("D", 86_400_000)];
const ISO_TIME: [(&str, u64); 3] = [("H", 3_600_000), ("M", 60_000), ("S", 1000)];

impl FromStr for Ttl {
    type Err = Error;

    /// Reads whole seconds (`900`), numbers with units from long to short (`w d h m s ms`: `15m`, `1h30m`), or an
    /// ISO 8601 duration without years and months (`PT15M`, `P1DT12H`, `PT0.5S`).
    fn from_str(text: &str) -> Result<Self, Error> {
        let millis = millis_of(text).map_err(|reason| refuse(text, &reason))?;
        Self::from_millis(millis).map_err(|_| refuse(text, "it must be at least 1 ms and at most 100 years"))
    }
}

impl fmt::Display for Ttl {
    /// Writes a text that reads back as the same time to live, such as `1h30m`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut left = self.as_millis();
        let mut text = String::new();
        for (unit, millis) in UNITS {
            // Weeks are read but not written: people think of 10d, not of 1w3d.
            if unit != "w" && left >= millis {
                text.push_str(&format!("{}{unit}", left / millis));
                left %= millis;
            }
        }
        f.pad(&text)
    }
}

fn refuse(text: &str, reason: &str) -> Error {
    Error::new(ErrorKind::InvalidTtl, format!("\"{}\" is not a ttl: {reason}", text.escape_debug()))
}

fn millis_of(text: &str) -> Result<u64, String> {
    if text.is_empty() {
        return Err("it is empty; write 900, 15m, 1h30m or PT15M".to_owned());
    }
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return in_millis(text, 1000);
    }
    match text.strip_prefix('P') {
        Some(iso) => iso_millis(iso),
        None => sum(text, &UNITS, "the units are w d h m s ms, from long to short, as in 15m or 1h30m"),
    }
}

fn iso_millis(iso: &str) -> Result<u64, String> {
    let hint = "an ISO 8601 duration looks like PT15M or P1DT12H, without years and months";
    let (date, time) = iso.split_once('T').map_or((iso, None), |(date, time)| (date, Some(time)));
    if time == Some("") || (date.is_empty() && time.is_none()) {
        return Err(hint.to_owned());
    }
    let date = sum(date, &ISO_DATE, hint)?;
    let time = sum(time.unwrap_or(""), &ISO_TIME, hint)?;
    date.checked_add(time).ok_or_else(too_long)
}

/// Adds up `<number><unit>` pairs whose units come in the order of `units`, each at most once.
fn sum(mut text: &str, units: &[(&str, u64)], hint: &str) -> Result<u64, String> {
    let mut total = 0u64;
    let mut allowed = units;
    while !text.is_empty() {
        let (number, rest) = text.split_at(end_of(text, |byte| byte.is_ascii_digit() || byte == b'.'));
        let (unit, rest) = rest.split_at(end_of(rest, |byte| byte.is_ascii_alphabetic()));
        let place = allowed.iter().position(|(name, _)| *name == unit);
        let (Some(place), false) = (place, number.is_empty()) else { return Err(hint.to_owned()) };
        let millis = match number.split_once('.') {
            Some((whole, fraction)) if unit == "S" => seconds_with_fraction(whole, fraction)?,
            Some(_) => return Err(format!("{number}{unit} is not a whole number; {hint}")),
            None => in_millis(number, allowed[place].1)?,
        };
        total = total.checked_add(millis).ok_or_else(too_long)?;
        allowed = &allowed[place + 1..];
        text = rest;
    }
    Ok(total)
}

/// The length of the longest beginning whose bytes all fit; texts are cut only between ASCII and the rest.
fn end_of(text: &str, fits: impl Fn(u8) -> bool) -> usize {
    text.bytes().position(|byte| !fits(byte)).unwrap_or(text.len())
}

fn seconds_with_fraction(whole: &str, fraction: &str) -> Result<u64, String> {
    let bad = || format!("{whole}.{fraction} s is not a whole number of milliseconds");
    let (millis, finer) = fraction.split_at(fraction.len().min(3));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(millis) || finer.bytes().any(|byte| byte != b'0') {
        return Err(bad());
    }
    let fraction: u64 = format!("{millis:0<3}").parse().map_err(|_| bad())?;
    in_millis(whole, 1000)?.checked_add(fraction).ok_or_else(too_long)
}

fn in_millis(number: &str, unit: u64) -> Result<u64, String> {
    number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit)).ok_or_else(too_long)
}

fn too_long() -> String {
    "it is longer than 100 years".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::MAX_TTL;

    fn check(text: &str, millis: u64) {
        let ttl: Ttl = text.parse().unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(ttl.as_millis(), millis, "{text}");
    }

    fn check_refused(text: &str, reason: &str) {
        let error = text.parse::<Ttl>().expect_err(text);
        assert_eq!(error.kind(), ErrorKind::InvalidTtl);
        assert!(error.to_string().contains(reason), "{text}: {error}");
        assert!(error.to_string().starts_with(&format!("\"{}\" is not a ttl: ", text.escape_debug())));
    }

    #[test]
    fn every_form_is_read_exactly() {
        for (text, millis) in [
            ("1", 1000),
            ("900", 900_000),
            ("0900", 900_000),
            ("900s", 900_000),
            ("250ms", 250),
            ("15m", 900_000),
            ("1h30m", 5_400_000),
            ("1d", 86_400_000),
            ("2w", 1_209_600_000),
            ("1w2d3h4m5s6ms", 788_645_006),
            ("0d15m", 900_000),
            ("90m", 5_400_000),
            ("PT15M", 900_000),
            ("PT900S", 900_000),
            ("PT0.5S", 500),
            ("PT1.25000S", 1250),
            ("PT8H6M12.345S", 29_172_345),
            ("P1D", 86_400_000),
            ("P1W", 604_800_000),
            ("P1DT12H", 129_600_000),
            ("36525d", 3_155_760_000_000),
            ("3155760000", 3_155_760_000_000),
        ] {
            check(text, millis);
        }
    }

    #[test]
    fn what_cannot_be_honoured_is_refused_with_a_reason() {
        for (text, reason) in [
            ("", "empty"),
            ("0", "at least 1 ms"),
            ("0s", "at least 1 ms"),
            ("PT0S", "at least 1 ms"),
            ("-5", "units"),
            ("+5", "units"),
            ("-15m", "units"),
            ("15 m", "units"),
            (" 15m", "units"),
            ("15x", "units"),
            ("15M", "units"),
            ("1y", "units"),
            ("m", "units"),
            ("15m1h", "long to short"),
            ("15m15m", "long to short"),
            ("15m30", "units"),
            ("1.5h", "not a whole number"),
            ("1.5s", "not a whole number"),
            (".", "units"),
            ("P", "ISO"),
            ("PT", "ISO"),
            ("P1DT", "ISO"),
            ("P1Y", "ISO"),
            ("P1M", "ISO"),
            ("PT1D", "ISO"),
            ("pt15m", "units"),
            ("PT0.0005S", "milliseconds"),
            ("PT1.S", "milliseconds"),
            ("PT.5S", "milliseconds"),
            ("PT1.2.3S", "milliseconds"),
            ("PT1.5M", "not a whole number"),
            ("36526d", "at most 100 years"),
            ("3155760001", "at most 100 years"),
            ("18446744073709551615", "100 years"),
            ("18446744073709551616", "100 years"),
            ("99999999999999999999w", "100 years"),
            ("15m\n", "units"),
            ("15µs", "units"),
            ("１５m", "units"),
        ] {
            check_refused(text, reason);
        }
    }

    /// A small generator of pseudo-random numbers, the same in every run.
    fn numbers() -> impl Iterator<Item = u64> {
        std::iter::successors(Some(0x9e37_79b9_7f4a_7c15_u64), |state| {
            let mut next = *state;
            next ^= next << 13;
            next ^= next >> 7;
            next ^= next << 17;
            Some(next)
        })
    }

    #[test]
    fn what_is_written_reads_back_the_same() {
        let longest = MAX_TTL.as_millis() as u64;
        // Shifting spreads the sample over all magnitudes instead of over the longest ones only.
        let sample = numbers().take(20_000).map(|number| (number % longest) >> (number % 42));
        for millis in sample.chain([1, 999, 1000, 1001, longest]).filter(|millis| *millis > 0) {
            check(&Ttl::from_millis(millis).unwrap().to_string(), millis);
        }
    }

    #[test]
    fn noise_is_refused_or_read_the_way_it_is_written() {
        const ALPHABET: &[u8] = b"0123456789smhdwPTMHSDWy.-+ e";
        let mut read = 0;
        let mut numbers = numbers();
        for _ in 0..200_000 {
            let length = numbers.next().unwrap() % 6 + 1;
            let text: String = (0..length)
                .map(|_| ALPHABET[numbers.next().unwrap() as usize % ALPHABET.len()] as char)
                .collect();
            if let Ok(ttl) = text.parse::<Ttl>() {
                read += 1;
                check(&ttl.to_string(), ttl.as_millis());
            }
        }
        assert!(read > 1000, "only {read} texts of the sample were valid");
    }

    #[test]
    fn the_written_form_is_the_one_people_use() {
        for (millis, text) in
            [(1, "1ms"), (1000, "1s"), (5_400_000, "1h30m"), (864_000_000, "10d"), (898_500, "14m58s500ms")]
        {
            assert_eq!(Ttl::from_millis(millis).unwrap().to_string(), text);
        }
    }
}
