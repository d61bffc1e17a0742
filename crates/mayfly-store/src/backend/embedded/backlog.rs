//! Expired records that some subscriber has not acknowledged yet, in expiry order.
//!
//! Kept only while there are subscribers. The engines resolve what lies here into values, and make the cursors
//! durable if they can.

use std::collections::{BTreeMap, VecDeque};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::deadline::Deadline;
use super::index::Slot;
use super::timeline::Now;
use crate::error::{Error, ErrorKind, Result};
use crate::feed::{FeedCursor, FeedPosition};
use crate::record::Key;

/// The longest name of a subscriber, in bytes.
pub(crate) const MAX_NAME: usize = 255;

#[derive(Debug)]
pub(crate) struct Backlog<P> {
    state: Mutex<State<P>>,
    arrived: Notify,
}

#[derive(Debug)]
struct State<P> {
    subscribers: BTreeMap<String, Subscriber>,
    queue: VecDeque<(Key, Slot<P>)>,
    /// How many items have left the queue: item `n` of all time is at `n - gone`.
    gone: u64,
}

#[derive(Debug, Clone, Copy)]
struct Subscriber {
    cursor: FeedCursor,
    /// The first item of all time that it has not acknowledged.
    next: u64,
}

impl<P: Clone> Backlog<P> {
    /// `subscribers` as the disk knows them; `items` in expiry order.
    pub(crate) fn new(subscribers: BTreeMap<String, FeedCursor>, items: Vec<(Key, Slot<P>)>) -> Self {
        let subscribers = subscribers
            .into_iter()
            .map(|(name, cursor)| (name, Subscriber { cursor, next: 0 }))
            .collect::<BTreeMap<_, _>>();
        let mut state = State { subscribers, queue: items.into(), gone: 0 };
        state.skip_acknowledged();
        Self { state: Mutex::new(state), arrived: Notify::new() }
    }

    pub(crate) fn has_subscribers(&self) -> bool {
        !self.state.lock().subscribers.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.state.lock().queue.len()
    }

    pub(crate) fn cursors(&self) -> BTreeMap<String, FeedCursor> {
        self.state.lock().subscribers.iter().map(|(name, of)| (name.clone(), of.cursor)).collect()
    }

    /// Every item that waits, oldest first.
    pub(crate) fn items(&self) -> Vec<(Key, Slot<P>)> {
        self.state.lock().queue.iter().cloned().collect()
    }

    /// Adds what has just expired; the caller has put it in order. Returns what nobody waits for.
    pub(crate) fn push(&self, items: Vec<(Key, Slot<P>)>) -> Vec<(Key, Slot<P>)> {
        if items.is_empty() {
            return items;
        }
        let mut state = self.state.lock();
        state.queue.extend(items);
        state.skip_acknowledged();
        self.arrived.notify_waiters();
        state.trim()
    }

    /// True iff the name is new; it begins at `cursor`.
    pub(crate) fn subscribe(&self, name: &str, cursor: FeedCursor) -> Result<bool> {
        if name.is_empty() || name.len() > MAX_NAME {
            let message =
                format!("a subscriber's name has 1 to {MAX_NAME} bytes; this one has {}", name.len());
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
        let mut state = self.state.lock();
        let next = state.gone + state.queue.len() as u64;
        let known = state.subscribers.contains_key(name);
        state.subscribers.entry(name.to_owned()).or_insert(Subscriber { cursor, next });
        Ok(!known)
    }

    /// Whether it was known, and the items that nobody waits for any more.
    pub(crate) fn unsubscribe(&self, name: &str) -> (bool, Vec<(Key, Slot<P>)>) {
        let mut state = self.state.lock();
        let known = state.subscribers.remove(name).is_some();
        (known, state.trim())
    }

    /// Waits for items that `name` has not acknowledged; each with the position that acknowledges it.
    /// `check` is asked before each look, and ends the wait with its error.
    pub(crate) async fn next(
        &self,
        name: &str,
        limit: usize,
        check: impl Fn() -> Result<()>,
    ) -> Result<Vec<(Key, Slot<P>, FeedPosition)>> {
        loop {
            let arrived = self.arrived.notified();
            tokio::pin!(arrived);
            arrived.as_mut().enable();
            check()?;
            let items = self.peek(name, limit)?;
            if !items.is_empty() {
                return Ok(items);
            }
            arrived.await;
        }
    }

    fn peek(&self, name: &str, limit: usize) -> Result<Vec<(Key, Slot<P>, FeedPosition)>> {
        let state = self.state.lock();
        let Subscriber { mut cursor, next } = *state.subscribers.get(name).ok_or_else(|| unknown(name))?;
        let items = state.queue.iter().skip((next - state.gone) as usize).take(limit.max(1));
        let with_position = items.map(|(key, slot)| {
            cursor.pass(slot.deadline, slot.seq);
            (key.clone(), slot.clone(), FeedPosition { cursor })
        });
        Ok(with_position.collect())
    }

    /// Moves `name` past `position`; returns the items that nobody waits for any more.
    pub(crate) fn acknowledge(&self, name: &str, position: FeedPosition) -> Result<Vec<(Key, Slot<P>)>> {
        let mut state = self.state.lock();
        let subscriber = state.subscribers.get_mut(name).ok_or_else(|| unknown(name))?;
        subscriber.cursor = subscriber.cursor.max(position.cursor);
        state.skip_acknowledged();
        Ok(state.trim())
    }

    /// Wakes everybody who waits, so that they notice that the store is closed.
    pub(crate) fn wake(&self) {
        self.arrived.notify_waiters();
    }
}

impl<P> State<P> {
    fn skip_acknowledged(&mut self) {
        for subscriber in self.subscribers.values_mut() {
            let items = self.queue.iter().skip((subscriber.next - self.gone) as usize);
            let passed = items.take_while(|(_, slot)| subscriber.cursor.has_passed(slot.deadline, slot.seq));
            subscriber.next += passed.count() as u64;
        }
    }

    fn trim(&mut self) -> Vec<(Key, Slot<P>)> {
        let end = self.gone + self.queue.len() as u64;
        let needed = self.subscribers.values().map(|subscriber| subscriber.next).min().unwrap_or(end);
        let count = (needed - self.gone) as usize;
        self.gone = needed;
        self.queue.drain(..count).collect()
    }
}

fn unknown(name: &str) -> Error {
    Error::new(ErrorKind::InvalidArgument, format!("no subscriber is called {name:?}: subscribe first"))
}

impl FeedCursor {
    /// Before which everything has expired already: where a new subscriber begins.
    pub(crate) fn at(now: Now) -> Self {
        Self { relative: (now.line, u64::MAX), absolute: (now.wall, u64::MAX) }
    }

    fn pass(&mut self, deadline: Deadline, seq: u64) {
        let kind = if deadline.is_absolute() { &mut self.absolute } else { &mut self.relative };
        *kind = (*kind).max((deadline.millis(), seq));
    }

    /// Whether an expiry lies at or before this cursor.
    pub(crate) fn has_passed(&self, deadline: Deadline, seq: u64) -> bool {
        let kind = if deadline.is_absolute() { self.absolute } else { self.relative };
        (deadline.millis(), seq) <= kind
    }

    fn max(self, other: Self) -> Self {
        Self { relative: self.relative.max(other.relative), absolute: self.absolute.max(other.absolute) }
    }
}
