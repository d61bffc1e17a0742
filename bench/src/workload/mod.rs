//! The workloads. Each runs in a process of its own, so that CPU, memory and I/O counters are its own, and
//! ends by printing its metrics as one line of JSON. The bbolt program answers to the same arguments.

mod amplify;
mod crash;
mod insert;
mod read;
mod reclaim;
mod reopen;
mod swap;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

use crate::clients::{Load, drive};
use crate::engine::{self, Engine, Name, Time};
use crate::record::{Record, record};

pub use crash::READY;

/// What a workload measured, by name.
pub type Metrics = BTreeMap<String, f64>;

/// What a child process is asked to do.
#[derive(Debug, Clone, Args)]
pub struct Job {
    #[arg(long)]
    pub engine: Name,
    #[arg(long)]
    pub workload: Workload,
    #[arg(long)]
    pub dir: PathBuf,
    #[arg(long)]
    pub records: u64,
    /// How long one measured phase may take.
    #[arg(long, default_value_t = 10.0)]
    pub seconds: f64,
    #[arg(long, default_value_t = 16)]
    pub writers: usize,
    #[arg(long, default_value_t = 64)]
    pub in_flight: usize,
}

/// The workloads by the names that children get.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Workload {
    /// Fills a directory and closes it in order; measures nothing.
    Fill,
    /// Durable inserts into an empty store, and the memory they take.
    Insert,
    /// Point reads of a filled store.
    Read,
    /// Range reads of 10 records.
    Range,
    /// Compare-and-swap on a filled store.
    Swap,
    /// Opens a directory and reads a record.
    Reopen,
    /// Fills a directory, says so, and writes on until it is killed.
    Crash,
    /// All records expire at one instant: CPU to reclaim, disk left.
    Reclaim,
    /// The same under 16 writers: their longest wait.
    Wait,
    /// Bytes written from the first insert until all records have expired.
    Amplify,
}

impl Job {
    /// Does the job in this process.
    pub async fn run(&self) -> Result<Metrics> {
        match self.workload {
            Workload::Fill => {
                let engine = engine::open(self.engine, &self.dir, Time::Real)?;
                fill(&engine, self.records, record).await?;
                engine.close().await?;
                Ok(Metrics::new())
            }
            Workload::Insert => insert::run(self).await,
            Workload::Read => read::points(self).await,
            Workload::Range => read::ranges(self).await,
            Workload::Swap => swap::run(self).await,
            Workload::Reopen => reopen::run(self).await,
            Workload::Crash => crash::run(self).await,
            Workload::Reclaim => reclaim::alone(self).await,
            Workload::Wait => reclaim::under_writers(self).await,
            Workload::Amplify => amplify::run(self).await,
        }
    }

    fn load(&self) -> Load {
        Load { writers: self.writers, in_flight: self.in_flight }
    }

    fn limit(&self) -> Duration {
        Duration::from_secs_f64(self.seconds)
    }

    /// The store that a fill left behind, or one filled here if the engine keeps nothing.
    async fn filled(&self) -> Result<Arc<dyn Engine>> {
        let engine = engine::open(self.engine, &self.dir, Time::Real)?;
        if self.engine == Name::MayflyMem {
            fill(&engine, self.records, record).await?;
        }
        Ok(engine)
    }
}

/// Puts records in with so much in flight that every engine commits in large batches.
async fn fill(engine: &Arc<dyn Engine>, records: u64, make: fn(u64) -> Record) -> Result<()> {
    let load = Load { writers: 16, in_flight: 1024 };
    let seen = drive(load, 0, records, Duration::MAX / 4, inserting(engine, make)).await?;
    ensure!(seen.applied == records, "only {} of {records} records went in", seen.applied);
    Ok(())
}

/// The operation "insert record `i`".
fn inserting(
    engine: &Arc<dyn Engine>,
    make: fn(u64) -> Record,
) -> impl Fn(u64) -> futures_util::future::BoxFuture<'static, Result<bool>> + Clone + Send + Sync + 'static {
    let engine = Arc::clone(engine);
    move |i| {
        let engine = Arc::clone(&engine);
        Box::pin(async move { engine.insert(make(i)).await })
    }
}

/// Collects metrics under their names.
fn metrics<const N: usize>(named: [(&str, f64); N]) -> Metrics {
    named.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
