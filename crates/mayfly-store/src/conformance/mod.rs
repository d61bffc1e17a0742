//! The conformance suite: the contract of [`Store`](crate::Store), case by case, for any backend or wrapper.
//!
//! ```
//! use std::sync::Arc;
//! use mayfly_store::conformance::{self, Subject};
//! # use mayfly_store::{ManualClock, Store};
//! # async fn example(store: Arc<dyn Store>, clock: Arc<ManualClock>) -> Result<(), conformance::Violations> {
//! // With a clock that stands still until it is moved, deadlines are checked to the millisecond.
//! let subject = Subject::with_manual_clock(store, clock);
//! conformance::run(&subject).await
//! # }
//! ```
//!
//! A store that lives in real time uses [`Subject::in_real_time`]. Every case works in random partitions of its
//! own, so a shared and well-filled engine is fine. Call it on a multi-threaded tokio runtime with its timer
//! enabled (`#[tokio::test(flavor = "multi_thread")]`): on one thread the races would prove nothing, so they
//! refuse. Each case is also callable by itself, see [`cases`].
//!
//! # Time
//!
//! No case guesses how long an operation takes. A deadline is known from outside as a window: the write's
//! beginning and end, each plus the ttl. "Live" is demanded of a read that ended before the window, "absent" of
//! one that began after it; where a slow machine makes a read fall in between, the case starts again with twice
//! the time. So slowness costs time and never loosens a claim.

mod batches;
mod cases;
mod closing;
mod deadline;
mod expiry;
mod keys;
mod limits;
mod outcome;
mod queries;
mod races;
mod random;
mod ranges;
mod renewals;
mod sequences;
mod streams;
mod subject;
mod trial;
mod ttls;
mod values;
mod writes;

pub use cases::{Case, cases, run};
pub use closing::check_closing;
pub use outcome::{Violation, Violations};
pub use subject::Subject;
