//! The two extreme shapes: millions of records in one partition, and as many partitions as records. Each shape
//! runs in a process of its own; a second one measures the restart.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use clap::Args;
use futures_util::StreamExt;
use mayfly_store::{Expiry, Key, Range, SystemClock, Ttl, Value};

use super::{Findings, row};
use crate::child;
use crate::clients::{Load, drive};
use crate::engine::mayfly::{self, Backend, Embedded};
use crate::meter;
use crate::record::{VALUE_BYTES, scatter, value};
use crate::report::short;
use crate::workload::Metrics;

const RANGES: u64 = 20_000;

#[derive(Debug, Args)]
pub struct Options {
    /// Records in the one partition
    #[arg(long, default_value_t = 10_000_000)]
    in_one: u64,
    /// Partitions of one record each
    #[arg(long, default_value_t = 1_000_000)]
    partitions: u64,
    /// Backends, separated by commas
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Backend::Mem, Backend::File])]
    backends: Vec<Backend>,
}

/// One shape on one backend, for a child process.
#[derive(Debug, Args)]
pub struct Shape {
    #[arg(long)]
    backend: Backend,
    #[arg(long)]
    dir: PathBuf,
    #[arg(long)]
    records: u64,
    /// Every record has a partition of its own.
    #[arg(long)]
    scattered: bool,
    /// Only opens what another child has left, and reads one record.
    #[arg(long)]
    restart: bool,
}

impl Options {
    pub fn run(&self, dir: &Path) -> Result<Findings> {
        let mut rows = Vec::new();
        for &backend in &self.backends {
            for (records, scattered) in [(self.in_one, false), (self.partitions, true)] {
                let shape = Shape { backend, dir: dir.join("shape"), records, scattered, restart: false };
                rows.push(shape.measure()?);
            }
        }
        let header =
            row(["", "memory per record, B", "inserts/s", "CPU µs per range read of 10", "restart, ms"]);
        let note = "Keys of 16 bytes, values of 100. Memory is anonymous memory beyond the key (mem: beyond key and \
                    value). In the scattered shape a range read finds the one record of its partition. Restart is \
                    after a clean close.";
        Ok(Findings { header, rows, note: note.to_owned() })
    }
}

impl Shape {
    /// In child processes.
    fn measure(&self) -> Result<Vec<String>> {
        let _ = std::fs::remove_dir_all(&self.dir);
        let filled = self.child(false)?;
        let restart = match self.backend {
            Backend::File => short(self.child(true)?["open_ms"]),
            Backend::Mem => "–".to_owned(),
        };
        let _ = std::fs::remove_dir_all(&self.dir);
        let what = match self.scattered {
            true => {
                format!("{}: {} partitions of one record", self.backend.title(), short(self.records as f64))
            }
            false => {
                format!("{}: {} records in one partition", self.backend.title(), short(self.records as f64))
            }
        };
        let cell = |name| short(filled[name]);
        Ok(row([&what, &cell("memory"), &cell("per_s"), &cell("range_us"), &restart]))
    }

    fn child(&self, restart: bool) -> Result<Metrics> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args([
            "big-child",
            "--backend",
            self.backend.title(),
            "--records",
            &self.records.to_string(),
        ]);
        command.arg("--dir").arg(&self.dir);
        command.args(self.scattered.then_some("--scattered")).args(restart.then_some("--restart"));
        let output = command.stderr(Stdio::inherit()).output()?;
        ensure!(output.status.success(), "{self:?} failed: {}", output.status);
        child::last_line(&output.stdout)
    }

    /// In this process.
    pub async fn run(&self) -> Result<Metrics> {
        let start = Instant::now();
        let store = mayfly::embedded(self.backend, &self.dir, Arc::new(SystemClock))?;
        if self.restart {
            ensure!(store.get(&self.key(0)?).await?.is_some(), "the first record is lost");
            let took = start.elapsed();
            store.close().await?;
            return Ok([("open_ms".to_owned(), took.as_secs_f64() * 1e3)].into());
        }
        let before = meter::memory()?;
        let took = self.fill(&store).await?;
        meter::settle(Duration::from_millis(500));
        let beyond = match self.backend {
            Backend::File => 16.0,
            Backend::Mem => 16.0 + VALUE_BYTES as f64,
        };
        let memory = (meter::memory()? as f64 - before as f64) / self.records as f64 - beyond;
        let range = self.ranges(&store).await?;
        store.close().await?;
        let named =
            [("memory", memory), ("per_s", self.records as f64 / took.as_secs_f64()), ("range_us", range)];
        Ok(named.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }

    fn key(&self, i: u64) -> Result<Key> {
        let (partition, sort) = if self.scattered { (scatter(i), 0) } else { (0, scatter(i)) };
        Ok(Key::new(partition.to_be_bytes(), sort.to_be_bytes())?)
    }

    async fn fill(&self, store: &Arc<dyn Embedded>) -> Result<Duration> {
        let expiry = Expiry::After(Ttl::from_secs(86_400)?);
        let (store, scattered) = (Arc::clone(store), self.scattered);
        let shape = Arc::new(Self { dir: self.dir.clone(), scattered, ..*self });
        let insert = move |i| {
            let (store, shape) = (Arc::clone(&store), Arc::clone(&shape));
            async move { Ok(store.insert_if_not_exists(&shape.key(i)?, Value::new(value(i, 0))?, expiry).await?) }
        };
        let load = Load { writers: 16, in_flight: 64 };
        Ok(drive(load, 0, self.records, Duration::MAX / 4, insert).await?.took)
    }

    async fn ranges(&self, store: &Arc<dyn Embedded>) -> Result<f64> {
        let before = meter::cpu();
        for i in 0..RANGES {
            let key = self.key(scatter(i) % self.records)?;
            let mut records = store.read(Range::new(key.partition(), key.sort(), [])?).take(10);
            let mut found = 0;
            while let Some(record) = records.next().await {
                std::hint::black_box(record?);
                found += 1;
            }
            ensure!(found > 0, "a range that starts at a record brought nothing");
        }
        Ok((meter::cpu() - before).as_secs_f64() * 1e6 / RANGES as f64)
    }
}
