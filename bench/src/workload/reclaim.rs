//! Mass expiry: all records have the same deadline, and it passes.

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::{Job, Metrics, fill, inserting, metrics};
use crate::clients::{Load, Seen, drive};
use crate::engine::{self, Engine, Time};
use crate::meter;
use crate::record::{Record, key, record, value};

const HOUR: u64 = 3_600_000;
fn one_instant(i: u64) -> Record {
    Record { key: key(i), value: value(i, 0), ttl: HOUR }
}

async fn filled(job: &Job) -> Result<Arc<dyn Engine>> {
    let engine = engine::open(job.engine, &job.dir, Time::Manual)?;
    fill(&engine, job.records, one_instant).await?;
    meter::settle(Duration::from_millis(500));
    Ok(engine)
}

fn finish(engine: &Arc<dyn Engine>) {
    while engine.reclaiming() {
        thread::sleep(Duration::from_millis(10));
    }
    meter::settle(Duration::from_millis(500));
}

/// Nobody writes: CPU to reclaim, and what stays on the disk.
pub async fn alone(job: &Job) -> Result<Metrics> {
    let engine = filled(job).await?;
    let before = disk(job, &job.dir)?;
    let (cpu, start) = (meter::cpu(), Instant::now());
    engine.pass(Duration::from_millis(HOUR + 1));
    engine.reclaim()?;
    finish(&engine);
    // The settling itself costs next to nothing.
    let (cpu, took) = (meter::cpu() - cpu, start.elapsed());
    ensure!(engine.get_each(&[key(0), key(job.records - 1)]).await? == 0, "an expired record was read");
    let left = disk(job, &job.dir)?;
    engine.close().await?;
    Ok(metrics([
        ("reclaim_cpu_us", cpu.as_secs_f64() * 1e6 / job.records as f64),
        ("reclaim_s", took.as_secs_f64()),
        ("disk_before_mb", before),
        ("disk_left_mb", left),
        ("expired", job.records as f64),
    ]))
}

fn disk(job: &Job, dir: &Path) -> Result<f64> {
    if job.engine == engine::Name::MayflyMem { Ok(0.0) } else { Ok(meter::disk(dir)? as f64 / 1e6) }
}

/// 16 writers insert longer-lived records: their longest wait before and while all the others expire.
pub async fn under_writers(job: &Job) -> Result<Metrics> {
    let engine = filled(job).await?;
    let before = write_for(&engine, job.records, job.limit() / 4).await?;
    let writing = tokio::spawn({
        let (engine, first, limit) = (Arc::clone(&engine), job.records + before.done, job.limit());
        async move { write_for(&engine, first, limit).await }
    });
    tokio::time::sleep(job.limit() / 10).await;
    engine.pass(Duration::from_millis(HOUR + 1));
    let compacting = thread::spawn({
        let engine = Arc::clone(&engine);
        move || engine.reclaim()
    });
    let during = writing.await??;
    compacting.join().map_err(|_| anyhow::anyhow!("compaction panicked"))??;
    finish(&engine);
    engine.close().await?;
    Ok(metrics([
        ("wait_before_ms", before.wait.max() as f64 / 1e3),
        ("wait_during_ms", during.wait.max() as f64 / 1e3),
        ("wait_p99_before_ms", before.wait.value_at_quantile(0.99) as f64 / 1e3),
        ("wait_p99_during_ms", during.wait.value_at_quantile(0.99) as f64 / 1e3),
    ]))
}

async fn write_for(engine: &Arc<dyn Engine>, first: u64, limit: Duration) -> Result<Seen> {
    drive(Load { writers: 16, in_flight: 1 }, first, u64::MAX / 2, limit, inserting(engine, longer_lived))
        .await
}

fn longer_lived(i: u64) -> Record {
    Record { ttl: 10 * HOUR, ..record(i) }
}
