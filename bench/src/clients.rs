//! The clients: so many writers, each with so many operations in flight.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use hdrhistogram::Histogram;

/// How many clients there are, and how much each has under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    pub writers: usize,
    pub in_flight: usize,
}

/// What the clients saw.
#[derive(Debug)]
pub struct Seen {
    /// Operations finished.
    pub done: u64,
    /// Of these, how many took effect.
    pub applied: u64,
    /// From the first operation to the last answer.
    pub took: Duration,
    /// How long each operation took, in microseconds.
    pub wait: Histogram<u64>,
}

/// An empty histogram of microseconds with two significant digits.
pub fn micros() -> Histogram<u64> {
    Histogram::new(2).expect("two significant digits are allowed")
}

/// Runs `operation` on the numbers of `first..first + count`, until all are done or `limit` is over.
pub async fn drive<O, F>(load: Load, first: u64, count: u64, limit: Duration, operation: O) -> Result<Seen>
where
    O: Fn(u64) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Result<bool>> + Send + 'static,
{
    let start = Instant::now();
    let next = Arc::new(AtomicU64::new(first));
    let writers: Vec<_> = (0..load.writers)
        .map(|_| {
            tokio::spawn(writer(
                load.in_flight,
                Arc::clone(&next),
                first + count,
                start + limit,
                operation.clone(),
            ))
        })
        .collect();
    let mut seen = Seen { done: 0, applied: 0, took: Duration::ZERO, wait: micros() };
    for writer in writers {
        let (applied, wait) = writer.await??;
        seen.done += wait.len();
        seen.applied += applied;
        seen.wait.add(&wait)?;
    }
    seen.took = start.elapsed();
    Ok(seen)
}

async fn writer<O, F>(
    in_flight: usize,
    next: Arc<AtomicU64>,
    end: u64,
    until: Instant,
    operation: O,
) -> Result<(u64, Histogram<u64>)>
where
    O: Fn(u64) -> F + Send + 'static,
    F: Future<Output = Result<bool>> + Send + 'static,
{
    let timed = |i: u64, since: Instant| {
        let operation = operation(i);
        async move { operation.await.map(|applied| (applied, since)) }
    };
    let take =
        |now: Instant| (now < until).then(|| next.fetch_add(1, Ordering::Relaxed)).filter(|&i| i < end);
    let mut wait = micros();
    let mut applied = 0;
    let mut flying = FuturesUnordered::new();
    let mut now = Instant::now();
    loop {
        while flying.len() < in_flight {
            let Some(i) = take(now) else { break };
            flying.push(timed(i, now));
        }
        let Some(answer) = flying.next().await else { return Ok((applied, wait)) };
        let (took_effect, since) = answer?;
        now = Instant::now();
        applied += u64::from(took_effect);
        wait.record((now - since).as_micros() as u64)?;
    }
}
