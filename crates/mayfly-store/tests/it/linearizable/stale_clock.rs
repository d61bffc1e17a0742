//! A history that random runs find once in some thousand, made certain: the committer reads the clock and is held
//! up, the record expires, a reader sees it gone, and only then the committer decides a swap of it.

use std::sync::{Arc, Weak};
use std::time::Duration;

use mayfly_store::{
    Alarm, Clock, Expiry, FileOptions, FileStore, Key, ManualClock, Moment, Store, StoreExt, Ttl, Value,
};
use parking_lot::{Condvar, Mutex};

/// A clock moved by hand that can hold up the committer between reading the time and using it.
#[derive(Debug, Default)]
struct HoldingClock {
    hands: ManualClock,
    state: Mutex<Hold>,
    changed: Condvar,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum Hold {
    #[default]
    Off,
    Armed,
    Holding,
}

impl HoldingClock {
    fn arm(&self) {
        *self.state.lock() = Hold::Armed;
    }

    fn wait_until_holding(&self) {
        let mut state = self.state.lock();
        self.changed.wait_while(&mut state, |state| *state != Hold::Holding);
    }

    fn release(&self) {
        *self.state.lock() = Hold::Off;
        self.changed.notify_all();
    }
}

impl Clock for HoldingClock {
    fn now(&self) -> Moment {
        let now = self.hands.now();
        let mut state = self.state.lock();
        if *state == Hold::Armed && std::thread::current().name() == Some("mayfly-commit") {
            *state = Hold::Holding;
            self.changed.notify_all();
            self.changed.wait_while(&mut state, |state| *state == Hold::Holding);
        }
        now
    }

    /// Nobody is told: the janitor would remove the record before the committer looks at it.
    fn ring_when_moved(&self, _: Weak<Alarm>) {}
}

#[tokio::test(flavor = "multi_thread")]
async fn swap_of_a_record_that_was_seen_expired_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let clock = Arc::new(HoldingClock::default());
    let store = FileStore::open(directory.path(), FileOptions::default(), clock.clone()).unwrap();
    let store = Arc::new(store);
    let (key, old) = (Key::new("p", "k").unwrap(), Value::new("old").unwrap());
    let ttl = Ttl::from_secs(100).unwrap();
    store.put(&key, old.clone(), ttl.into()).await.unwrap();

    clock.arm();
    let swap = {
        let (store, key) = (store.clone(), key.clone());
        tokio::spawn(async move {
            store.compare_and_swap(&key, &old, Value::new("new").unwrap(), Expiry::Never).await.unwrap()
        })
    };
    let held = clock.clone();
    tokio::task::spawn_blocking(move || held.wait_until_holding()).await.unwrap();
    clock.hands.advance(Duration::from_secs(100));
    assert_eq!(store.get(&key).await.unwrap(), None);
    clock.release();

    let swapped = swap.await.unwrap();
    let found = store.get(&key).await.unwrap();
    assert!(!swapped && found.is_none(), "expired, and yet swapped ({swapped}) to {found:?}");
}
