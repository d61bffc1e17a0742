//! Reads of a filled store by one client, in no order: single records, and 10 records in a row.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::{Job, Metrics, metrics};
use crate::record::{Key, key, range_start, scatter};

/// Reads between two looks at the clock.
const CHUNK: u64 = 1000;
/// Records of one range read.
const RANGE: usize = 10;

pub async fn points(job: &Job) -> Result<Metrics> {
    let engine = job.filled().await?;
    let mut found = 0;
    let mut asked = 0;
    let mut spent = Duration::ZERO;
    let warm = Duration::from_secs_f64(job.seconds / 4.0);
    let begin = Instant::now();
    while begin.elapsed() < job.limit() {
        let keys: Vec<Key> = (0..CHUNK).map(|i| key(scatter(asked + i) % job.records)).collect();
        let start = Instant::now();
        let hits = engine.get_each(&keys).await?;
        if begin.elapsed() > warm {
            spent += start.elapsed();
            found += hits;
            asked += CHUNK;
        }
    }
    // The shortest-lived records may have expired since the fill, no more than that.
    ensure!(found as f64 > 0.9 * asked as f64, "only {found} of {asked} records were found");
    engine.close().await?;
    Ok(metrics([
        ("read_us", spent.as_secs_f64() * 1e6 / asked as f64),
        ("hits", found as f64 / asked as f64),
    ]))
}

pub async fn ranges(job: &Job) -> Result<Metrics> {
    let engine = job.filled().await?;
    let mut found = 0;
    let mut asked = 0;
    let mut spent = Duration::ZERO;
    let warm = Duration::from_secs_f64(job.seconds / 4.0);
    let begin = Instant::now();
    while begin.elapsed() < job.limit() {
        let starts: Vec<Key> = (0..CHUNK).map(|i| range_start(asked + i)).collect();
        let start = Instant::now();
        let records = engine.range_each(&starts, RANGE).await?;
        if begin.elapsed() > warm {
            spent += start.elapsed();
            found += records;
            asked += CHUNK;
        }
    }
    ensure!(found > 0, "no range read brought anything");
    engine.close().await?;
    let per_range = found as f64 / asked as f64;
    Ok(metrics([("range_us", spent.as_secs_f64() * 1e6 / asked as f64), ("per_range", per_range)]))
}
