//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::engine::Name;
use crate::own::{big, lateness, nothing_blocks};
use crate::workload::Job;

/// Mayfly and its peers under the same TTL workload, in one run: a table with ratios.
///
/// Without a command it compares the engines. Every engine × workload runs in a process of its own. Phases that
/// take too long end after `--seconds`; the number of records they reached is in the JSON.
#[derive(Debug, Parser)]
#[command(name = "bench/run", version, args_conflicts_with_subcommands = false)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Option<Command>,
    #[command(flatten)]
    pub compare: CompareOptions,
    #[command(flatten)]
    pub output: Output,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Many records expire at one instant of real time while 16 writers and 16 readers go on
    NothingBlocks(nothing_blocks::Options),
    /// 10 million records in one partition, and a million partitions of one record
    Big(big::Options),
    /// How late the expired feed reports a few short-lived records among many long-lived ones
    Lateness(lateness::Options),
    /// One engine under one workload; prints its metrics as JSON
    #[command(hide = true)]
    Child(Job),
    #[command(hide = true)]
    BigChild(big::Shape),
}

/// What to compare.
#[derive(Debug, Args)]
pub struct CompareOptions {
    /// Records of 16 + 100 bytes
    #[arg(long, default_value_t = 1_000_000)]
    pub records: u64,
    /// Engines, separated by commas
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Name::Mayfly, Name::MayflyMem, Name::Fjall, Name::Redb, Name::Lmdb, Name::Bbolt])]
    pub engines: Vec<Name>,
    /// Parts of the comparison, separated by commas
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Part::value_variants().to_vec())]
    pub only: Vec<Part>,
    /// How long one measured phase may take; by default 10 for a million records and less for fewer
    #[arg(long)]
    pub seconds: Option<f64>,
    /// Measures nothing: shows the results that an earlier run wrote with --json
    #[arg(long, value_name = "FILE")]
    pub from: Option<PathBuf>,
}

/// Where results go besides standard output, and where data lies meanwhile.
#[derive(Debug, Args)]
pub struct Output {
    /// Also writes the results to a file as JSON
    #[arg(long, global = true, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Rewrites the generated part of docs/benchmarks.md
    #[arg(long, global = true)]
    pub update_docs: bool,
    /// Directory for the data, on the disk to be measured
    #[arg(long, global = true, env = "MAYFLY_BENCH_DATA", default_value = "bench/target/data")]
    pub dir: PathBuf,
}

/// What `--only` chooses from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// Durable inserts: CPU and memory per record
    Insert,
    /// Point reads
    Read,
    /// Range reads of 10 records
    Range,
    /// Compare-and-swap
    Swap,
    /// Restart, clean and after kill -9
    Restart,
    /// All records expire at one instant
    Expiry,
    /// Bytes written over the life of all records
    Amplification,
}
