//! The plainest store that keeps the contract, one map under one lock, and the bugs that can be planted in it.
//!
//! It shows that the suite and the linearisability checker pass what is right and catch what is wrong.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream;
use mayfly_store::{
    Clock, Entry, Error, ErrorKind, Expiry, Key, MAX_TTL, Moment, Put, Range, Record, RecordStream, Result,
    Store, Timestamp, Ttl, TtlState, Value,
};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A bug to plant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bug {
    Late(Duration),
    Early(Duration),
    LateWallDeadlines,
    BornExpiredBeyondWeeks,
    GetShowsExpired,
    GetBatchShowsExpired,
    ReadShowsExpired,
    QueryShowsExpired,
    InsertSeesExpired,
    SwapSeesExpired,
    DeleteSeesExpired,
    StreamShowsWhatItFirstSaw,
    StreamHidesRenewed,
    PutKeepsOldExpiry,
    InsertTouchesLive,
    InsertKeepsRowMarker,
    SwapForgetsExpiry,
    SwapCannotRemoveExpiry,
    SwapToSameIsIgnored,
    RefusedSwapRenews,
    SwapComparesPrefix,
    StaleCleaner,
    RacyInsert,
    RacySwap,
    RacyDelete,
    BatchIsNotAtomic,
    BatchKeepsFirst,
    BatchAppliesWhatItCan,
    BatchEndsAfter25,
    GetBatchSkipsMissing,
    GetBatchDropsDuplicates,
    ZeroByteIsEmpty,
    EmptyValueIsAbsent,
    DeleteIgnoresEmptySort,
    ValuesAreCut,
    FinishIsInclusive,
    StartIsExclusive,
    SignedOrder,
    RangePanicsOnReversedBounds,
    RangeLeavesPartition,
    RangeEndsAfterPage,
    ReaderBlocksWriters,
    QueryRoundsDown,
    QueryReportsForeverAsLeft,
    ExpiresAtIsCoarse,
    AcceptsPassedDeadline,
    AcceptsFarDeadline,
}

#[derive(Debug, Clone, Copy)]
enum Due {
    Never,
    Boot(Duration),
    Wall(Timestamp),
}

#[derive(Debug, Clone)]
struct Held {
    value: Value,
    due: Due,
    expires_at: Option<Timestamp>,
}

type Partition = BTreeMap<Vec<u8>, Held>;

#[derive(Debug)]
pub(crate) struct NaiveStore {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    clock: Arc<dyn Clock>,
    bug: Option<Bug>,
    partitions: Mutex<BTreeMap<Vec<u8>, Partition>>,
    /// Old deadlines, which only a stale cleaner looks at.
    stale: Mutex<Vec<(Key, Due)>>,
    gate: Arc<Semaphore>,
    closed: AtomicBool,
}

impl NaiveStore {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self::with_bug(clock, None)
    }

    pub(crate) fn with_bug(clock: Arc<dyn Clock>, bug: Option<Bug>) -> Self {
        let inner = Inner {
            clock,
            bug,
            partitions: Mutex::default(),
            stale: Mutex::default(),
            gate: Arc::new(Semaphore::new(1)),
            closed: AtomicBool::new(false),
        };
        Self { inner: Arc::new(inner) }
    }
}

impl Inner {
    fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    fn check_open(&self) -> Result<()> {
        match self.closed.load(Ordering::Relaxed) {
            true => Err(Error::new(ErrorKind::Closed, "the store was closed")),
            false => Ok(()),
        }
    }

    fn sort_of(&self, sort: &[u8]) -> Vec<u8> {
        match sort {
            [0] if self.has(Bug::ZeroByteIsEmpty) => vec![],
            _ if self.has(Bug::SignedOrder) => sort.iter().map(|byte| byte ^ 0x80).collect(),
            _ => sort.to_vec(),
        }
    }

    fn is_live(&self, held: &Held, now: Moment) -> bool {
        if self.has(Bug::EmptyValueIsAbsent) && held.value.is_empty() {
            return false;
        }
        match (held.due, self.bug) {
            (Due::Never, _) => true,
            (Due::Boot(due), Some(Bug::Late(by))) => now.boot < due + by,
            (Due::Boot(due), Some(Bug::Early(by))) => now.boot + by < due,
            (Due::Boot(due), Some(Bug::BornExpiredBeyondWeeks)) => {
                now.boot < due && due - now.boot < Duration::from_millis(1 << 31)
            }
            (Due::Wall(due), Some(Bug::LateWallDeadlines)) => now.wall <= due,
            (Due::Boot(due), _) => now.boot < due,
            (Due::Wall(due), _) => now.wall < due,
        }
    }

    /// Looks a record up; with the bug planted, an expired one too.
    fn find(&self, key: &Key, blind: Bug) -> Option<Held> {
        let now = self.clock.now();
        self.clean(now);
        let partitions = self.partitions.lock();
        let held = partitions.get(key.partition())?.get(&self.sort_of(key.sort()))?;
        (self.is_live(held, now) || self.has(blind)).then(|| held.clone())
    }

    fn clean(&self, now: Moment) {
        if !self.has(Bug::StaleCleaner) {
            return;
        }
        for (key, due) in self.stale.lock().iter() {
            if matches!(due, Due::Boot(due) if *due <= now.boot) {
                self.remove(key);
            }
        }
    }

    fn held(&self, value: Value, expiry: Expiry) -> Result<Held> {
        let now = self.clock.now();
        let (due, expires_at) = match expiry {
            Expiry::Never => (Due::Never, None),
            Expiry::After(ttl) => {
                let ttl = ttl.as_millis();
                let wall = now.wall.as_millis() + ttl;
                let wall = if self.has(Bug::ExpiresAtIsCoarse) { wall / 1000 * 1000 } else { wall };
                (Due::Boot(now.boot + Duration::from_millis(ttl)), Some(Timestamp::from_millis(wall)))
            }
            Expiry::At(at) => {
                let ahead = at.as_millis().saturating_sub(now.wall.as_millis());
                if at <= now.wall && !self.has(Bug::AcceptsPassedDeadline) {
                    return Err(Error::new(ErrorKind::InvalidTtl, "the deadline has passed"));
                }
                if ahead > MAX_TTL.as_millis() as u64 && !self.has(Bug::AcceptsFarDeadline) {
                    return Err(Error::new(ErrorKind::InvalidTtl, "the deadline is over 100 years ahead"));
                }
                (Due::Wall(at), Some(at))
            }
        };
        let value = match self.bug {
            Some(Bug::ValuesAreCut) if value.len() > 65_536 => Value::new(value[..65_536].to_vec())?,
            _ => value,
        };
        Ok(Held { value, due, expires_at })
    }

    fn place(&self, key: &Key, held: Held) {
        self.stale.lock().push((key.clone(), held.due));
        let mut partitions = self.partitions.lock();
        partitions.entry(key.partition().to_vec()).or_default().insert(self.sort_of(key.sort()), held);
    }

    fn remove(&self, key: &Key) {
        if key.sort().is_empty() && self.has(Bug::DeleteIgnoresEmptySort) {
            return;
        }
        let mut partitions = self.partitions.lock();
        if let Some(partition) = partitions.get_mut(key.partition()) {
            partition.remove(&self.sort_of(key.sort()));
        }
    }

    /// Decides and acts under one permit, as it should be; the racy bugs let others in between.
    async fn enter(&self, racy: Bug) -> Option<OwnedSemaphorePermit> {
        if self.has(racy) {
            return None;
        }
        self.gate.clone().acquire_owned().await.ok()
    }

    async fn pause(&self, racy: Bug) {
        if self.has(racy) {
            tokio::task::yield_now().await;
        }
    }

    fn equal(&self, held: &Value, expected: &Value) -> bool {
        match self.bug {
            Some(Bug::SwapComparesPrefix) => held.starts_with(expected),
            _ => held == expected,
        }
    }

    /// The first live record at or after `from`.
    fn next_record(&self, range: &Range, from: Bound<Vec<u8>>) -> Option<Record> {
        let now = self.clock.now();
        self.clean(now);
        let finish = match range.finish() {
            [] => Bound::Unbounded,
            finish if self.has(Bug::FinishIsInclusive) => Bound::Included(finish.to_vec()),
            finish => Bound::Excluded(finish.to_vec()),
        };
        let reversed = !range.finish().is_empty() && range.start() >= range.finish();
        if reversed && !self.has(Bug::RangePanicsOnReversedBounds) {
            return None;
        }
        // Past the end the bounds would be out of order.
        if let (Bound::Excluded(from), Bound::Excluded(finish) | Bound::Included(finish)) = (&from, &finish)
            && from >= finish
        {
            return None;
        }
        let partitions = self.partitions.lock();
        let found = partitions
            .get(range.partition())?
            .range((from, finish))
            .find(|(_, held)| self.is_live(held, now) || self.has(Bug::ReadShowsExpired));
        let (sort, held) = found?;
        let key = Key::new(range.partition(), self.sort_of(sort)).expect("it was a key when it was written");
        Some(Record { key, value: held.value.clone(), expires_at: held.expires_at })
    }

    fn first_bound(&self, range: &Range) -> Bound<Vec<u8>> {
        match range.start() {
            [] => Bound::Unbounded,
            start if self.has(Bug::StartIsExclusive) => Bound::Excluded(start.to_vec()),
            start => Bound::Included(start.to_vec()),
        }
    }
}

fn entry(held: Held) -> Entry {
    Entry { value: held.value, expires_at: held.expires_at }
}

#[async_trait]
impl Store for NaiveStore {
    async fn get(&self, key: &Key) -> Result<Option<Entry>> {
        self.inner.check_open()?;
        Ok(self.inner.find(key, Bug::GetShowsExpired).map(entry))
    }

    async fn get_batch(&self, keys: &[Key]) -> Result<Vec<Option<Entry>>> {
        self.inner.check_open()?;
        let mut entries: Vec<_> =
            keys.iter().map(|key| self.inner.find(key, Bug::GetBatchShowsExpired).map(entry)).collect();
        match self.inner.bug {
            Some(Bug::GetBatchSkipsMissing) => entries.retain(Option::is_some),
            Some(Bug::GetBatchDropsDuplicates) => entries.dedup(),
            _ => {}
        }
        Ok(entries)
    }

    async fn put_batch(&self, mut puts: Vec<Put>) -> Result<()> {
        self.inner.check_open()?;
        let _permit = self.inner.enter(Bug::BatchIsNotAtomic).await;
        match self.inner.bug {
            Some(Bug::BatchKeepsFirst) => puts.reverse(),
            Some(Bug::BatchEndsAfter25) => puts.truncate(25),
            _ => {}
        }
        let mut held = Vec::new();
        for Put { key, value, expiry } in puts {
            let mut new = self.inner.held(value, expiry)?;
            if self.inner.has(Bug::PutKeepsOldExpiry)
                && let Some(old) = self.inner.find(&key, Bug::PutKeepsOldExpiry)
            {
                (new.due, new.expires_at) = (old.due, old.expires_at);
            }
            if self.inner.has(Bug::BatchAppliesWhatItCan) {
                self.inner.place(&key, new.clone());
            }
            held.push((key, new));
        }
        if self.inner.has(Bug::BatchIsNotAtomic) {
            for (key, held) in held {
                self.inner.place(&key, held);
                tokio::task::yield_now().await;
            }
            return Ok(());
        }
        let mut partitions = self.inner.partitions.lock();
        for (key, held) in held {
            self.inner.stale.lock().push((key.clone(), held.due));
            let sort = self.inner.sort_of(key.sort());
            partitions.entry(key.partition().to_vec()).or_default().insert(sort, held);
        }
        Ok(())
    }

    async fn insert_if_not_exists(&self, key: &Key, value: Value, expiry: Expiry) -> Result<bool> {
        let inner = &self.inner;
        inner.check_open()?;
        let held = inner.held(value, expiry)?;
        let _permit = inner.enter(Bug::RacyInsert).await;
        if inner.has(Bug::InsertKeepsRowMarker) {
            let now = inner.clock.now();
            let mut stale = inner.stale.lock();
            let marked = stale
                .iter()
                .any(|(marked, due)| marked == key && matches!(due, Due::Boot(due) if *due > now.boot));
            if marked && inner.find(key, Bug::InsertKeepsRowMarker).is_some() {
                return Ok(false);
            }
            stale.retain(|(marked, _)| marked != key);
        }
        if let Some(old) = inner.find(key, Bug::InsertSeesExpired) {
            if inner.has(Bug::InsertTouchesLive) {
                inner.place(key, Held { value: old.value, ..held });
            }
            return Ok(false);
        }
        inner.pause(Bug::RacyInsert).await;
        inner.place(key, held);
        Ok(true)
    }

    async fn compare_and_swap(
        &self,
        key: &Key,
        expected: &Value,
        new: Value,
        expiry: Expiry,
    ) -> Result<bool> {
        let inner = &self.inner;
        inner.check_open()?;
        let mut held = inner.held(new, expiry)?;
        let _permit = inner.enter(Bug::RacySwap).await;
        let Some(old) = inner.find(key, Bug::SwapSeesExpired) else { return Ok(false) };
        if !inner.equal(&old.value, expected) {
            if inner.has(Bug::RefusedSwapRenews) {
                inner.place(key, Held { value: old.value, ..held });
            }
            return Ok(false);
        }
        match inner.bug {
            Some(Bug::SwapToSameIsIgnored) if held.value == old.value => return Ok(true),
            Some(Bug::SwapCannotRemoveExpiry) if matches!(expiry, Expiry::Never) => {
                (held.due, held.expires_at) = (old.due, old.expires_at);
            }
            Some(Bug::SwapForgetsExpiry) => (held.due, held.expires_at) = (Due::Never, None),
            _ => {}
        }
        inner.pause(Bug::RacySwap).await;
        inner.place(key, held);
        Ok(true)
    }

    async fn compare_and_delete(&self, key: &Key, expected: &Value) -> Result<bool> {
        let inner = &self.inner;
        inner.check_open()?;
        let _permit = inner.enter(Bug::RacyDelete).await;
        let Some(old) = inner.find(key, Bug::DeleteSeesExpired) else { return Ok(false) };
        if !inner.equal(&old.value, expected) {
            return Ok(false);
        }
        inner.pause(Bug::RacyDelete).await;
        inner.remove(key);
        Ok(true)
    }

    fn read(&self, range: Range) -> RecordStream {
        if let Err(error) = self.inner.check_open() {
            return Box::pin(stream::iter([Err(error)]));
        }
        let inner = self.inner.clone();
        let start = inner.first_bound(&range);
        if inner.has(Bug::StreamShowsWhatItFirstSaw) || inner.has(Bug::StreamHidesRenewed) {
            let (mut records, mut from) = (Vec::new(), start);
            while let Some(record) = inner.next_record(&range, from) {
                from = Bound::Excluded(record.key.sort().to_vec());
                records.push(Ok(record));
            }
            let hides = inner.has(Bug::StreamHidesRenewed);
            let unexpired = move |record: &Result<Record>| {
                let expires_at = record.as_ref().ok().and_then(|record| record.expires_at);
                !hides || expires_at.is_none_or(|at| inner.clock.now().wall < at)
            };
            return Box::pin(stream::iter(records.into_iter().filter(unexpired)));
        }
        let blocking =
            inner.has(Bug::ReaderBlocksWriters).then(|| inner.gate.clone().try_acquire_owned().ok());
        let partitions = match inner.bug {
            Some(Bug::RangeLeavesPartition) => {
                let partitions = inner.partitions.lock();
                let begins = |name: &&Vec<u8>| name.starts_with(range.partition());
                partitions.keys().filter(begins).cloned().collect()
            }
            _ => vec![range.partition().to_vec()],
        };
        let state = (inner, partitions, range, start, 0, blocking);
        Box::pin(stream::unfold(state, |(inner, mut partitions, range, from, count, blocking)| async move {
            if inner.has(Bug::RangeEndsAfterPage) && count == 1000 {
                return None;
            }
            let mut from = from;
            loop {
                let current = Range::new(partitions.first()?, range.start(), range.finish()).ok()?;
                if let Some(record) = inner.next_record(&current, from) {
                    let next = Bound::Excluded(inner.sort_of(record.key.sort()));
                    return Some((Ok(record), (inner, partitions, range, next, count + 1, blocking)));
                }
                partitions.remove(0);
                from = inner.first_bound(&range);
            }
        }))
    }

    async fn query_ttl(&self, key: &Key) -> Result<TtlState> {
        self.inner.check_open()?;
        let Some(held) = self.inner.find(key, Bug::QueryShowsExpired) else { return Ok(TtlState::Absent) };
        let now = self.inner.clock.now();
        let left = match held.due {
            Due::Never if self.inner.has(Bug::QueryReportsForeverAsLeft) => MAX_TTL,
            Due::Never => return Ok(TtlState::Forever),
            Due::Boot(due) => due.saturating_sub(now.boot),
            Due::Wall(due) => Duration::from_millis(due.as_millis().saturating_sub(now.wall.as_millis())),
        };
        let mut millis = left.as_nanos().div_ceil(1_000_000) as u64;
        if self.inner.has(Bug::QueryRoundsDown) {
            millis = millis / 1000 * 1000;
        }
        let blind = self.inner.has(Bug::QueryShowsExpired);
        Ok(Ttl::from_millis(millis.max(u64::from(blind))).map_or(TtlState::Absent, TtlState::Left))
    }

    async fn close(&self) -> Result<()> {
        self.inner.closed.store(true, Ordering::Relaxed);
        Ok(())
    }
}
