//! The file layer under the engine: a trait small enough to fail on purpose, and the real directory.
//!
//! Everything that the engine does to a disk goes through here, so that crash tests can forget unsynced
//! writes, tear the last one, and fail any call.

use std::any::Any;
use std::fmt;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A flat directory of files.
pub trait Disk: fmt::Debug + Send + Sync + 'static {
    /// Keeps other processes away until the returned guard is dropped. `WouldBlock` if another has it.
    fn lock(&self) -> io::Result<Box<dyn Any + Send + Sync>>;

    /// The names of all files.
    fn list(&self) -> io::Result<Vec<String>>;

    /// A new, empty file, open for reading and writing; one of that name is emptied.
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;

    /// An existing file, open for reading and writing.
    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;

    /// Renames, replacing what is there.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Unlinks. Files that are open stay readable through their handles.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Makes creations, renames and removals durable.
    fn sync_dir(&self) -> io::Result<()>;
}

/// An open file.
pub trait DiskFile: fmt::Debug + Send + Sync + 'static {
    /// Reads up to `buffer.len()` bytes; 0 = end of file.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes some of `bytes`, at least one unless it fails.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;

    /// Makes what was written, and the length, durable.
    fn sync_data(&self) -> io::Result<()>;

    /// The length in bytes.
    fn size(&self) -> io::Result<u64>;

    /// Cuts or extends to this length.
    fn truncate(&self, size: u64) -> io::Result<()>;
}

impl dyn DiskFile {
    /// Writes all of `bytes`, however many calls it takes.
    pub(crate) fn write_all_at(&self, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.write_at(bytes, offset) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    bytes = &bytes[written..];
                    offset += written as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Fills `buffer`, or says `UnexpectedEof`.
    pub(crate) fn read_exact_at(&self, mut buffer: &mut [u8], mut offset: u64) -> io::Result<()> {
        while !buffer.is_empty() {
            match self.read_at(buffer, offset) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => {
                    buffer = &mut buffer[read..];
                    offset += read as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The whole content.
    pub(crate) fn read_all(&self) -> io::Result<Vec<u8>> {
        let mut content = vec![0; self.size()? as usize];
        self.read_exact_at(&mut content, 0)?;
        Ok(content)
    }
}

/// A real directory.
#[derive(Debug)]
pub struct RealDisk {
    dir: PathBuf,
}

const LOCK_FILE: &str = "LOCK";

impl RealDisk {
    /// Makes the directory if it is missing.
    pub fn open(dir: impl AsRef<Path>) -> io::Result<Self> {
        std::fs::create_dir_all(&dir)?;
        Ok(Self { dir: dir.as_ref().to_path_buf() })
    }
}

impl Disk for RealDisk {
    fn lock(&self) -> io::Result<Box<dyn Any + Send + Sync>> {
        let path = self.dir.join(LOCK_FILE);
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Box::new(Lock(file))),
            Err(TryLockError::WouldBlock) => Err(io::ErrorKind::WouldBlock.into()),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.dir)? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                names.extend(entry.file_name().into_string().ok());
            }
        }
        Ok(names)
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(self.dir.join(name))?;
        Ok(Arc::new(RealFile(file)))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let file = OpenOptions::new().read(true).write(true).open(self.dir.join(name))?;
        Ok(Arc::new(RealFile(file)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.dir.join(from), self.dir.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        std::fs::remove_file(self.dir.join(name))
    }

    fn sync_dir(&self) -> io::Result<()> {
        File::open(&self.dir)?.sync_all()
    }
}

/// Holds the lock file. Closing it is not enough to unlock: a process that another thread is just forking shares
/// the open file until it runs its own program.
#[derive(Debug)]
struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        if let Err(error) = self.0.unlock() {
            tracing::warn!(%error, "cannot unlock the data directory");
        }
    }
}

#[derive(Debug)]
struct RealFile(File);

impl DiskFile for RealFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.0.write_at(bytes, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn truncate(&self, size: u64) -> io::Result<()> {
        self.0.set_len(size)
    }
}
