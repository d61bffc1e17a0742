//! The engines under test behind one small trait. Each adapter is a file here; bbolt is a program of its own.
//!
//! redb, LMDB and fjall share the committer of `grouped.rs`, which gives them group commit.

mod fjall;
mod grouped;
mod lmdb;
pub mod mayfly;
mod redb;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use async_trait::async_trait;
use bytes::Bytes;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::record::{Key, Record};
use grouped::Grouped;

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Name {
    /// Mayfly's file backend.
    Mayfly,
    /// Mayfly's memory backend; nothing of it is durable.
    MayflyMem,
    /// fjall 3 with expiry as a compaction filter.
    Fjall,
    /// redb with an expiry index.
    Redb,
    /// LMDB (heed) with an expiry index.
    Lmdb,
    /// Voedger's design on bbolt, in Go.
    Bbolt,
}

/// Which time the engine goes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Time {
    /// The system's. The peers take it once, when they are opened.
    Real,
    /// One that only [`Engine::pass`] moves.
    Manual,
}

/// A store as the workloads see it. A write is durable once its future is ready.
#[async_trait]
pub trait Engine: Send + Sync + 'static {
    /// Inserts if no live record is there.
    async fn insert(&self, record: Record) -> Result<bool>;

    /// Replaces value and expiry if the value is as expected.
    async fn swap(&self, key: Key, expected: Bytes, new: Bytes, ttl: u64) -> Result<bool>;

    /// Reads one key after the other; says how many live records it found.
    async fn get_each(&self, keys: &[Key]) -> Result<u64>;

    /// Reads up to `limit` records from each start to the end of its partition; says how many records came.
    async fn range_each(&self, starts: &[Key], limit: usize) -> Result<u64>;

    /// Lets manual time pass; what has expired thereby begins to be reclaimed.
    fn pass(&self, duration: Duration);

    /// Does now what the engine has put off for the sake of throughput: compacts where that frees space.
    fn reclaim(&self) -> Result<()>;

    /// Whether it knows of expired records that it has not deleted yet.
    fn reclaiming(&self) -> bool;

    /// Closes the store as a program that ends in order would.
    async fn close(&self) -> Result<()>;
}

/// Opens or creates a store in a directory.
pub fn open(name: Name, dir: &Path, time: Time) -> Result<Arc<dyn Engine>> {
    std::fs::create_dir_all(dir)?;
    let now = grouped::Now::new(time);
    Ok(match name {
        Name::Mayfly => Arc::new(mayfly::Adapter::open(mayfly::Backend::File, dir, time)?),
        Name::MayflyMem => Arc::new(mayfly::Adapter::open(mayfly::Backend::Mem, dir, time)?),
        Name::Fjall => Arc::new(Grouped::start(fjall::Fjall::open(dir, now.clone())?, now)),
        Name::Redb => Arc::new(Grouped::start(redb::Redb::open(dir)?, now)),
        Name::Lmdb => Arc::new(Grouped::start(lmdb::Lmdb::open(dir)?, now)),
        Name::Bbolt => anyhow::bail!("bbolt runs in its own program"),
    })
}

impl Name {
    /// As tables call it.
    pub fn title(self) -> &'static str {
        match self {
            Self::Mayfly => "Mayfly file",
            Self::MayflyMem => "Mayfly mem",
            Self::Fjall => "fjall",
            Self::Redb => "redb",
            Self::Lmdb => "LMDB",
            Self::Bbolt => "bbolt (Voedger)",
        }
    }

    /// As the command line calls it.
    pub fn argument(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}
