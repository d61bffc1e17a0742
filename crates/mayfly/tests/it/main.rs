//! Runs the real binary on temporary directories.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod conditions;
mod damage;
mod listing;
mod locking;
mod manual;
mod pipes;
mod records;
mod shell;
mod statistics;
mod terminal;
mod usage;
