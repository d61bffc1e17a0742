//! Write amplification over a whole life: records arrive during an hour, then a day passes until all of them
//! have expired. Time is manual; everything the engine writes meanwhile is counted.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::{Job, Metrics, inserting, metrics};
use crate::clients::drive;
use crate::engine::{self, Time};
use crate::meter;
use crate::record::{PAYLOAD_BYTES, record};

/// The hour of arrivals has so many steps of a minute.
const ARRIVALS: u64 = 60;
/// The time after it passes in steps of a quarter of an hour, a little more than a day of them.
const QUARTERS: u64 = 4 * 24 + 5;

pub async fn run(job: &Job) -> Result<Metrics> {
    let engine = engine::open(job.engine, &job.dir, Time::Manual)?;
    let written = meter::written()?;
    let begin = Instant::now();
    let share = job.records.div_ceil(ARRIVALS);
    let mut done = 0;
    for minute in 0..ARRIVALS {
        let left = job.limit().saturating_sub(begin.elapsed());
        done += drive(job.load(), minute * share, share, left, inserting(&engine, record)).await?.done;
        engine.pass(Duration::from_secs(60));
    }
    let arrived = meter::written()? - written;
    for _ in 0..QUARTERS {
        engine.pass(Duration::from_secs(15 * 60));
        while engine.reclaiming() {
            thread::sleep(Duration::from_millis(5));
        }
        meter::settle(Duration::from_millis(50));
    }
    engine.reclaim()?;
    meter::settle(Duration::from_millis(300));
    let payload = (done * PAYLOAD_BYTES as u64) as f64;
    let written = meter::written()? - written;
    let left = meter::disk(&job.dir)? as f64 / 1e6;
    engine.close().await?;
    Ok(metrics([
        ("records", done as f64),
        ("amplification", written as f64 / payload),
        ("amplification_arrivals", arrived as f64 / payload),
        ("disk_left_mb", left),
    ]))
}
