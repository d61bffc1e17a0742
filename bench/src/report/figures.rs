//! The figures that the design sets, each with what this run measured and whether it was reached.

use comfy_table::Table;

use super::{numbers, short};
use crate::compare::Results;
use crate::engine::Name;

/// What a figure asks of the measured value.
enum Goal {
    AtLeast(f64),
    AtMost(f64),
}

struct Figure {
    what: &'static str,
    goal: Goal,
    unit: &'static str,
    value: fn(&Results) -> Option<f64>,
}

const FIGURES: [Figure; 13] = [
    figure("durable inserts/s, 64 writers, vs bbolt", Goal::AtLeast(50.0), "×", |r| {
        times(r, Name::Bbolt, "insert-64/per_s")
    }),
    figure("durable inserts/s, 16 × 64, vs fjall", Goal::AtLeast(3.0), "×", |r| {
        times(r, Name::Fjall, "insert-many/per_s")
    }),
    figure("CPU per insert, 16 × 64, vs fjall", Goal::AtMost(1.0 / 3.0), "×", |r| {
        times(r, Name::Fjall, "insert-many/cpu_us")
    }),
    figure("durable swaps/s vs fjall", Goal::AtLeast(10.0), "×", |r| {
        times(r, Name::Fjall, "swap/swap_per_s")
    }),
    figure("write amplification, all records expiring", Goal::AtMost(2.0), "", |r| {
        r.get(Name::Mayfly, "amplify/amplification")
    }),
    figure("CPU to reclaim a million records", Goal::AtMost(0.3), " s", |r| {
        r.get(Name::Mayfly, "reclaim/reclaim_cpu_us")
    }),
    figure("disk left after mass expiry", Goal::AtMost(1.0), " MB", |r| {
        r.get(Name::Mayfly, "reclaim/disk_left_mb")
    }),
    figure("longest writer wait during mass expiry", Goal::AtMost(50.0), " ms", |r| {
        r.get(Name::Mayfly, "wait/wait_during_ms")
    }),
    figure("memory per record beyond the key, file", Goal::AtMost(64.0), " B", |r| {
        r.get(Name::Mayfly, "insert-many/memory")
    }),
    figure("memory per record beyond key and value, mem", Goal::AtMost(96.0), " B", |r| {
        r.get(Name::MayflyMem, "insert-many/memory").map(|bytes| bytes - crate::record::VALUE_BYTES as f64)
    }),
    figure("CPU per point read vs LMDB", Goal::AtMost(1.2), "×", |r| times(r, Name::Lmdb, "read/read_us")),
    figure("restart, clean", Goal::AtMost(1000.0), " ms", |r| r.get(Name::Mayfly, "clean/open_ms")),
    figure("restart after kill −9", Goal::AtMost(5000.0), " ms", |r| {
        r.get(Name::Mayfly, "after-kill/open_ms")
    }),
];

const fn figure(
    what: &'static str,
    goal: Goal,
    unit: &'static str,
    value: fn(&Results) -> Option<f64>,
) -> Figure {
    Figure { what, goal, unit, value }
}

/// Mayfly's value divided by the peer's.
fn times(results: &Results, peer: Name, metric: &str) -> Option<f64> {
    Some(results.get(Name::Mayfly, metric)? / results.get(peer, metric)?)
}

/// A row per figure that this run measured.
pub fn table(results: &Results, preset: &str) -> Table {
    let rows = FIGURES.iter().filter_map(|figure| {
        let value = (figure.value)(results)?;
        let (goal, reached) = match figure.goal {
            Goal::AtLeast(goal) => (format!("≥ {}{}", short(goal), figure.unit), value >= goal),
            Goal::AtMost(goal) => (format!("≤ {}{}", short(goal), figure.unit), value <= goal),
        };
        let verdict = if reached { "reached" } else { "fell short" };
        Some(vec![
            figure.what.to_owned(),
            goal,
            format!("{}{}", short(value), figure.unit),
            verdict.to_owned(),
        ])
    });
    let header = ["figure", "goal", "measured", ""].map(str::to_owned);
    numbers(preset, header.to_vec(), rows.collect())
}
