//! Fills a directory, says "ready", and goes on writing until somebody kills the process.

use std::time::Duration;

use anyhow::{Result, bail};

use super::{Job, Metrics, fill, inserting};
use crate::clients::drive;
use crate::engine::{self, Time};
use crate::record::record;

/// What the parent waits for before it kills. The bbolt program says the same.
pub const READY: &str = "ready";

pub async fn run(job: &Job) -> Result<Metrics> {
    let engine = engine::open(job.engine, &job.dir, Time::Real)?;
    fill(&engine, job.records, record).await?;
    println!("{READY}");
    drive(job.load(), job.records, u64::MAX / 2, Duration::from_secs(60), inserting(&engine, record)).await?;
    bail!("nobody killed this process within a minute")
}
