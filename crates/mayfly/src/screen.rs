//! Text for people, JSON for programs, and nothing decorative when nobody is looking.

use std::env;
use std::fmt::{self, Display};
use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};

use mayfly_store::Error;
use serde::Serialize;
use serde_json::json;

use crate::exit::Exit;

/// Standard output, and what is known about who reads it.
#[derive(Debug)]
pub(crate) struct Screen {
    out: BufWriter<StdoutLock<'static>>,
    json: bool,
    terminal: bool,
    colour: bool,
    width: usize,
}

const DEFAULT_WIDTH: usize = 80;

impl Screen {
    pub(crate) fn new(json: bool) -> Self {
        let stdout = io::stdout().lock();
        let terminal = stdout.is_terminal();
        let set = |name| env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = env::var_os("TERM").is_some_and(|term| term == "dumb");
        let asked = env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
        let real = terminal_size::terminal_size_of(&stdout).map(|(width, _)| usize::from(width.0));
        Self {
            out: BufWriter::new(stdout),
            json,
            terminal,
            colour: terminal && !set("NO_COLOR") && !dumb,
            width: asked.or(real).filter(|width| *width > 0).unwrap_or(DEFAULT_WIDTH),
        }
    }

    /// Whether a person is looking, and wants text.
    pub(crate) fn is_for_people(&self) -> bool {
        self.terminal && !self.json
    }

    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// Letters in a line.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// Prints one line: the report as JSON, or the text.
    pub(crate) fn say(&mut self, report: &impl Serialize, text: impl Display) -> anyhow::Result<()> {
        if self.json {
            serde_json::to_writer(&mut self.out, report).map_err(io::Error::from)?;
            writeln!(self.out)?;
        } else {
            writeln!(self.out, "{text}")?;
        }
        Ok(())
    }

    /// The same for a command whose answer is yes or no. A no in words goes to standard error, so that a pipe that
    /// waits for a value does not take it for one.
    pub(crate) fn answer(
        &mut self,
        yes: bool,
        report: &impl Serialize,
        text: impl Display,
    ) -> anyhow::Result<Exit> {
        if yes || self.json {
            self.say(report, text)?;
        } else {
            writeln!(io::stderr(), "{text}")?;
        }
        Ok(Exit::condition(yes))
    }

    /// Prints bytes as they are.
    pub(crate) fn raw(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        Ok(self.out.write_all(bytes)?)
    }

    /// Text in a colour, where colours are welcome.
    pub(crate) fn paint<T>(&self, style: Style, text: T) -> Painted<T> {
        Painted { style: self.colour.then_some(style), text }
    }

    /// Flushes, reports an error if there is one, and decides the exit code.
    pub(crate) fn conclude(mut self, outcome: anyhow::Result<Exit>) -> Exit {
        let outcome = outcome.and_then(|exit| {
            self.out.flush()?;
            Ok(exit)
        });
        let error = match outcome {
            Ok(exit) => return exit,
            Err(error) => error,
        };
        let exit = Exit::of(&error);
        if exit != Exit::Success {
            // Standard error may be closed, too; the exit code still tells.
            let _ = self.complain(&error);
        }
        exit
    }

    fn complain(&self, error: &anyhow::Error) -> io::Result<()> {
        let message = describe(error);
        if !self.json {
            return writeln!(io::stderr(), "mayfly: {message}");
        }
        let kind = error.downcast_ref::<Error>().map(|error| format!("{:?}", error.kind()));
        let report = json!({ "ok": false, "error": { "kind": kind, "message": message } });
        writeln!(io::stderr(), "{report}")
    }
}

/// The error and its causes, each said once.
fn describe(error: &anyhow::Error) -> String {
    error.chain().fold(String::new(), |text, cause| match cause.to_string() {
        cause if text.contains(&cause) => text,
        cause if text.is_empty() => cause,
        cause => format!("{text}: {cause}"),
    })
}

/// What a colour means.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Style {
    Heading,
    Aside,
    Bar,
    Alarm,
}

/// Text that may be coloured.
#[derive(Debug)]
pub(crate) struct Painted<T> {
    style: Option<Style>,
    text: T,
}

impl<T: Display> Display for Painted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let code = match self.style {
            None => return self.text.fmt(f),
            Some(Style::Heading) => "1",
            Some(Style::Aside) => "2",
            Some(Style::Bar) => "33",
            Some(Style::Alarm) => "1;31",
        };
        write!(f, "\x1b[{code}m")?;
        self.text.fmt(f)?;
        f.write_str("\x1b[0m")
    }
}

/// A count with its thousands apart: 12,345.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A count and what is counted: 1 record, 2 records.
pub(crate) fn counted(number: u64, noun: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{} {noun}{ending}", count(number))
}

/// A size with three digits that matter: 1.44 MiB.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let (mut amount, mut unit) = (bytes as f64, 0);
    // 1023.5 and above would be rounded to 1024, which belongs to the next unit.
    while amount >= 1023.5 && unit + 1 < UNITS.len() {
        amount /= 1024.0;
        unit += 1;
    }
    let decimals = match amount {
        _ if unit == 0 => 0,
        amount if amount < 9.995 => 2,
        amount if amount < 99.95 => 1,
        _ => 0,
    };
    format!("{amount:.decimals$} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_their_thousands_apart() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(count(number), text);
        }
        assert_eq!(count(u64::MAX), "18,446,744,073,709,551,615");
    }

    #[test]
    fn sizes_have_three_digits_that_matter() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.00 KiB"),
            (1536, "1.50 KiB"),
            (10_239, "10.0 KiB"),
            (102_400, "100 KiB"),
            (1_048_575, "1.00 MiB"),
            (u64::MAX, "16.0 EiB"),
        ] {
            assert_eq!(size(bytes), text);
        }
    }

    #[test]
    fn a_cause_that_was_said_already_is_not_repeated() {
        let error =
            Error::new(mayfly_store::ErrorKind::Unavailable, "cannot read").with_source("no such file");
        assert_eq!(describe(&error.into()), "cannot read: no such file");
        let error = anyhow::Error::from(io::Error::other("no such file")).context("cannot read");
        assert_eq!(describe(&error), "cannot read: no such file");
    }
}
