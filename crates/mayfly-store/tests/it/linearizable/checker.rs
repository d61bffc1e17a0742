//! Is there one order of all calls on a key that explains every answer, expiry included?
//!
//! The search of Wing and Gong with Lowe's memory of configurations already tried. The model's state is a value and
//! the window in which its expiry instant lies: a store may count a ttl from any moment between the call of the
//! write and its taking effect. A read may answer "absent" only if the instant can have come, and a value only if it can still
//! lie ahead; either answer narrows the window.

use std::collections::HashSet;

use super::history::{Answer, Ask, Call, Nanos, Number};

/// A store counts whole milliseconds and may round the moment of a write up or down.
const GRAIN: Nanos = 1_000_000;

/// The calls that have been put in order, one bit each.
type Placed = [u64; Placement::WORDS];

/// What the key holds: none, or a value and when at the earliest and at the latest it expires.
type State = Option<(Number, Nanos, Nanos)>;

/// When the next call in the order takes effect: after all calls placed before it have begun, and before any call
/// placed later has ended.
#[derive(Clone, Copy)]
struct Instant {
    earliest: Nanos,
    latest: Nanos,
}

struct Placement<'a> {
    calls: &'a [Call],
    tried: HashSet<(Placed, State)>,
}

/// Whether the calls on one key have an order that explains them.
pub(crate) fn is_linearizable(calls: &[Call]) -> bool {
    assert!(calls.len() <= Placement::WORDS * 64, "at most {} calls per key", Placement::WORDS * 64);
    let mut placement = Placement { calls, tried: HashSet::new() };
    placement.search([0; Placement::WORDS], None, 0)
}

/// The call whose end is the first moment that no order explains. Calls still open at that moment may or may not
/// have happened.
pub(crate) fn first_unexplained(calls: &[Call]) -> Option<Call> {
    let mut ends: Vec<Call> = calls.iter().filter(|call| call.ended < Nanos::MAX).copied().collect();
    ends.sort_by_key(|call| call.ended);
    ends.into_iter().find(|last| {
        let begun = calls.iter().filter(|call| call.began <= last.ended);
        let until: Vec<Call> = begun
            .filter(|call| call.ended <= last.ended || !matches!(call.ask, Ask::Get(_) | Ask::IsAlive))
            .map(|call| match call.ended <= last.ended {
                true => *call,
                false => Call { answer: Answer::Unknown, ended: Nanos::MAX, ..*call },
            })
            .collect();
        !is_linearizable(&until)
    })
}

impl Placement<'_> {
    const WORDS: usize = 8;

    fn search(&mut self, placed: Placed, state: State, after: Nanos) -> bool {
        let open: Vec<usize> =
            (0..self.calls.len()).filter(|call| placed[call / 64] & (1 << (call % 64)) == 0).collect();
        // A write of unknown outcome need not have happened.
        if open.iter().all(|call| self.calls[*call].answer == Answer::Unknown) {
            return true;
        }
        let latest = open.iter().map(|call| self.calls[*call].ended).min().unwrap_or(Nanos::MAX);
        let state = state.filter(|(.., expires)| *expires > after);
        if !self.tried.insert((placed, state)) {
            return false;
        }
        for call in open {
            let next = &self.calls[call];
            if next.began > latest {
                continue;
            }
            let now = Instant { earliest: after.max(next.began), latest };
            let mut with = placed;
            with[call / 64] |= 1 << (call % 64);
            for state in outcomes(next, state, now).into_iter().flatten() {
                if self.search(with, state, now.earliest) {
                    return true;
                }
            }
        }
        false
    }
}

/// The states in which the key can be after `call` answered as it did; up to two, as a refusal may have two reasons.
fn outcomes(call: &Call, state: State, now: Instant) -> [Option<State>; 2] {
    let absent = can_be_absent(state, now).then_some(None);
    let alive = if_alive(state, now);
    let one = |state: Option<State>| [state, None];
    match (call.ask, call.answer) {
        (Ask::Put { new, ttl }, _) => one(Some(written(new, ttl, call, now))),
        (Ask::Insert { new, ttl }, Answer::Done(true) | Answer::Unknown) => {
            one(absent.map(|_| written(new, ttl, call, now)))
        }
        (Ask::Insert { .. }, Answer::Done(false)) => one(alive.map(Some)),
        (Ask::Swap { expected, new, ttl }, Answer::Done(true) | Answer::Unknown) => {
            one(alive.filter(|(held, ..)| *held == expected).map(|_| written(new, ttl, call, now)))
        }
        (Ask::Delete { expected }, Answer::Done(true) | Answer::Unknown) => {
            one(alive.filter(|(held, ..)| *held == expected).map(|_| None))
        }
        (Ask::Swap { expected, .. } | Ask::Delete { expected }, Answer::Done(false)) => {
            [absent, alive.filter(|(held, ..)| *held != expected).map(Some)]
        }
        (Ask::Get(_), Answer::Found(Some(found))) => one(alive.filter(|(held, ..)| *held == found).map(Some)),
        (Ask::IsAlive, Answer::Alive(true)) => one(alive.map(Some)),
        (Ask::Get(_), Answer::Found(None)) | (Ask::IsAlive, Answer::Alive(false)) => one(absent),
        _ => unreachable!("an answer to another question: {call}"),
    }
}

fn written(new: Number, ttl: Option<Nanos>, call: &Call, now: Instant) -> State {
    Some(match ttl {
        None => (new, Nanos::MAX, Nanos::MAX),
        Some(ttl) => {
            let latest = now.latest.saturating_add(ttl).saturating_add(GRAIN);
            (new, (call.began + ttl).saturating_sub(GRAIN), latest)
        }
    })
}

fn can_be_absent(state: State, now: Instant) -> bool {
    state.is_none_or(|(_, earliest, _)| earliest <= now.latest)
}

/// The live record, with a window narrowed to what lies ahead.
fn if_alive(state: State, now: Instant) -> Option<(Number, Nanos, Nanos)> {
    let (held, earliest, latest) = state?;
    (latest > now.earliest).then_some((held, earliest.max(now.earliest), latest))
}
