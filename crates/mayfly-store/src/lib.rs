//! A store in which everything expires: the contract, the engines, and the suite that holds them to it.
//!
//! The contract is [`Store`]; read its *Contract* section first. [`MemStore`] keeps records in memory,
//! [`FileStore`] in a directory, durably. Both hand what expired to subscribers ([`ExpiredFeed`]) and tell what
//! will expire when ([`Stats`]).
//!
//! # Names in the source documents
//!
//! | Voedger (V1) | here |
//! | --- | --- |
//! | `IAppStorage` | [`Store`] |
//! | `pKey`, `cCols` | [`Key::partition`], [`Key::sort`] |
//! | `Get`, `TTLGet` | [`Store::get`], [`StoreExt::ttl_get`] |
//! | `GetBatch` | [`Store::get_batch`] |
//! | `Put`, `PutBatch` | [`StoreExt::put`], [`Store::put_batch`] |
//! | `Read`, `TTLRead` | [`Store::read`], [`StoreExt::ttl_read`] |
//! | `InsertIfNotExists` | [`Store::insert_if_not_exists`] |
//! | `CompareAndSwap` | [`Store::compare_and_swap`] |
//! | `CompareAndDelete` | [`Store::compare_and_delete`] |
//! | `QueryTTL` | [`Store::query_ttl`] |
//! | `DataWithExpiration.ExpireAt` | [`Entry::expires_at`] |
//! | `timeu.ITime` | [`Clock`] |

pub mod backend;
pub mod conformance;
mod error;
mod feed;
mod record;
mod stats;
mod store;
mod time;
mod ttl_text;
pub mod wrap;

pub use backend::{Damage, FileOptions, FileStore, MemStore, Sync, VerifyProgress, VerifyReport};
pub use error::{Error, ErrorKind, Result};
pub use feed::{Expired, ExpiredFeed, FeedPosition};
pub use record::{Entry, Key, MAX_PARTITION, MAX_SORT, MAX_VALUE, Put, Range, Record, Value};
pub use stats::{Horizon, HorizonSlice, Lateness, SegmentStats, Stats};
pub use store::{RecordStream, Store, StoreExt, TtlState};
pub use time::{Alarm, Clock, Expiry, MAX_TTL, ManualClock, Moment, SystemClock, Timestamp, Ttl};
