//! The backends, one room each; what the embedded ones share is in `embedded`.

mod embedded;
pub mod file;
mod mem;

pub use file::{Damage, FileOptions, FileStore, Sync, VerifyProgress, VerifyReport};
pub use mem::MemStore;
