//! Opens a directory that somebody filled, and checks that every acknowledged record is there.

use std::time::Instant;

use anyhow::{Result, ensure};

use super::{Job, Metrics, metrics};
use crate::engine::{self, Time};
use crate::record::{Key, key, ttl};

/// Records that live shorter than this may have expired since they were written; they are not asked for.
const SAFE_TTL: u64 = 30 * 60_000;

pub async fn run(job: &Job) -> Result<Metrics> {
    let asked: Vec<Key> = (0..job.records).filter(|&i| ttl(i) > SAFE_TTL).map(key).collect();
    let start = Instant::now();
    let engine = engine::open(job.engine, &job.dir, Time::Real)?;
    let first = engine.get_each(&asked[..1]).await?;
    let took = start.elapsed();
    let found = first + engine.get_each(&asked[1..]).await?;
    ensure!(found == asked.len() as u64, "{} acknowledged records are lost", asked.len() as u64 - found);
    engine.close().await?;
    Ok(metrics([("open_ms", took.as_secs_f64() * 1e3), ("checked", found as f64)]))
}
