//! The expired feed: every record that expired, with its value, in expiry order, at least once.
//!
//! The memory and file engines offer it; what they share is in `backend/embedded/backlog.rs`.

use std::fmt;

use async_trait::async_trait;

use crate::error::Result;
use crate::record::Record;

/// A place in the feed, to be acknowledged. Opaque, and durable where the store is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FeedPosition {
    pub(crate) cursor: FeedCursor,
}

/// How far a subscriber is, for the two kinds of deadline apart: each kind expires in its own strict order, but
/// a wall clock that steps moves one against the other. `(0, 0)` = nothing yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct FeedCursor {
    /// Deadline and sequence number of the last relative expiry.
    pub(crate) relative: (u64, u64),
    /// Deadline and sequence number of the last absolute expiry.
    pub(crate) absolute: (u64, u64),
}

/// A record that has expired.
#[derive(Debug, Clone)]
pub struct Expired {
    /// The record as it was; `expires_at` is always there.
    pub record: Record,
    /// Acknowledge this to never see it and what came before it again.
    pub position: FeedPosition,
}

/// A store that reports what has expired.
#[async_trait]
pub trait ExpiredFeed: fmt::Debug + Send + Sync + 'static {
    /// Joins the feed under a name, or takes it up again where that name last acknowledged. A new name sees
    /// what expires from now on. Until it acknowledges or leaves, the store keeps what it has not seen.
    async fn subscribe(&self, name: &str) -> Result<()>;

    /// Forgets a name, so that nothing is kept for it any more. True iff it was known.
    async fn unsubscribe(&self, name: &str) -> Result<bool>;

    /// The next `limit` records this name has not acknowledged, in expiry order; waits until there is one.
    /// Without an acknowledgement the same ones come again.
    async fn next_expired(&self, name: &str, limit: usize) -> Result<Vec<Expired>>;

    /// Acknowledges everything up to and including `position`, as durably as the store writes.
    async fn acknowledge(&self, name: &str, position: FeedPosition) -> Result<()>;
}
