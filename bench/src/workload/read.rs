//! Reads of a filled store by one client, in no order: single records, and 10 records in a row.
//!
//! The store is hot and nobody waits for a disk, so what a read takes is the CPU time it takes. That is measured,
//! because a busy machine does not stretch it as it stretches wall time.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::{Job, Metrics, metrics};
use crate::meter;
use crate::record::{Key, key, range_start, scatter};

/// Reads between two looks at the clock. Making their keys counts, and is the same for every engine.
const CHUNK: u64 = 1000;
/// Records of one range read.
const RANGE: usize = 10;

pub async fn points(job: &Job) -> Result<Metrics> {
    let engine = job.filled().await?;
    let reads = measure(job, async |first| {
        let keys: Vec<Key> = (first..first + CHUNK).map(|i| key(scatter(i) % job.records)).collect();
        engine.get_each(&keys).await
    })
    .await?;
    // The shortest-lived records may have expired since the fill, no more than that.
    ensure!(
        reads.found as f64 > 0.9 * reads.asked as f64,
        "{} of {} records were found",
        reads.found,
        reads.asked
    );
    engine.close().await?;
    Ok(metrics([
        ("read_us", reads.cpu_us()),
        ("reads", reads.asked as f64),
        ("hits", reads.found_per_read()),
    ]))
}

pub async fn ranges(job: &Job) -> Result<Metrics> {
    let engine = job.filled().await?;
    let reads = measure(job, async |first| {
        let starts: Vec<Key> = (first..first + CHUNK).map(range_start).collect();
        engine.range_each(&starts, RANGE).await
    })
    .await?;
    ensure!(reads.found > 0, "no range read brought anything");
    engine.close().await?;
    Ok(metrics([
        ("range_us", reads.cpu_us()),
        ("ranges", reads.asked as f64),
        ("per_range", reads.found_per_read()),
    ]))
}

struct Reads {
    asked: u64,
    found: u64,
    cpu: Duration,
}

impl Reads {
    fn cpu_us(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.asked as f64
    }

    fn found_per_read(&self) -> f64 {
        self.found as f64 / self.asked as f64
    }
}

/// Reads chunk after chunk until the time is over. The first fifth of it warms up and does not count.
async fn measure(job: &Job, mut chunk: impl AsyncFnMut(u64) -> Result<u64>) -> Result<Reads> {
    meter::settle(Duration::from_millis(100));
    let begin = Instant::now();
    let mut first = 0;
    while begin.elapsed() < job.limit() / 5 {
        chunk(first).await?;
        first += CHUNK;
    }
    let (warm, cpu) = (first, meter::cpu());
    let mut found = 0;
    // At least one chunk, however late it is.
    while first == warm || begin.elapsed() < job.limit() {
        found += chunk(first).await?;
        first += CHUNK;
    }
    Ok(Reads { asked: first - warm, found, cpu: meter::cpu() - cpu })
}
