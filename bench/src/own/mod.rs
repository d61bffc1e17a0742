//! Measurements of Mayfly alone, on real time: nothing blocks while a million records expire, big partitions and
//! many partitions, lateness of the expired feed.

pub mod big;
pub mod lateness;
pub mod nothing_blocks;

use std::path::Path;

use anyhow::{Context, Result};
use comfy_table::presets;

use crate::args::Output;
use crate::report::{self, Machine};

/// Which measurement; its name is that of its part of the page.
#[derive(Debug, Clone, Copy)]
pub enum Bench {
    NothingBlocks,
    Big,
    Lateness,
}

/// A result as a table: header, rows, and a sentence that explains them.
#[derive(Debug, serde::Serialize)]
pub struct Findings {
    pub header: Vec<String>,
    pub rows: Vec<Vec<String>>,
    pub note: String,
}

/// Runs a measurement in an empty directory; prints, stores and documents what it found.
pub fn report(bench: Bench, output: &Output, run: impl FnOnce(&Path) -> Result<Findings>) -> Result<()> {
    let part = match bench {
        Bench::NothingBlocks => "nothing-blocks",
        Bench::Big => "big",
        Bench::Lateness => "lateness",
    };
    let dir = output.dir.join(part);
    std::fs::create_dir_all(&output.dir)?;
    let mut machine = Machine::look(&output.dir)?;
    // A run that was killed leaves its records behind; the memory backend leaves nothing.
    let _ = std::fs::remove_dir_all(&dir);
    let findings = run(&dir);
    let _ = std::fs::remove_dir_all(&dir);
    let findings = findings?;
    machine.finish()?;
    let page = |preset| {
        let table = report::numbers(preset, findings.header.clone(), findings.rows.clone());
        format!("{}\n\n{table}\n\n{}", machine.describe(), findings.note)
    };
    println!("{}", page(presets::UTF8_FULL_CONDENSED));
    if let Some(file) = &output.json {
        let json = serde_json::json!({ "machine": machine, "findings": findings });
        std::fs::write(file, serde_json::to_vec_pretty(&json)?)
            .with_context(|| format!("writing {}", file.display()))?;
    }
    if output.update_docs {
        report::docs::update(part, &page(presets::ASCII_MARKDOWN))?;
    }
    Ok(())
}

/// Texts for a row.
fn row<const N: usize>(cells: [&str; N]) -> Vec<String> {
    cells.map(str::to_owned).to_vec()
}
