//! Runs the real binary on temporary directories.

mod conditions;
mod damage;
mod listing;
mod locking;
mod manual;
mod pipes;
mod records;
mod shell;
mod statistics;
mod usage;
