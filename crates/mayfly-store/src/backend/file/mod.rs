//! The embedded file engine: append-only segments grouped by expiry time, an index in memory.
//!
//! A write goes `queue` → `batch` (decide) → `commit` (append, sync, make visible). A read goes `read` → index →
//! segment. `maintain` lets go of what has expired and unlinks empty segments, `regroup` moves what outlives its
//! segment, `recover` opens a directory. Bytes are in `frame` and `scan`; every call to the disk goes through `disk`.

mod batch;
mod clock_file;
mod commit;
pub mod disk;
mod engine;
mod frame;
mod maintain;
mod options;
mod queue;
mod read;
mod recover;
mod regroup;
mod scan;
mod segment;
mod segments;
mod snapshot;
mod store;
mod subscribers;
mod varint;
mod verify;
mod whole_file;

pub use options::{FileOptions, Sync};
pub use store::FileStore;
pub use verify::{Damage, VerifyProgress, VerifyReport, inspect};
