//! Where the records are: today a directory, opened by this process alone.
//!
//! The commands see a store and a clock, so that a server's address can stand in the directory's place.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use mayfly_store::{Clock, Error, ErrorKind, FileOptions, FileStore, Store, SystemClock, Timestamp};

use crate::exit::Misuse;

/// The place that `--data` names.
#[derive(Debug, Args)]
pub(crate) struct Data {
    /// The data directory
    #[arg(
        long,
        global = true,
        env = "MAYFLY_DATA",
        default_value = "./mayfly-data",
        value_name = "DIR",
        help_heading = "Global options"
    )]
    data: PathBuf,
}

impl Data {
    /// Opens the store, and makes the directory if it is missing.
    pub(crate) fn create(&self) -> anyhow::Result<Box<dyn Store>> {
        Ok(Box::new(self.create_directory()?))
    }

    /// Opens the store. A mistyped directory is an error here, not a new and empty store.
    pub(crate) fn open(&self) -> anyhow::Result<Box<dyn Store>> {
        Ok(Box::new(self.open_directory()?))
    }

    /// The same for the commands that are about files.
    pub(crate) fn open_directory(&self) -> anyhow::Result<FileStore> {
        self.check_is_path()?;
        if !self.data.is_dir() {
            let message = format!("there is no data directory at {}; `put` makes one", self.data.display());
            return Err(Error::new(ErrorKind::Unavailable, message).into());
        }
        self.create_directory()
    }

    fn create_directory(&self) -> anyhow::Result<FileStore> {
        self.check_is_path()?;
        Ok(FileStore::open(&self.data, FileOptions::default(), Arc::new(SystemClock))?)
    }

    fn check_is_path(&self) -> Result<(), Misuse> {
        if self.data.to_str().is_some_and(|data| data.contains("://")) {
            let message =
                format!("{} is an address: this version opens directories only", self.data.display());
            return Err(Misuse::new(message));
        }
        Ok(())
    }

    /// The directory, to be named in output.
    pub(crate) fn path(&self) -> &Path {
        &self.data
    }
}

/// What the wall clock shows.
pub(crate) fn now() -> Timestamp {
    SystemClock.now().wall
}
