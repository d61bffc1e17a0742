//! Deciding what is written: every request in turn, against the index and what the same batch has decided.
//!
//! Only the committer decides, so a decision needs no lock to stay true. A record that a decision is about to
//! replace is marked pending in the index: it may pass its deadline while the disk works, yet it must not be
//! reported as expired, because the write was decided while it lived.

use std::collections::HashMap;

use foldhash::fast::FixedState;
use tokio::sync::oneshot;

use super::super::embedded::deadline::Deadline;
use super::super::embedded::timeline::Now;
use super::engine::Engine;
use super::frame::Frame;
use super::queue::{Op, Outcome, Request};
use crate::error::{Error, Result};
use crate::record::{Key, Put, Value};

/// A write that has been decided.
#[derive(Debug)]
pub(super) struct Write {
    pub(super) key: Key,
    pub(super) value: Value,
    pub(super) delete: bool,
    pub(super) deadline: Deadline,
    pub(super) guard: u64,
    pub(super) seq: u64,
    /// Whether a record of the index was marked pending for it.
    pub(super) marked: bool,
}

impl Write {
    pub(super) fn frame(&self, now: Now) -> Frame<'_> {
        Frame {
            seq: self.seq,
            delete: self.delete,
            deadline: self.deadline,
            guard: self.guard,
            written: now.line,
            key: self.key.as_bytes(),
            value: &self.value,
        }
    }
}

/// A live record as a decision sees it.
#[derive(Debug, Clone, Copy)]
struct Current {
    deadline: Deadline,
    seq: u64,
}

/// Writes that will be committed together, and who waits for them.
#[derive(Debug)]
pub(super) struct Batch<'a> {
    engine: &'a Engine,
    pub(super) now: Now,
    last_seq: u64,
    pub(super) writes: Vec<Write>,
    /// Where the writes of each request end: they become visible together.
    pub(super) units: Vec<usize>,
    waiting: Vec<(oneshot::Sender<Result<Outcome>>, Outcome)>,
    /// The state of keys as this batch leaves them; none = deleted.
    decided: HashMap<Key, Option<Current>, FixedState>,
    pub(super) bytes: usize,
}

impl<'a> Batch<'a> {
    pub(super) fn new(engine: &'a Engine, last_seq: u64) -> Self {
        Self {
            engine,
            now: engine.timeline.now(),
            last_seq,
            writes: Vec::new(),
            units: Vec::new(),
            waiting: Vec::new(),
            decided: HashMap::default(),
            bytes: 0,
        }
    }

    /// Decides one request. A refusal that rests on what is durable already is answered at once.
    pub(super) fn add(&mut self, request: Request) {
        let Request { op, reply } = request;
        let before = self.writes.len();
        let outcome = match op {
            Op::Insert(put) => self.insert(put),
            Op::Swap { put, seq } => self.swap(put, seq),
            Op::Delete { key, seq } => self.delete(key, seq),
            Op::Puts(puts) => self.puts(puts),
        };
        match outcome {
            Ok((outcome, rests_on_batch)) if self.writes.len() > before || rests_on_batch => {
                self.units.push(self.writes.len());
                self.waiting.push((reply, outcome));
            }
            Ok((outcome, _)) => drop(reply.send(Ok(outcome))),
            Err(error) => drop(reply.send(Err(error))),
        }
    }

    fn insert(&mut self, put: Put) -> Result<(Outcome, bool)> {
        let deadline = self.engine.timeline.deadline(put.expiry, self.now)?;
        let in_batch = self.decided.get(&put.key).copied();
        let live = match in_batch {
            Some(current) => current.is_some(),
            None => {
                let slot = self.engine.index.get(put.key.as_bytes());
                slot.is_some_and(|slot| !slot.deadline.is_past(self.now))
            }
        };
        if live {
            return Ok((Outcome::Refused, in_batch.is_some()));
        }
        self.write(put.key, put.value, Some(deadline), None, false);
        Ok((Outcome::Applied, true))
    }

    fn swap(&mut self, put: Put, seq: u64) -> Result<(Outcome, bool)> {
        let deadline = self.engine.timeline.deadline(put.expiry, self.now)?;
        match self.claim(&put.key, |current| current.seq == seq) {
            (Some(old), marked) => {
                self.write(put.key, put.value, Some(deadline), Some(old), marked);
                Ok((Outcome::Applied, true))
            }
            (None, _) => Ok((Outcome::Changed, self.decided.contains_key(&put.key))),
        }
    }

    fn delete(&mut self, key: Key, seq: u64) -> Result<(Outcome, bool)> {
        match self.claim(&key, |current| current.seq == seq) {
            (Some(old), marked) => {
                self.write(key, Value::default(), None, Some(old), marked);
                Ok((Outcome::Applied, true))
            }
            (None, _) => Ok((Outcome::Changed, self.decided.contains_key(&key))),
        }
    }

    fn puts(&mut self, puts: Vec<Put>) -> Result<(Outcome, bool)> {
        let deadlines: Result<Vec<Deadline>> =
            puts.iter().map(|put| self.engine.timeline.deadline(put.expiry, self.now)).collect();
        for (put, deadline) in puts.into_iter().zip(deadlines?) {
            let (old, marked) = self.claim(&put.key, |_| true);
            self.write(put.key, put.value, Some(deadline), old, marked);
        }
        Ok((Outcome::Applied, false))
    }

    /// The live record of a key if it is `wanted`, marked pending; and whether a mark was set now.
    fn claim(&mut self, key: &Key, wanted: impl FnOnce(&Current) -> bool) -> (Option<Current>, bool) {
        if let Some(current) = self.decided.get(key) {
            return (current.filter(wanted), false);
        }
        let claimed = self.engine.index.write(key.as_bytes(), |shard| {
            let now = self.engine.timeline.now();
            let slot = shard.get_mut(key.as_bytes()).filter(|slot| !slot.deadline.is_past(now))?;
            let current = Current { deadline: slot.deadline, seq: slot.seq };
            wanted(&current).then(|| {
                slot.deadline = slot.deadline.with_pending(true);
                current
            })
        });
        (claimed, claimed.is_some())
    }

    /// Adds a decided write; no deadline = delete.
    fn write(
        &mut self,
        key: Key,
        value: Value,
        deadline: Option<Deadline>,
        old: Option<Current>,
        marked: bool,
    ) {
        self.last_seq += 1;
        let seq = self.last_seq;
        self.decided.insert(key.clone(), deadline.map(|deadline| Current { deadline, seq }));
        self.bytes += key.as_bytes().len() + value.len() + 32;
        let guard = old.map_or(0, |old| guard(old.deadline, deadline));
        let delete = deadline.is_none();
        let deadline = deadline.unwrap_or(Deadline::NEVER);
        self.writes.push(Write { key, value, delete, deadline, guard, seq, marked });
    }

    /// Tells everybody that it is done.
    pub(super) fn succeed(self) {
        for (reply, outcome) in self.waiting {
            // A caller that has gone away does not want to know.
            let _ = reply.send(Ok(outcome));
        }
    }

    /// Takes the marks back and tells everybody that nothing was done.
    pub(super) fn fail(self, error: &Error) {
        for write in self.writes.iter().filter(|write| write.marked) {
            self.engine.index.write(write.key.as_bytes(), |shard| {
                if let Some(slot) = shard.get_mut(write.key.as_bytes()) {
                    slot.deadline = slot.deadline.with_pending(false);
                }
            });
        }
        for (reply, _) in self.waiting {
            let _ = reply.send(Err(error.duplicate()));
        }
    }
}

/// How long the new frame must stay to hide the old one. An old frame that dies first needs no hiding; deadlines
/// on different clocks cannot be compared, so the old one counts as the longer.
fn guard(old: Deadline, new: Option<Deadline>) -> u64 {
    match new {
        Some(new) if new.is_absolute() == old.is_absolute() && new.millis() >= old.millis() => 0,
        Some(new) if new.is_never() => 0,
        _ => old.millis(),
    }
}
