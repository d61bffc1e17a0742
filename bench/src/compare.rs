//! The comparison: every engine through every workload, one after the other, then the tables.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::{Deserialize, Serialize};

use crate::args::{CompareOptions, Output, Part};
use crate::child;
use crate::clients::Load;
use crate::engine::Name;
use crate::report::{self, Machine};
use crate::workload::{Job, Metrics, Workload};

/// One write in flight per writer, and many.
pub const ONE_16: Load = Load { writers: 16, in_flight: 1 };
pub const ONE_64: Load = Load { writers: 64, in_flight: 1 };
pub const MANY: Load = Load { writers: 16, in_flight: 64 };

/// Everything a run has measured.
#[derive(Debug, Serialize, Deserialize)]
pub struct Results {
    pub machine: Machine,
    pub records: u64,
    pub seconds: f64,
    /// By engine, then `step/metric`.
    pub engines: BTreeMap<Name, Metrics>,
    /// Steps that failed, with the reason.
    pub failures: Vec<String>,
}

impl Results {
    pub fn get(&self, engine: Name, metric: &str) -> Option<f64> {
        self.engines.get(&engine)?.get(metric).copied()
    }
}

/// One child of the plan: what it is called in the results, what it runs, and whether it wants an empty directory.
struct Step {
    part: Part,
    name: &'static str,
    workload: Workload,
    load: Load,
    fresh: bool,
    /// Share of the time limit.
    time: f64,
}

const fn step(
    part: Part,
    name: &'static str,
    workload: Workload,
    load: Load,
    fresh: bool,
    time: f64,
) -> Step {
    Step { part, name, workload, load, fresh, time }
}

/// In this order: what needs a filled directory finds the one that the step before left.
const PLAN: [Step; 12] = [
    step(Part::Insert, "insert-16", Workload::Insert, ONE_16, true, 1.0),
    step(Part::Insert, "insert-64", Workload::Insert, ONE_64, true, 1.0),
    step(Part::Insert, "insert-many", Workload::Insert, MANY, true, 2.0),
    step(Part::Amplification, "amplify", Workload::Amplify, MANY, true, 1.0),
    step(Part::Expiry, "reclaim", Workload::Reclaim, MANY, true, 1.0),
    step(Part::Expiry, "wait", Workload::Wait, ONE_16, true, 0.8),
    step(Part::Restart, "crash", Workload::Crash, ONE_16, true, 1.0),
    step(Part::Restart, "after-kill", Workload::Reopen, ONE_16, false, 1.0),
    step(Part::Restart, "clean", Workload::Reopen, ONE_16, false, 1.0),
    step(Part::Read, "read", Workload::Read, ONE_16, false, 0.3),
    step(Part::Range, "range", Workload::Range, ONE_16, false, 0.3),
    step(Part::Swap, "swap", Workload::Swap, MANY, false, 1.0),
];

/// Runs what is asked for and prints, stores and documents the results.
pub fn run(options: &CompareOptions, output: &Output) -> Result<()> {
    let results = match &options.from {
        Some(file) => {
            let text = std::fs::read(file).with_context(|| format!("reading {}", file.display()))?;
            serde_json::from_slice(&text).with_context(|| format!("{} holds no results", file.display()))?
        }
        None => measure(options, &output.dir)?,
    };
    println!("{}", report::comparison(&results));
    if let Some(file) = &output.json {
        std::fs::write(file, serde_json::to_vec_pretty(&results)?)
            .with_context(|| format!("writing {}", file.display()))?;
    }
    if output.update_docs {
        report::docs::update("compare", &report::comparison_page(&results))?;
    }
    Ok(())
}

fn measure(options: &CompareOptions, dir: &Path) -> Result<Results> {
    let seconds = options.seconds.unwrap_or((options.records as f64 / 100_000.0).clamp(0.5, 10.0));
    std::fs::create_dir_all(dir).with_context(|| format!("creating {}", dir.display()))?;
    let mut results = Results {
        machine: Machine::look(dir)?,
        records: options.records,
        seconds,
        engines: BTreeMap::new(),
        failures: Vec::new(),
    };
    let steps = options.engines.len() * PLAN.iter().filter(|step| wanted(options, step)).count();
    let bar = progress(steps as u64)?;
    let mut benches: Vec<_> =
        options.engines.iter().map(|&engine| Bench::new(engine, dir, options.records, seconds)).collect();
    for step in PLAN.iter().filter(|step| wanted(options, step)) {
        // One engine right after the other, so that the values of a row were measured under the same load.
        for bench in &mut benches {
            let what = format!("{}, {}", bench.engine.title(), step.name);
            bar.set_message(what.clone());
            bar.tick();
            if bar.is_hidden() {
                eprintln!("{}/{steps} {what}", bar.position() + 1);
            }
            match bench.measure(step) {
                Ok(measured) => {
                    let named =
                        measured.into_iter().map(|(name, value)| (format!("{}/{name}", step.name), value));
                    results.engines.entry(bench.engine).or_default().extend(named);
                }
                Err(error) => {
                    bar.suspend(|| eprintln!("{what}: {error:#}"));
                    results.failures.push(format!("{what}: {error:#}"));
                }
            }
            bar.inc(1);
        }
    }
    for bench in &benches {
        remove(&bench.dir)?;
    }
    bar.finish_and_clear();
    results.machine.finish()?;
    Ok(results)
}

fn wanted(options: &CompareOptions, step: &Step) -> bool {
    options.only.contains(&step.part)
}

/// One engine with its directory.
struct Bench {
    engine: Name,
    dir: PathBuf,
    records: u64,
    seconds: f64,
    /// The directory holds the records of a fill.
    filled: bool,
}

impl Bench {
    fn new(engine: Name, dir: &Path, records: u64, seconds: f64) -> Self {
        Self { engine, dir: dir.join(engine.argument()), records, seconds, filled: false }
    }

    fn measure(&mut self, step: &Step) -> Result<Metrics> {
        let volatile = self.engine == Name::MayflyMem;
        if volatile && matches!(step.part, Part::Restart | Part::Amplification) {
            return Ok(Metrics::new());
        }
        let job = Job {
            engine: self.engine,
            workload: step.workload,
            dir: self.dir.clone(),
            records: self.records,
            seconds: self.seconds * step.time,
            writers: step.load.writers,
            in_flight: step.load.in_flight,
        };
        if step.fresh {
            remove(&self.dir)?;
            self.filled = false;
        } else if !self.filled && !volatile {
            remove(&self.dir)?;
            child::run(&Job { workload: Workload::Fill, ..job.clone() })?;
            self.filled = true;
        }
        if step.workload == Workload::Crash {
            child::run_and_kill(&job)?;
            self.filled = true;
            return Ok(Metrics::new());
        }
        let start = Instant::now();
        let mut metrics = child::run(&job)?;
        metrics.insert("process_s".to_owned(), start.elapsed().as_secs_f64());
        Ok(metrics)
    }
}

fn remove(dir: &Path) -> Result<()> {
    match std::fs::remove_dir_all(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

fn progress(steps: u64) -> Result<ProgressBar> {
    let bar = ProgressBar::with_draw_target(Some(steps), ProgressDrawTarget::stderr());
    bar.set_style(ProgressStyle::with_template("{bar:30} {pos}/{len} {elapsed} {msg}")?);
    Ok(bar)
}
