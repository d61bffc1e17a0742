//! The commands, one file each. A command reads its arguments, opens the store, makes one call, closes, prints.
//!
//! Input is read before the store is opened: a slow pipe must not keep the directory locked.

mod cas;
mod del;
mod get;
mod put;
mod scan;
mod stats;
mod ttl;
mod verify;

use std::ffi::OsString;

use anyhow::Context;
use clap::{Args, Parser, Subcommand};
use mayfly_store::Key;
use serde::Serialize;

use crate::address::Notation;
use crate::data::Data;
use crate::exit::Exit;
use crate::expiry::Deadline;
use crate::screen::Screen;

/// A store in which everything expires
///
/// Mayfly keeps records that die on time: sessions, codes, leases, idempotency keys. An expired record is gone at
/// once, for every command; an acknowledged write survives a crash.
#[derive(Debug, Parser)]
#[command(name = "mayfly", version, max_term_width = 100, after_help = EXAMPLES, subcommand_required = true)]
pub(crate) struct Arguments {
    #[command(flatten)]
    data: Data,

    /// Print JSON, one object a line
    #[arg(long, global = true, help_heading = "Global options")]
    pub(crate) json: bool,

    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  mayfly put sessions/alice 'logged in' --ttl 15m   write a record that lives 15 minutes
  mayfly get sessions/alice                         read it
  mayfly ttl sessions/alice                         how long it still lives
  mayfly scan sessions                              all live records of a partition, in order
  mayfly stats                                      what will expire when

Keys are written partition/sort, cut at the first slash. `mayfly put --help` tells more.

Exit codes: 0 done · 1 the answer is no (absent, not inserted, not swapped, not deleted)
            2 wrong usage · 3 storage or file not usable (missing, locked, full, newer format)
            5 damaged data · 6 unknown outcome of a write";

#[derive(Debug, Subcommand)]
enum Command {
    Put(put::Put),
    Get(get::Get),
    Ttl(ttl::QueryTtl),
    Cas(cas::Cas),
    Del(del::Del),
    Scan(scan::Scan),
    Stats(stats::Stats),
    Verify(verify::Verify),
}

/// Runs one command to its end.
pub(crate) fn run(arguments: Arguments, screen: &mut Screen) -> anyhow::Result<Exit> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().context("cannot start")?;
    let data = arguments.data;
    runtime.block_on(async {
        match arguments.command {
            Command::Put(put) => put.run(&data, screen).await,
            Command::Get(get) => get.run(&data, screen).await,
            Command::Ttl(ttl) => ttl.run(&data, screen).await,
            Command::Cas(cas) => cas.run(&data, screen).await,
            Command::Del(del) => del.run(&data, screen).await,
            Command::Scan(scan) => scan.run(&data, screen).await,
            Command::Stats(stats) => stats.run(&data, screen).await,
            Command::Verify(verify) => verify.run(&data, screen).await,
        }
    })
}

/// What became of a record, as JSON: whether the answer is yes, and the deadline where there is a live record.
#[derive(Debug, Serialize)]
struct Verdict {
    ok: bool,
    key: String,
    #[serde(flatten)]
    deadline: Option<Deadline>,
}

/// The record that a command is about.
#[derive(Debug, Args)]
struct Address {
    /// The key, partition/sort; bytes that cannot be typed are \xNN
    #[arg(value_name = "KEY")]
    key: OsString,

    #[command(flatten)]
    digits: Digits,
}

impl Address {
    fn notation(&self) -> Notation {
        self.digits.notation()
    }

    fn key(&self) -> anyhow::Result<Key> {
        self.notation().key(&self.key)
    }
}

/// How bytes are written.
#[derive(Debug, Args)]
struct Digits {
    /// Keys and values are hexadecimal digits, in arguments and in output
    #[arg(long)]
    hex: bool,
}

impl Digits {
    fn notation(&self) -> Notation {
        if self.hex { Notation::Hex } else { Notation::Text }
    }
}
