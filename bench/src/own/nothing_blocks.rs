//! Many records expire at one instant of real time while 16 writers and 16 readers go on.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use clap::Args;
use mayfly_store::{Clock, Expiry, SystemClock, Timestamp, Ttl, Value};
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use super::{Findings, row};
use crate::clients::{Load, drive, micros};
use crate::engine::mayfly::{self, Backend, Embedded};
use crate::record::{key, scatter, value};
use crate::report::short;

/// Each client starts an operation every so often: the machine is busy but not saturated by the clients.
const PACE: Duration = Duration::from_millis(1);
/// Clients run this long before the instant, and this long after it.
const BEFORE: Duration = Duration::from_secs(3);
const AFTER: Duration = Duration::from_secs(4);
const CLIENTS: u64 = 16;

#[derive(Debug, Args)]
pub struct Options {
    /// Records that expire at one instant, one run for each number
    #[arg(long, value_delimiter = ',', default_values_t = [1_000_000, 2_000_000])]
    expiring: Vec<u64>,
    /// Backends, separated by commas
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Backend::Mem, Backend::File])]
    backends: Vec<Backend>,
}

/// When an operation ended, and how long it took.
type Sample = (Instant, Duration);

impl Options {
    pub async fn run(&self, dir: &Path) -> Result<Findings> {
        let mut rows = Vec::new();
        for (run, (&records, &backend)) in self
            .expiring
            .iter()
            .flat_map(|records| self.backends.iter().map(move |b| (records, b)))
            .enumerate()
        {
            rows.extend(one(records, backend, &dir.join(run.to_string())).await?);
        }
        let header =
            row(["", "p50 before", "p99 before", "max before", "p50 during", "p99 during", "max during"]);
        let note = format!(
            "So many records expire at one instant of real time. {CLIENTS} writers (durable inserts) and {CLIENTS} readers \
             start an operation every {PACE:?}. \"During\" is from that instant until the last record was let go, \
             and at least 250 ms. Times in milliseconds."
        );
        Ok(Findings { header, rows, note })
    }
}

async fn one(records: u64, backend: Backend, dir: &Path) -> Result<Vec<Vec<String>>> {
    let store = mayfly::embedded(backend, dir, Arc::new(SystemClock))?;
    // A moment that a slow machine reaches only after the last insert.
    let filling = Duration::from_secs(5) + Duration::from_micros(20) * records as u32;
    let instant = Instant::now() + filling + BEFORE;
    let wall = SystemClock.now().wall.as_millis() + (filling + BEFORE).as_millis() as u64;
    fill(&store, records, Timestamp::from_millis(wall)).await?;
    ensure!(Instant::now() + BEFORE < instant, "filling took too long on this machine");
    tokio::time::sleep(instant - Instant::now() - BEFORE).await;

    let until = instant + AFTER;
    let mut writers = JoinSet::new();
    let mut readers = JoinSet::new();
    for client in 0..CLIENTS {
        writers.spawn(write_on(Arc::clone(&store), records + (client << 32), until));
        readers.spawn(read_on(Arc::clone(&store), records, client << 32, until));
    }
    let written = gather(writers).await?;
    let read = gather(readers).await?;
    let stats = store.stats();
    ensure!(stats.expired >= records, "only {} of {} were let go", stats.expired, records);
    let gone = stats.lateness.max();
    store.close().await?;

    let during = gone.max(Duration::from_millis(250));
    let title = format!("{} of {}", backend.title(), short(records as f64));
    Ok(vec![
        line(&format!("{title}: insert"), &written, instant, during)?,
        line(&format!("{title}: read"), &read, instant, during)?,
        row([
            &format!("{title}: last record let go after"),
            "",
            "",
            "",
            "",
            "",
            &millis(gone.as_secs_f64() * 1e3),
        ]),
    ])
}

async fn fill(store: &Arc<dyn Embedded>, records: u64, at: Timestamp) -> Result<()> {
    let store = Arc::clone(store);
    let insert = move |i| {
        let store = Arc::clone(&store);
        async move {
            let (key, value) = (mayfly::key(&key(i))?, Value::new(value(i, 0))?);
            Ok(store.insert_if_not_exists(&key, value, Expiry::At(at)).await?)
        }
    };
    let load = Load { writers: 16, in_flight: 1024 };
    drive(load, 0, records, Duration::MAX / 4, insert).await?;
    Ok(())
}

async fn write_on(store: Arc<dyn Embedded>, first: u64, until: Instant) -> Result<Vec<Sample>> {
    let expiry = Expiry::After(Ttl::from_secs(3600)?);
    let insert = move |i| {
        let store = Arc::clone(&store);
        async move {
            let (key, value) = (mayfly::key(&key(i))?, Value::new(value(i, 0))?);
            let start = Instant::now();
            ensure!(
                store.insert_if_not_exists(&key, value, expiry).await?,
                "an insert of a new key was refused"
            );
            Ok(start)
        }
    };
    paced(first, until, insert).await
}

async fn read_on(store: Arc<dyn Embedded>, records: u64, first: u64, until: Instant) -> Result<Vec<Sample>> {
    let read = move |i| {
        let store = Arc::clone(&store);
        async move {
            let key = mayfly::key(&key(scatter(i) % records))?;
            let start = Instant::now();
            std::hint::black_box(store.get(&key).await?);
            Ok(start)
        }
    };
    paced(first, until, read).await
}

async fn paced<F: Future<Output = Result<Instant>>>(
    first: u64,
    until: Instant,
    operation: impl Fn(u64) -> F,
) -> Result<Vec<Sample>> {
    let mut samples = Vec::with_capacity(10_000);
    let mut pace = tokio::time::interval(PACE);
    pace.set_missed_tick_behavior(MissedTickBehavior::Skip);
    for i in first.. {
        pace.tick().await;
        let start = operation(i).await?;
        let end = Instant::now();
        samples.push((end, end - start));
        if end > until {
            break;
        }
    }
    Ok(samples)
}

async fn gather(mut clients: JoinSet<Result<Vec<Sample>>>) -> Result<Vec<Sample>> {
    let mut samples = Vec::new();
    while let Some(client) = clients.join_next().await {
        samples.extend(client??);
    }
    Ok(samples)
}

fn line(what: &str, samples: &[Sample], instant: Instant, during: Duration) -> Result<Vec<String>> {
    let (mut before, mut after) = (micros(), micros());
    for &(end, took) in samples {
        let started = end - took;
        let histogram = if end < instant {
            &mut before
        } else if started < instant + during {
            &mut after
        } else {
            continue;
        };
        histogram.record(took.as_micros() as u64)?;
    }
    let mut cells = vec![what.to_owned()];
    for histogram in [before, after] {
        let cell = |micros: u64| millis(micros as f64 / 1e3);
        cells.push(cell(histogram.value_at_quantile(0.5)));
        cells.push(cell(histogram.value_at_quantile(0.99)));
        cells.push(cell(histogram.max()));
    }
    Ok(cells)
}

fn millis(millis: f64) -> String {
    format!("{millis:.3}")
}
