//! Compare-and-swap on a filled store: every record at most once, in no order.

use std::sync::Arc;

use anyhow::{Result, ensure};

use super::{Job, Metrics, metrics};
use crate::clients::drive;
use crate::meter;
use crate::record::{key, ttl, value};

/// Steps through the records in an order without neighbours; it is prime, so it meets each record once.
const STRIDE: u64 = 7_368_787;

pub async fn run(job: &Job) -> Result<Metrics> {
    let engine = job.filled().await?;
    let records = job.records;
    let cpu = meter::cpu();
    let seen = drive(job.load(), 0, records, job.limit(), {
        let engine = Arc::clone(&engine);
        move |n| {
            let engine = Arc::clone(&engine);
            let i = n.wrapping_mul(STRIDE) % records;
            async move { engine.swap(key(i), value(i, 0), value(i, 1), ttl(i)).await }
        }
    })
    .await?;
    let cpu = meter::cpu() - cpu;
    // The shortest-lived records may have expired since the fill, no more than that.
    ensure!(seen.applied as f64 > 0.9 * seen.done as f64, "only {} of {} swaps won", seen.applied, seen.done);
    engine.close().await?;
    let done = seen.done as f64;
    Ok(metrics([
        ("swaps", done),
        ("swap_per_s", done / seen.took.as_secs_f64()),
        ("swap_cpu_us", cpu.as_secs_f64() * 1e6 / done),
    ]))
}
