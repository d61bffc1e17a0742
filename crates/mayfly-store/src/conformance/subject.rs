//! What is examined: a store, the clock it was given, and a way to let time pass.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;

use crate::store::Store;
use crate::time::{Clock, ManualClock, SystemClock};

type Pass = Arc<dyn Fn(Duration) -> BoxFuture<'static, ()> + Send + Sync>;

/// A store under examination. Clones examine the same store.
#[derive(Clone)]
pub struct Subject {
    pub(super) store: Arc<dyn Store>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) exact: bool,
    pass: Pass,
}

impl Subject {
    /// A store whose clock stands still until the suite moves it: deadlines are checked to the millisecond.
    /// Nobody else may move the clock meanwhile. The suite moves it by some hundred years.
    pub fn with_manual_clock(store: Arc<dyn Store>, clock: Arc<ManualClock>) -> Self {
        let hand = clock.clone();
        let pass = move |duration| -> BoxFuture<'static, ()> {
            hand.advance(duration);
            Box::pin(std::future::ready(()))
        };
        Self { exact: true, ..Self::new(store, clock, pass) }
    }

    /// A store that follows the system's clock: the suite really waits.
    pub fn in_real_time(store: Arc<dyn Store>) -> Self {
        Self::new(store, Arc::new(SystemClock), |duration| Box::pin(tokio::time::sleep(duration)))
    }

    /// A store that follows `clock`, on which `pass` lets at least the given time pass.
    pub fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        pass: impl Fn(Duration) -> BoxFuture<'static, ()> + Send + Sync + 'static,
    ) -> Self {
        Self { store, clock, exact: false, pass: Arc::new(pass) }
    }

    /// Lets time pass.
    pub async fn pass(&self, duration: Duration) {
        (self.pass)(duration).await;
    }
}

impl fmt::Debug for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subject")
            .field("store", &self.store)
            .field("clock", &self.clock)
            .field("exact", &self.exact)
            .finish_non_exhaustive()
    }
}
