//! What the kernel knows about this process: CPU, bytes written, memory; and what a directory occupies.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

/// CPU time of this process so far, user and system.
pub fn cpu() -> Duration {
    // SAFETY: `rusage` is plain numbers, for which zero is a value, and the pointer is valid for the call.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    let time = |t: libc::timeval| Duration::new(t.tv_sec as u64, t.tv_usec as u32 * 1000);
    time(usage.ru_utime) + time(usage.ru_stime)
}

/// Bytes this process caused to be sent to the disk so far, in whole pages, as the kernel counts them.
pub fn written() -> Result<u64> {
    field("/proc/self/io", "write_bytes:")
}

/// Anonymous memory of this process: heap and stacks, without files mapped into it.
pub fn memory() -> Result<u64> {
    // SAFETY: takes no pointer; it only gives free pages of the heap back to the kernel.
    unsafe { libc::malloc_trim(0) };
    Ok(field("/proc/self/status", "RssAnon:")? * 1024)
}

fn field(file: &str, name: &str) -> Result<u64> {
    let text = fs::read_to_string(file).with_context(|| format!("reading {file}"))?;
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|rest| rest.split_whitespace().next()).and_then(|word| word.parse().ok());
    number.with_context(|| format!("{file} has no number called {name}"))
}

/// Bytes a directory occupies on its disk, holes left out.
pub fn disk(dir: &Path) -> Result<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(dir).with_context(|| format!("listing {}", dir.display()))? {
        let entry = entry?;
        // A background thread may have unlinked the file between the listing and now.
        let Ok(metadata) = entry.metadata() else { continue };
        sum += if metadata.is_dir() { disk(&entry.path())? } else { metadata.blocks() * 512 };
    }
    Ok(sum)
}

/// Waits until this process has been idle for `quiet`: background work is done.
pub fn settle(quiet: Duration) {
    const STEP: Duration = Duration::from_millis(10);
    let mut calm = Duration::ZERO;
    let mut before = cpu();
    while calm < quiet {
        thread::sleep(STEP);
        let now = cpu();
        calm = if now - before < STEP / 10 { calm + STEP } else { Duration::ZERO };
        before = now;
    }
}
