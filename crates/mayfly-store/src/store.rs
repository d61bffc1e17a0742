//! The storage contract: one object-safe trait that every backend and every wrapper implements.
//!
//! Conveniences built from it are in [`StoreExt`]; what stores can tell about expiry ahead of time and
//! afterwards is in `feed.rs` and `stats.rs`.

use std::fmt;
use std::pin::Pin;

use async_trait::async_trait;
use futures_core::Stream;

use crate::error::Result;
use crate::record::{Entry, Key, Put, Range, Record, Value};
use crate::time::{Expiry, MAX_TTL, Ttl};

/// An ascending stream of records that owns its data, holds no lock between items, and stops when dropped.
pub type RecordStream = Pin<Box<dyn Stream<Item = Result<Record>> + Send>>;

/// What [`Store::query_ttl`] finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TtlState {
    /// No live record.
    Absent,
    /// A live record without expiry.
    Forever,
    /// A live record and the time it has left. [`Ttl::as_secs_ceil`] never reads 0.
    Left(Ttl),
}

/// A store in which records expire.
///
/// # Contract
///
/// **Expiry.** A record is expired ⇔ now ≥ its deadline. Expired is absent, for every operation, at once; space
/// may come back later. A read never shows an expired record and never hides a live one. After any sequence of
/// operations `get` says absent ⇔ `insert_if_not_exists` succeeds. Writing, renewing or deleting a record never
/// lets an older deadline of the same key touch it.
///
/// **Atomicity.** Insert, swap and delete are linearisable per record under real concurrency. A batch of puts is
/// atomic within a partition. An operation that failed with any kind but
/// [`UnknownOutcome`](crate::ErrorKind::UnknownOutcome) changed nothing. What was acknowledged is as durable as
/// the store was configured to be, and what a read has shown is as durable as that.
///
/// **Order.** Inside a partition records are ordered by their sort columns, bytewise and unsigned. Absent and
/// empty sort columns are the same key.
///
/// **Clock.** A store gets its [`Clock`](crate::Clock) from outside. `Expiry::After` counts on boot time within a
/// run, `Expiry::At` follows the wall clock, and a clock set back while the store was closed resurrects nothing.
///
/// The conformance suite ([`conformance`](crate::conformance)) checks all of this; run it on what you implement.
#[async_trait]
pub trait Store: fmt::Debug + Send + Sync + 'static {
    /// The live value with its deadline, or none.
    async fn get(&self, key: &Key) -> Result<Option<Entry>>;

    /// The same for many keys, in the order asked; duplicates are all filled.
    async fn get_batch(&self, keys: &[Key]) -> Result<Vec<Option<Entry>>>;

    /// Writes all, whatever was there; value and expiry are replaced. Atomic within each partition.
    /// Of two puts of the same key the later one stays.
    async fn put_batch(&self, puts: Vec<Put>) -> Result<()>;

    /// True iff there was no live record and now there is this one. A live one stays untouched.
    async fn insert_if_not_exists(&self, key: &Key, value: Value, expiry: Expiry) -> Result<bool>;

    /// True iff the record was live and its value equal to `expected`: then value and expiry are the new ones.
    async fn compare_and_swap(&self, key: &Key, expected: &Value, new: Value, expiry: Expiry)
    -> Result<bool>;

    /// True iff the record was live and its value equal to `expected`: then it is gone.
    async fn compare_and_delete(&self, key: &Key, expected: &Value) -> Result<bool>;

    /// The live records of a range, ascending. Writes that happen while it runs may or may not be seen.
    fn read(&self, range: Range) -> RecordStream;

    /// Whether the record lives, and for how much longer.
    async fn query_ttl(&self, key: &Key) -> Result<TtlState>;

    /// Finishes what was accepted, makes it durable and lets go of every resource. Later calls get
    /// [`Closed`](crate::ErrorKind::Closed). Closing twice is fine.
    async fn close(&self) -> Result<()>;
}

/// Conveniences over [`Store`], the same for every backend.
#[async_trait]
pub trait StoreExt: Store {
    /// Writes one record, whatever was there.
    async fn put(&self, key: &Key, value: Value, expiry: Expiry) -> Result<()> {
        self.put_batch(vec![Put::new(key, value, expiry)]).await
    }

    /// Deletes a record whatever its value; true iff there was a live one.
    async fn delete(&self, key: &Key) -> Result<bool> {
        while let Some(Entry { value, .. }) = self.get(key).await? {
            if self.compare_and_delete(key, &value).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The source system's name for [`Store::get`].
    async fn ttl_get(&self, key: &Key) -> Result<Option<Entry>> {
        self.get(key).await
    }

    /// The source system's name for [`Store::read`].
    fn ttl_read(&self, range: Range) -> RecordStream {
        self.read(range)
    }
}

impl<S: Store + ?Sized> StoreExt for S {}

impl TtlState {
    /// Of a live record: from the milliseconds it has left, none = never expires. A wall clock that was set back
    /// can leave more than a ttl can be; then it is the longest.
    pub(crate) fn of_live(left: Option<u64>) -> Self {
        let longest = MAX_TTL.as_millis() as u64;
        let ttl =
            left.map(|left| Ttl::from_millis(left.clamp(1, longest)).expect("within the limits of a ttl"));
        ttl.map_or(Self::Forever, Self::Left)
    }
}
