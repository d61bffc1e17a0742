//! A background thread that works, says for how long it may sleep, and can be woken earlier.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;

use crate::time::Alarm;

/// The bell of a janitor: writers ring it when they bring something that is due before it meant to wake.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    alarm: Arc<Alarm>,
    /// The time on the line at which the janitor means to wake; `u64::MAX` while it decides.
    planned: AtomicU64,
    stop: AtomicBool,
}

impl Bell {
    pub(crate) fn alarm(&self) -> &Arc<Alarm> {
        &self.alarm
    }

    /// Wakes the janitor if it would sleep beyond `due`.
    pub(crate) fn ring_for(&self, due: u64) {
        if due < self.planned.load(Ordering::Acquire) {
            self.planned.store(due, Ordering::Release);
            self.alarm.ring();
        }
    }

    /// Plans the next wake. `next` is asked after the bell is armed, so that nothing slips in between.
    pub(crate) fn plan(&self, next: impl FnOnce() -> u64) -> u64 {
        self.planned.store(u64::MAX, Ordering::Release);
        let next = next();
        self.planned.fetch_min(next, Ordering::AcqRel);
        next
    }
}

/// A thread that runs until it is stopped or dropped.
#[derive(Debug)]
pub(crate) struct Janitor {
    bell: Arc<Bell>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Janitor {
    /// Starts the thread: `work` returns how long to sleep.
    pub(crate) fn start(
        name: &str,
        bell: Arc<Bell>,
        mut work: impl FnMut() -> Duration + Send + 'static,
    ) -> std::io::Result<Self> {
        let theirs = bell.clone();
        let thread = std::thread::Builder::new().name(name.into()).spawn(move || {
            while !theirs.stop.load(Ordering::Acquire) {
                let pause = work();
                theirs.alarm.wait(pause);
            }
        })?;
        Ok(Self { bell, thread: Mutex::new(Some(thread)) })
    }

    /// Ends the thread after its current round.
    pub(crate) fn stop(&self) {
        self.bell.stop.store(true, Ordering::Release);
        self.bell.alarm.ring();
        if let Some(thread) = self.thread.lock().take() {
            // A panic in there has been reported by the panic hook; there is nothing to add.
            let _ = thread.join();
        }
    }
}

impl Drop for Janitor {
    fn drop(&mut self) {
        self.stop();
    }
}
