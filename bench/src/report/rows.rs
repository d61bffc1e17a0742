//! The table of the comparison: a row per measurement, a column per engine, and how Mayfly compares.

use comfy_table::Table;

use super::{numbers, short};
use crate::compare::Results;
use crate::engine::Name;

/// Which direction is good.
#[derive(Clone, Copy, PartialEq)]
enum Better {
    More,
    Less,
}

const ROWS: [(&str, &str, Better); 19] = [
    ("durable inserts/s, 16 writers × 1 in flight", "insert-16/per_s", Better::More),
    ("durable inserts/s, 64 writers × 1", "insert-64/per_s", Better::More),
    ("durable inserts/s, 16 writers × 64", "insert-many/per_s", Better::More),
    ("CPU µs per insert, 16 × 1", "insert-16/cpu_us", Better::Less),
    ("CPU µs per insert, 64 × 1", "insert-64/cpu_us", Better::Less),
    ("CPU µs per insert, 16 × 64", "insert-many/cpu_us", Better::Less),
    ("insert wait p99 µs, 64 × 1", "insert-64/wait_p99_us", Better::Less),
    ("durable swaps/s, 16 × 64", "swap/swap_per_s", Better::More),
    ("CPU µs per swap", "swap/swap_cpu_us", Better::Less),
    ("CPU µs per point read", "read/read_us", Better::Less),
    ("CPU µs per range read of 10", "range/range_us", Better::Less),
    ("mass expiry: CPU µs per record", "reclaim/reclaim_cpu_us", Better::Less),
    ("mass expiry: MB left on disk", "reclaim/disk_left_mb", Better::Less),
    ("longest writer wait before it, ms", "wait/wait_before_ms", Better::Less),
    ("longest writer wait during it, ms", "wait/wait_during_ms", Better::Less),
    ("bytes written per payload byte, whole life", "amplify/amplification", Better::Less),
    ("memory per record beyond the key, bytes", "insert-many/memory", Better::Less),
    ("restart after a clean close, ms", "clean/open_ms", Better::Less),
    ("restart after kill −9, ms", "after-kill/open_ms", Better::Less),
];

/// The table; beside each value of a peer stands how many times better Mayfly's file backend is.
pub fn table(results: &Results, preset: &str) -> Table {
    let engines: Vec<Name> = results.engines.keys().copied().collect();
    let header = std::iter::once(String::new()).chain(engines.iter().map(|engine| engine.title().to_owned()));
    let rows = ROWS.iter().filter_map(|&(label, metric, better)| {
        let cells: Vec<_> = engines.iter().map(|&engine| cell(results, engine, metric, better)).collect();
        let measured = cells.iter().any(|cell| !cell.is_empty());
        measured.then(|| std::iter::once(label.to_owned()).chain(cells).collect())
    });
    numbers(preset, header.collect(), rows.collect())
}

fn cell(results: &Results, engine: Name, metric: &str, better: Better) -> String {
    let Some(value) = results.get(engine, metric) else { return String::new() };
    let compared = !matches!(engine, Name::Mayfly | Name::MayflyMem);
    match results.get(Name::Mayfly, metric).filter(|_| compared) {
        Some(mayfly) if mayfly > 0.0 && value > 0.0 => {
            let ratio = if better == Better::More { mayfly / value } else { value / mayfly };
            format!("{} ({}×)", short(value), short(ratio))
        }
        _ => short(value),
    }
}

/// What the table does not say by itself.
pub fn legend(results: &Results) -> String {
    let mut text = format!(
        "In brackets: how many times better Mayfly file is. {} records; a phase ends after {} s at the latest, 16 × 64 inserts after twice that.",
        results.records, results.seconds
    );
    for (&engine, metrics) in &results.engines {
        let reached: Vec<String> = [
            ("insert-16", "16 × 1"),
            ("insert-64", "64 × 1"),
            ("insert-many", "16 × 64"),
            ("amplify", "whole life"),
        ]
        .iter()
        .filter_map(|(step, label)| {
            let records = *metrics.get(&format!("{step}/records"))?;
            (records < results.records as f64).then(|| format!("{label}: {}", short(records)))
        })
        .collect();
        if !reached.is_empty() {
            text +=
                &format!("\n{} reached fewer records in that time ({}).", engine.title(), reached.join(", "));
        }
    }
    text
}
