//! How a file store behaves, as plain data.

use std::time::Duration;

/// When a write counts as done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sync {
    /// After it reached the disk; writers that wait at the same time share one sync. Survives power loss.
    Always,
    /// At once; the disk follows within this time. Survives `kill -9`; power loss may take the last interval.
    Interval(Duration),
    /// At once; the disk follows when the system likes. Survives `kill -9`.
    Never,
}

/// The settings of a [`FileStore`](crate::FileStore).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileOptions {
    /// When a write counts as done. [`Sync::Always`] unless told otherwise.
    pub sync: Sync,
    /// How large a data file grows before the next one is begun: 64 KiB to 1 GiB, 64 MiB unless told otherwise.
    pub segment_bytes: u64,
}

impl Default for FileOptions {
    fn default() -> Self {
        Self { sync: Sync::Always, segment_bytes: 64 << 20 }
    }
}
