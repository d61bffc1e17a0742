//! The backends, one room each.

pub mod file;
