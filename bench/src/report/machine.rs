//! The machine a run took place on, with its load before and after: figures mean little without them.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// What the kernel tells about the machine.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Machine {
    pub cores: usize,
    pub processor: String,
    pub kernel: String,
    pub filesystem: String,
    pub memory_gb: f64,
    /// Load averages over 1, 5 and 15 minutes.
    pub load_before: String,
    pub load_after: String,
}

impl Machine {
    /// Looks at the machine and at the filesystem that `dir` lies on.
    pub fn look(dir: &Path) -> Result<Self> {
        Ok(Self {
            cores: std::thread::available_parallelism()?.get(),
            processor: line("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown".to_owned()),
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease")?.trim().to_owned(),
            filesystem: filesystem(dir)?,
            memory_gb: memory().context("/proc/meminfo has no MemTotal")?,
            load_before: load()?,
            load_after: String::new(),
        })
    }

    /// Notes the load at the end of the run.
    pub fn finish(&mut self) -> Result<()> {
        self.load_after = load()?;
        Ok(())
    }

    /// One line.
    pub fn describe(&self) -> String {
        format!(
            "{} cores ({}), {:.0} GB, Linux {}, {}; load average {} before, {} after.",
            self.cores,
            self.processor,
            self.memory_gb,
            self.kernel,
            self.filesystem,
            self.load_before,
            self.load_after
        )
    }
}

fn load() -> Result<String> {
    let text = fs::read_to_string("/proc/loadavg")?;
    Ok(text.split(' ').take(3).collect::<Vec<_>>().join(" "))
}

fn memory() -> Option<f64> {
    let kilobytes: f64 = line("/proc/meminfo", "MemTotal")?.split(' ').next()?.parse().ok()?;
    Some(kilobytes / 1e6)
}

fn line(file: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let (_, value) = text.lines().find(|line| line.starts_with(name))?.split_once(':')?;
    Some(value.trim().to_owned())
}

/// The type of the filesystem mounted nearest above `dir`.
fn filesystem(dir: &Path) -> Result<String> {
    let dir = dir.canonicalize()?;
    let mounts = fs::read_to_string("/proc/self/mounts")?;
    let nearest = mounts
        .lines()
        .filter_map(|line| {
            let mut words = line.split(' ').skip(1);
            Some((words.next()?, words.next()?))
        })
        .filter(|(point, _)| dir.starts_with(point))
        .max_by_key(|(point, _)| point.len());
    Ok(nearest.map_or("unknown", |(_, kind)| kind).to_owned())
}
