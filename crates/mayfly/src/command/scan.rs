//! `mayfly scan`: the live records of a partition, in order, as they are found.

use std::ffi::OsString;

use clap::Args;
use futures_util::StreamExt;
use mayfly_store::{Range, Record};

use super::Digits;
use super::get::Report;
use crate::address::Notation;
use crate::data::{self, Data};
use crate::exit::Exit;
use crate::expiry::Deadline;
use crate::screen::{Screen, Style};

/// List the live records of a partition, in order
///
/// Records are printed as they are read, so that a partition of any size can be piped.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Scan {
    /// The partition, the part of the keys before the first slash
    partition: OsString,

    /// Only sort parts that begin so
    #[arg(long, value_name = "SORT", conflicts_with_all = ["start", "finish"])]
    prefix: Option<OsString>,

    /// From this sort part on
    #[arg(long, value_name = "SORT")]
    start: Option<OsString>,

    /// Up to this sort part, without it
    #[arg(long, value_name = "SORT")]
    finish: Option<OsString>,

    /// At most so many records
    #[arg(long, value_name = "N")]
    limit: Option<u64>,

    #[command(flatten)]
    digits: Digits,
}

const EXAMPLES: &str = "\
Examples:
  mayfly scan sessions
  mayfly scan sessions --prefix al --limit 10
  mayfly scan events --start 2026-11-01 --finish 2026-12-01
  mayfly scan sessions --json | jq -r .key

In a pipe a line has three fields with a tab between them: key, time left, value. Tabs, line
ends and bytes that are not text are escaped, so that a record is always one line.";

impl Scan {
    pub(super) async fn run(self, data: &Data, screen: &mut Screen) -> anyhow::Result<Exit> {
        let (range, notation) = (self.range()?, self.digits.notation());
        let mut left = self.limit.unwrap_or(u64::MAX);
        let store = data.open()?;
        let mut records = store.read(range);
        while left > 0
            && let Some(record) = records.next().await
        {
            show(&record?, notation, screen)?;
            left -= 1;
        }
        drop(records);
        store.close().await?;
        Ok(Exit::Success)
    }

    fn range(&self) -> anyhow::Result<Range> {
        let notation = self.digits.notation();
        let partition = notation.partition(&self.partition)?;
        if let Some(prefix) = &self.prefix {
            return Ok(Range::prefix(partition, notation.bytes(prefix)?)?);
        }
        let bound = |bound: &Option<OsString>| match bound {
            Some(bound) => notation.bytes(bound),
            None => Ok(Vec::new()),
        };
        Ok(Range::new(partition, bound(&self.start)?, bound(&self.finish)?)?)
    }
}

fn show(record: &Record, notation: Notation, screen: &mut Screen) -> anyhow::Result<()> {
    let key = notation.show_key(&record.key);
    let deadline = Deadline::new(record.expires_at, data::now());
    let value = || notation.show(&record.value);
    let text = if screen.is_json() {
        String::new()
    } else if screen.is_for_people() {
        // The time comes first, because it is the one field whose width is bounded.
        let left = format!("{:>11}", deadline.left());
        let used = 11 + 2 + key.chars().count() + 2;
        let value = shorten(&value(), screen.width().saturating_sub(used).max(16));
        format!("{}  {}  {value}", screen.paint(Style::Aside, left), screen.paint(Style::Heading, &key))
    } else {
        format!("{key}\t{}\t{}", deadline.left(), value())
    };
    screen.say(&Report::new(key, &record.value, deadline, notation), text)
}

fn shorten(text: &str, width: usize) -> String {
    match text.char_indices().nth(width) {
        None => text.to_owned(),
        Some(_) => text.chars().take(width - 1).chain(['…']).collect(),
    }
}
