//! Durable inserts into an empty store, as fast as the clients of the load go.

use std::time::Duration;

use anyhow::{Result, ensure};

use super::{Job, Metrics, inserting, metrics};
use crate::clients::{Load, drive};
use crate::engine::{self, Time};
use crate::meter;
use crate::record::{PAYLOAD_BYTES, record};

/// Inserted before anything is measured, so that threads, buffers and files exist.
const WARM_UP: u64 = 1000;

pub async fn run(job: &Job) -> Result<Metrics> {
    let engine = engine::open(job.engine, &job.dir, Time::Real)?;
    drive(Load { writers: 16, in_flight: 64 }, 0, WARM_UP, job.limit(), inserting(&engine, record)).await?;
    let (memory, cpu, written) = (meter::memory()?, meter::cpu(), meter::written()?);

    let seen = drive(job.load(), WARM_UP, job.records, job.limit(), inserting(&engine, record)).await?;
    ensure!(seen.applied == seen.done, "an insert of a new key was refused");

    let done = seen.done as f64;
    let cpu = (meter::cpu() - cpu).as_secs_f64() * 1e6 / done;
    let written = (meter::written()? - written) as f64 / (done * PAYLOAD_BYTES as f64);
    meter::settle(Duration::from_millis(300));
    let key_bytes = 16.0;
    let memory = (meter::memory()? as f64 - memory as f64) / done - key_bytes;
    engine.close().await?;
    Ok(metrics([
        ("records", done),
        ("per_s", done / seen.took.as_secs_f64()),
        ("cpu_us", cpu),
        ("written", written),
        ("memory", memory),
        ("wait_p50_us", seen.wait.value_at_quantile(0.5) as f64),
        ("wait_p99_us", seen.wait.value_at_quantile(0.99) as f64),
        ("wait_max_us", seen.wait.max() as f64),
    ]))
}
