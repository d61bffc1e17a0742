//! What a run tells: tables for the terminal and for `docs/benchmarks.md`.

pub mod docs;
mod figures;
mod machine;
mod rows;

use std::fmt::Write as _;

use comfy_table::{CellAlignment, Table, presets};

pub use machine::Machine;

use crate::compare::Results;

/// The comparison for a terminal.
pub fn comparison(results: &Results) -> String {
    let mut text = results.machine.describe();
    let _ =
        write!(text, "\n{}\n\n{}", rows::table(results, presets::UTF8_FULL_CONDENSED), rows::legend(results));
    for failure in &results.failures {
        let _ = write!(text, "\nfailed: {failure}");
    }
    let _ = write!(text, "\n\n{}", figures::table(results, presets::UTF8_FULL_CONDENSED));
    text
}

/// The comparison for the documentation.
pub fn comparison_page(results: &Results) -> String {
    let mut page = results.machine.describe();
    let _ =
        write!(page, "\n\n{}\n\n{}\n", rows::table(results, presets::ASCII_MARKDOWN), rows::legend(results));
    for failure in &results.failures {
        let _ = writeln!(page, "\nFailed: {failure}");
    }
    let _ = write!(page, "\n### Figures to reach\n\n{}", figures::table(results, presets::ASCII_MARKDOWN));
    page
}

/// A table whose first column is text and whose other columns are numbers.
pub fn numbers(preset: &str, header: Vec<String>, rows: Vec<Vec<String>>) -> Table {
    let mut table = Table::new();
    table.load_preset(preset).set_header(header).add_rows(rows);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// Three significant digits, thousands as k, millions as M.
pub fn short(value: f64) -> String {
    match value.abs() {
        size if size >= 999_500.0 => format!("{:.2}M", value / 1e6),
        size if size >= 99_950.0 => format!("{:.0}k", value / 1e3),
        size if size >= 9_995.0 => format!("{:.1}k", value / 1e3),
        size if size >= 99.95 => format!("{value:.0}"),
        size if size >= 9.995 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}
