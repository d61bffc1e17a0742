//! `mayfly stats`: sizes, segments, and what will expire when.

use std::time::Duration;

use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use mayfly_store::{HorizonSlice, SegmentStats, Stats as Figures, Store};
use serde::Serialize;

use crate::chart::chart;
use crate::data::Data;
use crate::exit::Exit;
use crate::screen::{Screen, Style, count, counted, size};

/// Show sizes, segments, and what will expire when
///
/// The chart counts live records by the time they have left: the row "15 min" holds what has more than 5 and at most
/// 15 minutes to live.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Stats {
    /// List every segment, not only the newest 20
    #[arg(long)]
    all_segments: bool,
}

const EXAMPLES: &str = "\
Examples:
  mayfly stats
  mayfly stats --json | jq '.horizon[] | select(.records > 0)'";

const SEGMENTS_SHOWN: usize = 20;

impl Stats {
    pub(super) async fn run(self, data: &Data, screen: &mut Screen) -> anyhow::Result<Exit> {
        let store = data.open_directory()?;
        let figures = store.stats();
        store.close().await?;

        if screen.is_json() {
            screen.say(&Report::new(&figures), "")?;
            return Ok(Exit::Success);
        }
        summary(&figures, data, screen)?;
        horizon(&figures, screen)?;
        self.segments(&figures, screen)?;
        Ok(Exit::Success)
    }

    fn segments(&self, figures: &Figures, screen: &mut Screen) -> anyhow::Result<()> {
        if figures.segments.is_empty() {
            return Ok(());
        }
        let hidden = match self.all_segments {
            true => 0,
            false => figures.segments.len().saturating_sub(SEGMENTS_SHOWN),
        };
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header(["segment", "bytes", "live", "live records", ""]);
        for segment in &figures.segments[hidden..] {
            table.add_row([
                format!("{:010}", segment.id),
                size(segment.bytes),
                percent(segment.live_bytes, segment.bytes),
                count(segment.live_records),
                if segment.open { "open".to_owned() } else { String::new() },
            ]);
        }
        for column in 1..4 {
            if let Some(column) = table.column_mut(column) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        let title = screen.paint(Style::Heading, "Segments").to_string();
        screen.say(&(), format!("\n{title}"))?;
        for line in table.lines() {
            screen.say(&(), format!(" {}", line.trim_end()))?;
        }
        if hidden > 0 {
            screen.say(&(), format!("  and {hidden} older ones (--all-segments)"))?;
        }
        Ok(())
    }
}

fn summary(figures: &Figures, data: &Data, screen: &mut Screen) -> anyhow::Result<()> {
    let total: u64 = figures.segments.iter().map(|segment| segment.bytes).sum();
    let mut lines = vec![
        ("records", count(figures.records)),
        ("live", size(figures.live_bytes)),
        ("dead", format!("{} to be reclaimed", size(figures.dead_bytes))),
        ("files", format!("{}, {}", counted(figures.segments.len() as u64, "segment"), size(total))),
        ("expired", expired(figures)),
    ];
    if figures.feed_backlog > 0 {
        lines.push((
            "feed",
            format!("{} expired but not acknowledged", counted(figures.feed_backlog, "record")),
        ));
    }
    if figures.clock_steps > 0 {
        lines.push(("clock", format!("{} since the store was opened", counted(figures.clock_steps, "step"))));
    }
    if figures.corruptions > 0 {
        let text = format!("{}; `mayfly verify` lists them", counted(figures.corruptions, "place"));
        lines.push(("damage", screen.paint(Style::Alarm, text).to_string()));
    }
    let title = screen.paint(Style::Heading, data.path().display()).to_string();
    screen.say(&(), title)?;
    for (name, text) in lines {
        screen.say(&(), format!("  {name:<9} {text}"))?;
    }
    Ok(())
}

fn expired(figures: &Figures) -> String {
    if figures.expired == 0 {
        return "none since the store was opened".to_owned();
    }
    let late = |quantile| millis(figures.lateness.quantile(quantile));
    format!(
        "{} since the store was opened; late by p50 {} ms, p99 {} ms, at most {} ms",
        count(figures.expired),
        late(0.5),
        late(0.99),
        millis(figures.lateness.max())
    )
}

fn horizon(figures: &Figures, screen: &mut Screen) -> anyhow::Result<()> {
    let Some((title, rows)) = chart(&figures.horizon, screen.width()) else { return Ok(()) };
    let heading = screen.paint(Style::Heading, "What will expire when").to_string();
    screen.say(&(), format!("\n{heading}\n{}", screen.paint(Style::Aside, title.trim_end())))?;
    for row in rows {
        let line = format!("{}{}", row.figures, screen.paint(Style::Bar, row.bar));
        screen.say(&(), line.trim_end())?;
    }
    Ok(())
}

fn percent(part: u64, whole: u64) -> String {
    let share = (u128::from(part) * 100).checked_div(u128::from(whole));
    share.map_or_else(|| "-".to_owned(), |share| format!("{share} %"))
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[derive(Serialize)]
struct Report {
    ok: bool,
    records: u64,
    live_bytes: u64,
    dead_bytes: u64,
    expired: u64,
    lateness_ms: LatenessReport,
    feed_backlog: u64,
    clock_steps: u64,
    corruptions: u64,
    horizon: Vec<SliceReport>,
    segments: Vec<SegmentReport>,
}

#[derive(Serialize)]
struct LatenessReport {
    p50: u64,
    p99: u64,
    max: u64,
}

#[derive(Serialize)]
struct SliceReport {
    label: &'static str,
    /// Null where there is no end: "later" and "never".
    within_ms: Option<u64>,
    records: u64,
    bytes: u64,
}

#[derive(Serialize)]
struct SegmentReport {
    id: u32,
    bytes: u64,
    live_bytes: u64,
    live_records: u64,
    open: bool,
}

impl Report {
    fn new(figures: &Figures) -> Self {
        let late = |quantile| millis(figures.lateness.quantile(quantile));
        Self {
            ok: true,
            records: figures.records,
            live_bytes: figures.live_bytes,
            dead_bytes: figures.dead_bytes,
            expired: figures.expired,
            lateness_ms: LatenessReport {
                p50: late(0.5),
                p99: late(0.99),
                max: millis(figures.lateness.max()),
            },
            feed_backlog: figures.feed_backlog,
            clock_steps: figures.clock_steps,
            corruptions: figures.corruptions,
            horizon: figures.horizon.slices.iter().map(SliceReport::new).collect(),
            segments: figures.segments.iter().map(SegmentReport::new).collect(),
        }
    }
}

impl SliceReport {
    fn new(slice: &HorizonSlice) -> Self {
        let within_ms = slice.within.map(millis).filter(|within| *within < u64::MAX);
        Self { label: slice.label, within_ms, records: slice.records, bytes: slice.bytes }
    }
}

impl SegmentReport {
    fn new(segment: &SegmentStats) -> Self {
        let SegmentStats { id, bytes, live_bytes, live_records, open } = *segment;
        Self { id, bytes, live_bytes, live_records, open }
    }
}
