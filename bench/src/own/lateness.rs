//! How late the expired feed reports a few short-lived records among many long-lived ones, on real time.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use mayfly_store::{Clock, Expiry, SystemClock, Ttl, Value};

use super::{Findings, row};
use crate::clients::{Load, drive, micros};
use crate::engine::mayfly::{self, Backend, Embedded};
use crate::record::{key, scatter, value};

const DAY: u64 = 86_400_000;
const READER: &str = "lateness";

#[derive(Debug, Args)]
pub struct Options {
    /// Records that live for a day
    #[arg(long, default_value_t = 1_000_000)]
    long_lived: u64,
    /// Records that live between 1 and 10 seconds
    #[arg(long, default_value_t = 1000)]
    short_lived: u64,
    /// Backends, separated by commas
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Backend::Mem, Backend::File])]
    backends: Vec<Backend>,
}

impl Options {
    pub async fn run(&self, dir: &Path) -> Result<Findings> {
        let mut rows = Vec::new();
        for &backend in &self.backends {
            rows.push(self.one(backend, &dir.join(backend.title())).await?);
        }
        let note = format!(
            "Milliseconds from the deadline until a subscriber of the expired feed had the record with its value: {} \
             records with 1 to 10 s to live among {} with a day.",
            self.short_lived, self.long_lived
        );
        Ok(Findings { header: row(["", "records", "p50", "p99", "max"]), rows, note })
    }

    async fn one(&self, backend: Backend, dir: &Path) -> Result<Vec<String>> {
        let store = mayfly::embedded(backend, dir, Arc::new(SystemClock))?;
        insert(&store, 0, self.long_lived, |_| DAY).await?;
        store.subscribe(READER).await?;
        insert(&store, self.long_lived, self.short_lived, |i| 1000 + scatter(i) % 9000).await?;

        let mut late = micros();
        while late.len() < self.short_lived {
            let expired =
                tokio::time::timeout(Duration::from_secs(60), store.next_expired(READER, 1000)).await??;
            let now = SystemClock.now().wall.as_millis();
            for record in &expired {
                let deadline = record.record.expires_at.map_or(now, |at| at.as_millis());
                late.record(now.saturating_sub(deadline))?;
            }
            if let Some(last) = expired.last() {
                store.acknowledge(READER, last.position).await?;
            }
        }
        store.close().await?;
        let cell = |quantile| late.value_at_quantile(quantile).to_string();
        Ok(row([backend.title(), &late.len().to_string(), &cell(0.5), &cell(0.99), &late.max().to_string()]))
    }
}

async fn insert(store: &Arc<dyn Embedded>, first: u64, count: u64, ttl: fn(u64) -> u64) -> Result<()> {
    let store = Arc::clone(store);
    let insert = move |i| {
        let store = Arc::clone(&store);
        async move {
            let (key, value) = (mayfly::key(&key(i))?, Value::new(value(i, 0))?);
            Ok(store.insert_if_not_exists(&key, value, Expiry::After(Ttl::from_millis(ttl(i))?)).await?)
        }
    };
    drive(Load { writers: 16, in_flight: 64 }, first, count, Duration::MAX / 4, insert).await?;
    Ok(())
}
