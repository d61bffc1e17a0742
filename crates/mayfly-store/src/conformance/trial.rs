//! One attempt at one case: partitions of its own, a unit of time, and the operations with their expectations.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;

use super::deadline::Deadline;
use super::outcome::{Miss, Outcome, ensure, ensure_eq};
use super::random::{Random, fresh_seed};
use super::subject::Subject;
use crate::error::{ErrorKind, Result};
use crate::record::{Key, Put, Range, Record, Value};
use crate::store::{Store, TtlState};
use crate::time::{Expiry, Moment, Timestamp, Ttl};

/// How far apart the two clocks may be read on a busy machine; moved by hand, they are read as one.
const CLOCK_SLACK: Duration = Duration::from_millis(100);
/// How long something that must not block may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// What a record gets that shall outlive its case, and yet not stay in a shared engine for ever.
const LONG: Duration = Duration::from_secs(3600);

#[derive(Debug, Clone)]
pub(super) struct Trial {
    subject: Subject,
    partition: Vec<u8>,
    step: Duration,
}

/// An operation's result and the moments around it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timed<T> {
    pub(super) result: T,
    pub(super) began: Moment,
    pub(super) ended: Moment,
}

/// A value from text or bytes.
pub(super) fn value(bytes: impl AsRef<[u8]>) -> Value {
    Value::new(bytes.as_ref().to_vec()).expect("the suite's values are within the limit")
}

impl Trial {
    /// An attempt on fresh partitions. Each further attempt has twice the time.
    pub(super) fn new(subject: Subject, attempt: u32) -> Self {
        let step = Duration::from_millis(if subject.exact { 1000 } else { 100 << attempt });
        let mut partition = b"conformance ".to_vec();
        partition.extend(Random::from_seed(fresh_seed()).bytes(12));
        Self { subject, partition, step }
    }

    pub(super) fn store(&self) -> Arc<dyn Store> {
        self.subject.store.clone()
    }

    /// Whether time stands still between calls, so that deadlines can be hit to the millisecond.
    pub(super) fn is_exact(&self) -> bool {
        self.subject.exact
    }

    /// The unit of time of this attempt: long for an operation, short for a person.
    pub(super) fn step(&self) -> Duration {
        self.step
    }

    /// An expiry of so many steps.
    pub(super) fn steps(&self, steps: u32) -> Expiry {
        Expiry::After(Ttl::try_from(self.step * steps).expect("a few steps are whole milliseconds"))
    }

    /// An expiry well after the end of the case.
    pub(super) fn long(&self) -> Expiry {
        Expiry::After(Ttl::try_from(LONG).expect("an hour is a ttl"))
    }

    /// An absolute expiry so many steps ahead.
    pub(super) fn at_steps(&self, steps: u32) -> Expiry {
        self.at_millis((self.step * steps).as_millis() as i64)
    }

    /// An absolute expiry so many milliseconds from now.
    pub(super) fn at_millis(&self, from_now: i64) -> Expiry {
        let wall = self.now().wall.as_millis();
        Expiry::At(Timestamp::from_millis(wall.saturating_add_signed(from_now)))
    }

    pub(super) fn now(&self) -> Moment {
        self.subject.clock.now()
    }

    pub(super) async fn pass(&self, duration: Duration) {
        self.subject.pass(duration).await;
    }

    /// This attempt's partition.
    pub(super) fn partition(&self) -> &[u8] {
        &self.partition
    }

    /// Another partition, which begins with this attempt's.
    pub(super) fn sub_partition(&self, suffix: impl AsRef<[u8]>) -> Vec<u8> {
        [self.partition(), suffix.as_ref()].concat()
    }

    /// A key in this attempt's partition.
    pub(super) fn key(&self, sort: impl AsRef<[u8]>) -> Key {
        self.key_in(self.partition(), sort)
    }

    pub(super) fn key_in(&self, partition: &[u8], sort: impl AsRef<[u8]>) -> Key {
        Key::new(partition, sort).expect("the suite's keys are within the limits")
    }

    /// Notes when an operation begins and ends.
    pub(super) async fn timed<T>(&self, operation: impl Future<Output = Result<T>>) -> Outcome<Timed<T>> {
        let began = self.now();
        let result = operation.await?;
        Ok(Timed { result, began, ended: self.now() })
    }

    /// The same for a write. A wall time that passed before the store could look at it is nobody's fault.
    pub(super) async fn timed_write<T>(
        &self,
        expiry: Expiry,
        operation: impl Future<Output = Result<T>>,
    ) -> Outcome<Timed<T>> {
        let began = self.now();
        match (operation.await, expiry) {
            (Ok(result), _) => Ok(Timed { result, began, ended: self.now() }),
            (Err(error), Expiry::At(at))
                if error.kind() == ErrorKind::InvalidTtl && self.now().wall >= at =>
            {
                Err(Miss::TooSlow)
            }
            (Err(error), _) => Err(error.into()),
        }
    }

    /// The deadline that a write has set.
    pub(super) fn deadline<T>(&self, expiry: Expiry, done: &Timed<T>) -> Deadline {
        Deadline::of(expiry, done.began, done.ended, self.is_exact())
    }

    /// Writes whatever was there.
    pub(super) async fn put(&self, key: &Key, value: &Value, expiry: Expiry) -> Outcome<Deadline> {
        let put = Put { key: key.clone(), value: value.clone(), expiry };
        let done = self.timed_write(expiry, self.store().put_batch(vec![put])).await?;
        Ok(self.deadline(expiry, &done))
    }

    /// Inserts, and demands that it succeeds.
    pub(super) async fn insert(&self, key: &Key, value: &Value, expiry: Expiry) -> Outcome<Deadline> {
        let done =
            self.timed_write(expiry, self.store().insert_if_not_exists(key, value.clone(), expiry)).await?;
        ensure!(done.result, "insert of {key:?} was refused although nothing is there");
        Ok(self.deadline(expiry, &done))
    }

    /// Swaps, and demands that it succeeds; `was` is the deadline of the old record.
    pub(super) async fn swap(
        &self,
        key: &Key,
        (old, was): (&Value, &Deadline),
        new: &Value,
        expiry: Expiry,
    ) -> Outcome<Deadline> {
        let done =
            self.timed_write(expiry, self.store().compare_and_swap(key, old, new.clone(), expiry)).await?;
        self.must_have_found(done.result, was, done.ended, || format!("swap of {key:?} from {old:?}"))?;
        Ok(self.deadline(expiry, &done))
    }

    /// Deletes, and demands that it succeeds; `was` is the deadline of the record.
    pub(super) async fn delete(&self, key: &Key, (old, was): (&Value, &Deadline)) -> Outcome {
        let done = self.timed(self.store().compare_and_delete(key, old)).await?;
        self.must_have_found(done.result, was, done.ended, || format!("delete of {key:?} with {old:?}"))
    }

    /// A live record must be found; one whose deadline may have come is nobody's fault.
    pub(super) fn must_have_found(
        &self,
        found: bool,
        deadline: &Deadline,
        ended: Moment,
        what: impl FnOnce() -> String,
    ) -> Outcome {
        if !found && !deadline.is_surely_ahead(ended) {
            return Err(Miss::TooSlow);
        }
        ensure!(found, "{} did not find the live record", what());
        Ok(())
    }

    /// Demands that `get` brings this value with this deadline.
    pub(super) async fn live(&self, key: &Key, wanted: &Value, deadline: &Deadline) -> Outcome {
        let seen = self.timed(self.store().get(key)).await?;
        self.must_have_found(seen.result.is_some(), deadline, seen.ended, || format!("get of {key:?}"))?;
        let Some(entry) = seen.result else { return Ok(()) };
        ensure!(
            !deadline.has_surely_passed(seen.began),
            "get of {key:?} brought {entry:?} after its deadline {deadline:?}"
        );
        ensure_eq!(entry.value, *wanted, "value of {key:?}");
        self.deadline_reads(key, entry.expires_at, deadline)
    }

    /// Demands that a reported `expires_at` fits the deadline.
    pub(super) fn deadline_reads(&self, key: &Key, found: Option<Timestamp>, deadline: &Deadline) -> Outcome {
        let slack = if self.is_exact() { Duration::ZERO } else { CLOCK_SLACK };
        ensure!(deadline.may_read(found, slack), "expires_at of {key:?} is {found:?}, wanted {deadline:?}");
        Ok(())
    }

    /// Demands that every way to look says absent. The last deadline must have passed, or the record be deleted.
    pub(super) async fn absent(&self, key: &Key) -> Outcome {
        let store = self.store();
        ensure_eq!(store.get(key).await?, None, "get of the absent {key:?}");
        ensure_eq!(store.get_batch(std::slice::from_ref(key)).await?, vec![None], "get_batch of {key:?}");
        ensure_eq!(store.query_ttl(key).await?, TtlState::Absent, "query_ttl of the absent {key:?}");
        let records = self.records(Range::new(key.partition(), key.sort(), after(key.sort()))?).await?;
        ensure!(records.is_empty(), "read brought the absent record {records:?}");
        Ok(())
    }

    /// Lets time pass until the deadline has surely passed, and on a clock moved by hand not a millisecond more.
    pub(super) async fn outlive(&self, deadline: &Deadline) {
        while !deadline.has_surely_passed(self.now()) {
            let left = deadline.surely_passes_in(self.now());
            self.pass(left.max(Duration::from_millis(1))).await;
        }
    }

    /// Reads a range to its end.
    pub(super) async fn records(&self, range: Range) -> Outcome<Vec<Record>> {
        let mut stream = self.store().read(range);
        let mut records = Vec::new();
        while let Some(record) = stream.next().await {
            records.push(record?);
        }
        Ok(records)
    }

    /// The sort columns that a range read brings.
    pub(super) async fn sorts(&self, range: Range) -> Outcome<Vec<Vec<u8>>> {
        Ok(self.records(range).await?.into_iter().map(|record| record.key.sort().to_vec()).collect())
    }

    /// Runs something that must never wait for the outside world.
    pub(super) async fn promptly<T: Send + Debug + 'static>(
        &self,
        what: &str,
        work: impl Future<Output = Outcome<T>> + Send + 'static,
    ) -> Outcome<T> {
        match tokio::time::timeout(PATIENCE, tokio::spawn(work)).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(panic)) => Err(Miss::Broken(format!("{what}: {panic}"))),
            Err(_) => Err(Miss::Broken(format!("{what} did not finish within {PATIENCE:?}"))),
        }
    }
}

/// The least sort columns after `sort`.
pub(super) fn after(sort: &[u8]) -> Vec<u8> {
    [sort, &[0]].concat()
}
