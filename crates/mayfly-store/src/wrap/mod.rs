//! Stores over stores. Each passes the conformance suite, as the stores below them do.

pub mod faulty;

pub use faulty::FaultyStore;
