//! A store that fails on demand: errors, delays, calls that hang, and writes whose outcome nobody knows.
//!
//! For the tests of whatever is built on a store. Without faults it is the store below it, case by case.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::StreamExt;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::error::{Error, ErrorKind, Result};
use crate::record::{Entry, Key, Put, Range, Value};
use crate::store::{RecordStream, Store, TtlState};
use crate::time::Expiry;

/// The operations of a [`Store`], to aim faults at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "each is named after its method")]
pub enum Operation {
    Get,
    GetBatch,
    PutBatch,
    Insert,
    Swap,
    Delete,
    Read,
    QueryTtl,
    Close,
}

impl Operation {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Get,
        Self::GetBatch,
        Self::PutBatch,
        Self::Insert,
        Self::Swap,
        Self::Delete,
        Self::Read,
        Self::QueryTtl,
        Self::Close,
    ];

    fn writes(self) -> bool {
        matches!(self, Self::PutBatch | Self::Insert | Self::Swap | Self::Delete)
    }
}

/// What goes wrong with one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The call fails with this kind and changes nothing.
    Fail(ErrorKind),
    /// The call fails with [`UnknownOutcome`](ErrorKind::UnknownOutcome), and the write below it has happened or
    /// not. A call that writes nothing fails with [`Unavailable`](ErrorKind::Unavailable) instead.
    Unknown {
        /// Whether the write has happened.
        applied: bool,
    },
    /// The call is made after this time.
    Delay(Duration),
    /// The call is made once [`FaultyStore::heal`] is called; if nobody does, it hangs for ever.
    Hang,
    /// A range read that breaks off with [`Unavailable`](ErrorKind::Unavailable) after so many records.
    /// No fault for the other operations.
    BreakOff(usize),
}

/// How often calls go wrong by chance, each share from 0.0 to 1.0 of all calls.
#[derive(Debug, Clone, Copy, Default)]
pub struct Odds {
    /// Calls that fail with [`Unavailable`](ErrorKind::Unavailable).
    pub fail: f64,
    /// Calls with an unknown outcome; half of their writes happen.
    pub unknown: f64,
    /// Calls that are delayed.
    pub delay: f64,
    /// The longest delay; the shortest is nothing.
    pub longest_delay: Duration,
}

#[derive(Debug)]
struct Plan {
    queued: Vec<(Operation, VecDeque<Fault>)>,
    odds: Odds,
    random: u64,
    injected: u64,
}

/// A store over a store, whose calls go wrong as a test plans.
#[derive(Debug)]
pub struct FaultyStore {
    below: Arc<dyn Store>,
    plan: Mutex<Plan>,
    healed: watch::Sender<u64>,
}

impl FaultyStore {
    /// No faults until some are planned.
    pub fn new(below: Arc<dyn Store>) -> Self {
        let plan = Plan { queued: Vec::new(), odds: Odds::default(), random: 0, injected: 0 };
        Self { below, plan: Mutex::new(plan), healed: watch::Sender::new(0) }
    }

    /// The next `times` calls of `operation` get this fault, after those planned before.
    pub fn plan(&self, operation: Operation, times: usize, fault: Fault) {
        let faults = std::iter::repeat_n(fault, times);
        let queued = &mut self.plan.lock().queued;
        match queued.iter_mut().find(|(planned, _)| *planned == operation) {
            Some((_, queue)) => queue.extend(faults),
            None => queued.push((operation, faults.collect())),
        }
    }

    /// From now on calls without a planned fault go wrong by chance; the same seed gives the same faults to the
    /// same sequence of calls.
    pub fn set_odds(&self, odds: Odds, seed: u64) {
        let mut plan = self.plan.lock();
        plan.odds = odds;
        plan.random = seed;
    }

    /// Forgets all planned faults and odds, and lets hanging calls go on.
    pub fn heal(&self) {
        let mut plan = self.plan.lock();
        plan.queued.clear();
        plan.odds = Odds::default();
        drop(plan);
        self.healed.send_modify(|times| *times += 1);
    }

    /// How many faults have been injected.
    pub fn injected(&self) -> u64 {
        self.plan.lock().injected
    }

    /// Takes the fault of a call out of the plan.
    fn draw(&self, operation: Operation) -> Option<Fault> {
        let mut plan = self.plan.lock();
        let queue = plan.queued.iter_mut().find(|(planned, _)| *planned == operation);
        let fault = match queue.and_then(|(_, queue)| queue.pop_front()) {
            Some(fault) => Some(fault),
            None => plan.by_chance(),
        };
        plan.injected += u64::from(fault.is_some());
        fault
    }

    /// Makes a call with whatever fault is planned for it.
    async fn call<T>(&self, operation: Operation, call: impl Future<Output = Result<T>> + Send) -> Result<T> {
        // Subscribed before the fault is drawn, so that no healing in between is missed.
        let mut healed = self.healed.subscribe();
        match self.draw(operation) {
            None | Some(Fault::BreakOff(_)) => call.await,
            Some(Fault::Fail(kind)) => Err(injected(kind, operation)),
            Some(Fault::Unknown { .. }) if !operation.writes() => {
                Err(injected(ErrorKind::Unavailable, operation))
            }
            Some(Fault::Unknown { applied }) => {
                if applied {
                    // Its own error is as lost as its answer.
                    let _ = call.await;
                }
                Err(injected(ErrorKind::UnknownOutcome, operation))
            }
            Some(Fault::Delay(delay)) => {
                tokio::time::sleep(delay).await;
                call.await
            }
            Some(Fault::Hang) => {
                // The sender lives as long as this store, so this cannot fail.
                let _ = healed.changed().await;
                call.await
            }
        }
    }
}

impl Plan {
    fn by_chance(&mut self) -> Option<Fault> {
        let Odds { fail, unknown, delay, longest_delay } = self.odds;
        if fail + unknown + delay <= 0.0 {
            return None;
        }
        match self.next_share() {
            share if share < fail => Some(Fault::Fail(ErrorKind::Unavailable)),
            share if share < fail + unknown => Some(Fault::Unknown { applied: self.next_share() < 0.5 }),
            share if share < fail + unknown + delay => {
                Some(Fault::Delay(longest_delay.mul_f64(self.next_share())))
            }
            _ => None,
        }
    }

    /// A number from 0.0 to 1.0, by SplitMix64.
    fn next_share(&mut self) -> f64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) as f64 / u64::MAX as f64
    }
}

fn injected(kind: ErrorKind, operation: Operation) -> Error {
    Error::new(kind, format!("a fault was injected into {operation:?}"))
}

#[async_trait]
impl Store for FaultyStore {
    async fn get(&self, key: &Key) -> Result<Option<Entry>> {
        self.call(Operation::Get, self.below.get(key)).await
    }

    async fn get_batch(&self, keys: &[Key]) -> Result<Vec<Option<Entry>>> {
        self.call(Operation::GetBatch, self.below.get_batch(keys)).await
    }

    async fn put_batch(&self, puts: Vec<Put>) -> Result<()> {
        self.call(Operation::PutBatch, self.below.put_batch(puts)).await
    }

    async fn insert_if_not_exists(&self, key: &Key, value: Value, expiry: Expiry) -> Result<bool> {
        self.call(Operation::Insert, self.below.insert_if_not_exists(key, value, expiry)).await
    }

    async fn compare_and_swap(
        &self,
        key: &Key,
        expected: &Value,
        new: Value,
        expiry: Expiry,
    ) -> Result<bool> {
        self.call(Operation::Swap, self.below.compare_and_swap(key, expected, new, expiry)).await
    }

    async fn compare_and_delete(&self, key: &Key, expected: &Value) -> Result<bool> {
        self.call(Operation::Delete, self.below.compare_and_delete(key, expected)).await
    }

    fn read(&self, range: Range) -> RecordStream {
        let failure = |kind| Err(injected(kind, Operation::Read));
        let below = self.below.read(range);
        let mut healed = self.healed.subscribe();
        match self.draw(Operation::Read) {
            None => below,
            Some(Fault::Fail(kind)) => Box::pin(futures_util::stream::iter([failure(kind)])),
            Some(Fault::Unknown { .. }) => {
                Box::pin(futures_util::stream::iter([failure(ErrorKind::Unavailable)]))
            }
            Some(Fault::BreakOff(records)) => {
                let end = futures_util::stream::iter([failure(ErrorKind::Unavailable)]);
                Box::pin(below.take(records).chain(end))
            }
            Some(Fault::Delay(delay)) => {
                let wait = async move {
                    tokio::time::sleep(delay).await;
                    below
                };
                Box::pin(futures_util::stream::once(wait).flatten())
            }
            Some(Fault::Hang) => {
                let wait = async move {
                    // A store that is dropped meanwhile heals nothing: the error is the end of the wait.
                    let _ = healed.changed().await;
                    below
                };
                Box::pin(futures_util::stream::once(wait).flatten())
            }
        }
    }

    async fn query_ttl(&self, key: &Key) -> Result<TtlState> {
        self.call(Operation::QueryTtl, self.below.query_ttl(key)).await
    }

    async fn close(&self) -> Result<()> {
        self.call(Operation::Close, self.below.close()).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ManualClock, MemStore, StoreExt};

    fn stores() -> (Arc<MemStore>, Arc<FaultyStore>) {
        let below = Arc::new(MemStore::open(Arc::new(ManualClock::default())));
        (below.clone(), Arc::new(FaultyStore::new(below)))
    }

    fn key() -> Key {
        Key::new("partition", "sort").unwrap()
    }

    fn value(text: &'static str) -> Value {
        Value::new(text).unwrap()
    }

    async fn insert(store: &dyn Store) -> Result<bool, ErrorKind> {
        let inserted = store.insert_if_not_exists(&key(), value("v"), Expiry::Never).await;
        inserted.map_err(|error| error.kind())
    }

    #[tokio::test]
    async fn planned_fault_hits_the_next_calls_of_its_operation_alone() {
        let (below, faulty) = stores();
        faulty.plan(Operation::Insert, 2, Fault::Fail(ErrorKind::DiskFull));
        faulty.plan(Operation::Insert, 1, Fault::Fail(ErrorKind::Unavailable));
        assert_eq!(faulty.get(&key()).await.unwrap(), None);
        assert_eq!(insert(&*faulty).await, Err(ErrorKind::DiskFull));
        assert_eq!(insert(&*faulty).await, Err(ErrorKind::DiskFull));
        assert_eq!(insert(&*faulty).await, Err(ErrorKind::Unavailable));
        assert_eq!(below.get(&key()).await.unwrap(), None);
        assert_eq!(insert(&*faulty).await, Ok(true));
        assert_eq!(faulty.injected(), 3);
    }

    #[tokio::test]
    async fn unknown_outcome_hides_whether_the_write_happened() {
        for applied in [false, true] {
            let (below, faulty) = stores();
            faulty.plan(Operation::Insert, 1, Fault::Unknown { applied });
            faulty.plan(Operation::Get, 1, Fault::Unknown { applied });
            assert_eq!(insert(&*faulty).await, Err(ErrorKind::UnknownOutcome));
            assert_eq!(below.get(&key()).await.unwrap().is_some(), applied);
            assert_eq!(faulty.get(&key()).await.unwrap_err().kind(), ErrorKind::Unavailable);
        }
    }

    #[tokio::test]
    async fn hanging_call_goes_on_when_healed() {
        let (_, faulty) = stores();
        faulty.plan(Operation::Insert, 5, Fault::Hang);
        let theirs = faulty.clone();
        let call = tokio::spawn(async move { insert(&*theirs).await });
        while faulty.injected() == 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(faulty.get(&key()).await.unwrap(), None);
        assert!(!call.is_finished());
        faulty.heal();
        assert_eq!(call.await.unwrap(), Ok(true));
        assert_eq!(insert(&*faulty).await, Ok(false));
    }

    #[tokio::test]
    async fn range_read_breaks_off_where_planned() {
        let (below, faulty) = stores();
        for sort in ["a", "b", "c"] {
            below.put(&Key::new("p", sort).unwrap(), value("v"), Expiry::Never).await.unwrap();
        }
        faulty.plan(Operation::Read, 1, Fault::BreakOff(2));
        faulty.plan(Operation::Read, 1, Fault::Delay(Duration::from_millis(1)));
        let range = Range::all("p").unwrap();
        let broken: Vec<_> = faulty.read(range.clone()).collect().await;
        assert_eq!(broken.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, true, false]);
        assert_eq!(faulty.read(range).collect::<Vec<_>>().await.len(), 3);
    }

    #[tokio::test]
    async fn same_seed_gives_the_same_faults_at_about_the_odds_asked_for() {
        let mut runs = Vec::new();
        for seed in [1, 1, 2] {
            let (_, faulty) = stores();
            faulty.set_odds(Odds { fail: 0.2, unknown: 0.1, ..Odds::default() }, seed);
            let mut run = Vec::new();
            for _ in 0..1000 {
                run.push(insert(&*faulty).await.err());
            }
            let share = |kind| run.iter().filter(|found| **found == Some(kind)).count();
            assert!((150..250).contains(&share(ErrorKind::Unavailable)));
            assert!((60..140).contains(&share(ErrorKind::UnknownOutcome)));
            runs.push(run);
        }
        assert!(runs[0] == runs[1] && runs[0] != runs[2]);
    }
}
