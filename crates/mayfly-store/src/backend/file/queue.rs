//! The queue between callers and the committer: everything that waits is committed together.

use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tokio::sync::oneshot;

use super::engine::closed;
use crate::error::Result;
use crate::record::{Key, Put};

/// A write that somebody asks for.
#[derive(Debug)]
pub(super) enum Op {
    /// Only if there is no live record.
    Insert(Put),
    /// Only if the live record is still the one of this write; its value was compared by the caller.
    Swap { put: Put, seq: u64 },
    /// The same, to delete it.
    Delete { key: Key, seq: u64 },
    /// Whatever is there, all or nothing.
    Puts(Vec<Put>),
}

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It was done.
    Applied,
    /// There was a live record, or none, as the case may be.
    Refused,
    /// The record changed after the caller compared it: compare again.
    Changed,
}

#[derive(Debug)]
pub(super) struct Request {
    pub(super) op: Op,
    pub(super) reply: oneshot::Sender<Result<Outcome>>,
}

/// What the committer finds.
#[derive(Debug)]
pub(super) enum Taken {
    Requests(Vec<Request>),
    /// Nothing for as long as it was willing to wait, or somebody poked it.
    Nothing,
    /// Nothing, and nothing will come.
    Closed,
}

#[derive(Debug, Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    requests: Vec<Request>,
    poked: bool,
    closed: bool,
}

impl Queue {
    /// Hands over a write and waits until it is as durable as configured.
    pub(super) async fn submit(&self, op: Op) -> Result<Outcome> {
        let (reply, answer) = oneshot::channel();
        {
            let mut state = self.state.lock();
            if state.closed {
                return Err(closed());
            }
            state.requests.push(Request { op, reply });
            if state.requests.len() == 1 {
                self.changed.notify_one();
            }
        }
        answer.await.unwrap_or_else(|_| Err(closed()))
    }

    /// Everything that waits, or `Nothing` after `at_most`.
    pub(super) fn take(&self, at_most: Duration) -> Taken {
        let mut state = self.state.lock();
        if state.requests.is_empty() && !state.closed && !state.poked {
            self.changed.wait_for(&mut state, at_most);
        }
        state.poked = false;
        match (state.requests.is_empty(), state.closed) {
            (false, _) => Taken::Requests(std::mem::take(&mut state.requests)),
            (true, false) => Taken::Nothing,
            (true, true) => Taken::Closed,
        }
    }

    /// Has the committer look around although nothing came.
    pub(super) fn poke(&self) {
        self.state.lock().poked = true;
        self.changed.notify_one();
    }

    /// The committer is gone, for whatever reason: whoever waits or comes is told that the store is closed.
    pub(super) fn abandon(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        state.requests.clear();
    }

    /// Refuses what comes from now on; what is there will be committed.
    pub(super) fn close(&self) {
        self.state.lock().closed = true;
        self.changed.notify_one();
    }
}
