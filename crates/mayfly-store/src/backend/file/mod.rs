//! The embedded file engine.

pub mod disk;
