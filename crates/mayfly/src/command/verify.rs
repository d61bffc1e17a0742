//! `mayfly verify`: reads everything and checks every checksum.

use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use mayfly_store::{Damage, Store, VerifyReport};
use serde::Serialize;

use crate::data::Data;
use crate::exit::Exit;
use crate::screen::{Screen, Style, counted, size};

/// Read all files and check every checksum
///
/// Damaged places are listed with file, offset and length, and the command exits with 5. Nothing is repaired or deleted:
/// other records stay readable, and the bytes stay for inspection.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Verify {}

const EXAMPLES: &str = "\
Examples:
  mayfly verify
  mayfly verify --json | jq '.damaged[]'";

impl Verify {
    pub(super) async fn run(self, data: &Data, screen: &mut Screen) -> anyhow::Result<Exit> {
        let store = data.open_directory()?;
        let bar = progress_bar(screen);
        let report = store.verify(&mut |progress| {
            bar.set_length(progress.bytes_total);
            bar.set_position(progress.bytes_done);
        });
        bar.finish_and_clear();
        let report = report?;
        store.close().await?;

        for damage in &report.damaged {
            if !screen.is_json() {
                let Damage { file, offset, bytes, reason } = damage;
                screen.say(&(), format!("{file} at byte {offset}, {}: {reason}", counted(*bytes, "byte")))?;
            }
        }
        let text = conclusion(&report, screen);
        screen.say(&Report::new(&report), text)?;
        Ok(if report.damaged.is_empty() { Exit::Success } else { Exit::Corrupt })
    }
}

/// On standard error and only for a terminal; indicatif itself stays silent elsewhere.
fn progress_bar(screen: &Screen) -> ProgressBar {
    let target = if screen.is_json() { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
    let style = ProgressStyle::with_template("{bar:40} {binary_bytes} of {binary_total_bytes}, {eta} left");
    let bar = ProgressBar::with_draw_target(None, target);
    style.into_iter().for_each(|style| bar.set_style(style));
    bar
}

fn conclusion(report: &VerifyReport, screen: &Screen) -> String {
    let (frames, segments) = (counted(report.frames, "frame"), counted(report.segments, "segment"));
    let read = format!("{frames} in {segments}, {}", size(report.bytes));
    match report.damaged.len() as u64 {
        0 => format!("{read}: no damage"),
        places => format!("{read}: {}", screen.paint(Style::Alarm, counted(places, "damaged place"))),
    }
}

#[derive(Serialize)]
struct Report<'a> {
    ok: bool,
    segments: u64,
    frames: u64,
    bytes: u64,
    damaged: Vec<DamageReport<'a>>,
}

#[derive(Serialize)]
struct DamageReport<'a> {
    file: &'a str,
    offset: u64,
    bytes: u64,
    reason: &'a str,
}

impl<'a> Report<'a> {
    fn new(report: &'a VerifyReport) -> Self {
        let damaged = report.damaged.iter().map(|Damage { file, offset, bytes, reason }| DamageReport {
            file,
            offset: *offset,
            bytes: *bytes,
            reason,
        });
        Self {
            ok: report.damaged.is_empty(),
            segments: report.segments,
            frames: report.frames,
            bytes: report.bytes,
            damaged: damaged.collect(),
        }
    }
}
