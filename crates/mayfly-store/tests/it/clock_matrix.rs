//! The clock matrix: what steps, suspends, slews and odd dates do to deadlines, during a run and while down.
//!
//! Within a run a relative ttl counts on boot time and an absolute deadline follows the wall clock. Across a
//! restart both follow the wall clock, but never back past what was seen. Nothing expired ever comes back.

#![allow(clippy::unwrap_used, reason = "clippy takes only functions marked as tests for tests")]

use std::sync::{Arc, Weak};
use std::time::Duration;

use mayfly_store::{
    Alarm, Clock, ErrorKind, Expiry, ManualClock, MemStore, Moment, StoreExt, Timestamp, TtlState,
};

use crate::engine::{Engine, Home, after, at, eventually, key, millis, small, value, wall};

const SECOND: u64 = 1000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const YEAR: u64 = 31_557_600 * SECOND;

const STEPS: [i64; 6] =
    [SECOND as i64, HOUR as i64, 10 * YEAR as i64, -(SECOND as i64), -(HOUR as i64), -10 * YEAR as i64];

fn step(clock: &ManualClock, by: i64) {
    let stepped = wall(clock).checked_add_signed(by).expect("the wall clock stays after 1970");
    clock.set_wall(Timestamp::from_millis(stepped));
}

async fn is_live(store: &dyn Engine, sort: &str) -> bool {
    let key = key("clock", sort);
    let live = store.get(&key).await.unwrap().is_some();
    let state = store.query_ttl(&key).await.unwrap();
    assert_eq!(state != TtlState::Absent, live, "get and query_ttl agree on {sort}");
    live
}

async fn left(store: &dyn Engine, sort: &str) -> u64 {
    match store.query_ttl(&key("clock", sort)).await.unwrap() {
        TtlState::Left(left) => left.as_millis(),
        other => panic!("{sort} has no time left but is {other:?}"),
    }
}

async fn put(store: &dyn Engine, sort: &str, expiry: Expiry) {
    store.put(&key("clock", sort), value(sort), expiry).await.unwrap();
}

#[tokio::test]
async fn a_step_during_a_run_moves_absolute_deadlines_only() {
    for by in STEPS {
        for home in Home::each() {
            let clock = Arc::new(ManualClock::default());
            let store = home.open(small(), &clock);
            let start = wall(&clock);
            put(&*store, "relative", after(MINUTE)).await;
            put(&*store, "absolute", at(start + MINUTE)).await;
            put(&*store, "forever", Expiry::Never).await;
            step(&clock, by);
            assert_eq!(left(&*store, "relative").await, MINUTE, "step {by} on {home:?}");
            assert_eq!(is_live(&*store, "absolute").await, by < MINUTE as i64, "step {by} on {home:?}");
            assert_eq!(store.figures().clock_steps, 1, "step {by} on {home:?}");
            let entry = store.get(&key("clock", "relative")).await.unwrap().unwrap();
            assert_eq!(entry.expires_at.unwrap().as_millis(), wall(&clock) + MINUTE, "the wall clock's view");

            clock.advance(millis(MINUTE - 1));
            assert!(is_live(&*store, "relative").await, "not early: step {by} on {home:?}");
            clock.advance(millis(1));
            assert!(!is_live(&*store, "relative").await, "not late: step {by} on {home:?}");
            if by < 0 {
                clock.set_wall(Timestamp::from_millis(start + MINUTE - 1));
                assert!(
                    is_live(&*store, "absolute").await,
                    "an absolute deadline follows the wall clock back"
                );
                clock.set_wall(Timestamp::from_millis(start + MINUTE));
                assert!(!is_live(&*store, "absolute").await);
            }
            assert!(is_live(&*store, "forever").await);
            store.close().await.unwrap();
        }
    }
}

#[tokio::test]
async fn what_was_seen_as_expired_stays_expired_when_the_wall_clock_goes_back() {
    for back in [SECOND, HOUR, 10 * YEAR] {
        for home in Home::each() {
            let clock = Arc::new(ManualClock::default());
            let store = home.open(small(), &clock);
            put(&*store, "absolute", at(wall(&clock) + 10)).await;
            put(&*store, "relative", after(10)).await;
            clock.advance(millis(10));
            assert!(!is_live(&*store, "absolute").await);
            step(&clock, -(back as i64));
            assert!(!is_live(&*store, "absolute").await, "back by {back} on {home:?}");
            assert!(!is_live(&*store, "relative").await, "back by {back} on {home:?}");
            if home.is_durable() {
                store.close().await.unwrap();
                let store = home.open(small(), &clock);
                assert!(!is_live(&*store, "absolute").await, "back by {back}, reopened on {home:?}");
                assert!(!is_live(&*store, "relative").await, "back by {back}, reopened on {home:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_step_forward_while_down_expires_early_by_at_most_the_step() {
    for by in [SECOND, HOUR, 10 * YEAR] {
        for home in [Home::sim(), Home::dir()] {
            let clock = Arc::new(ManualClock::default());
            let store = home.open(small(), &clock);
            let start = wall(&clock);
            put(&*store, "relative", after(by + MINUTE)).await;
            put(&*store, "absolute", at(start + by + MINUTE)).await;
            put(&*store, "passed", after(by)).await;
            store.close().await.unwrap();
            drop(store);
            // A reboot as well: boot time begins anew.
            let clock = Arc::new(ManualClock::at(Timestamp::from_millis(start + by)));
            let store = home.open(small(), &clock);
            assert_eq!(left(&*store, "relative").await, MINUTE, "step {by} on {home:?}");
            assert_eq!(left(&*store, "absolute").await, MINUTE, "step {by} on {home:?}");
            assert!(!is_live(&*store, "passed").await, "step {by} on {home:?}");
        }
    }
}

#[tokio::test]
async fn a_step_back_while_down_brings_nothing_back_and_gives_no_ttl_more_time() {
    for by in [SECOND, HOUR, 10 * YEAR] {
        for home in [Home::sim(), Home::dir()] {
            let clock = Arc::new(ManualClock::default());
            let store = home.open(small(), &clock);
            let start = wall(&clock);
            put(&*store, "gone", after(10)).await;
            put(&*store, "gone at", at(start + 10)).await;
            put(&*store, "relative", after(MINUTE)).await;
            put(&*store, "absolute", at(start + MINUTE)).await;
            clock.advance(millis(20));
            assert!(!is_live(&*store, "gone").await);
            store.close().await.unwrap();
            drop(store);
            let clock = Arc::new(ManualClock::at(Timestamp::from_millis(start - by)));
            let store = home.open(small(), &clock);
            assert!(!is_live(&*store, "gone").await, "step {by} on {home:?}");
            assert!(!is_live(&*store, "gone at").await, "step {by} on {home:?}");
            assert_eq!(left(&*store, "relative").await, MINUTE - 20, "step {by} on {home:?}");
            assert!(is_live(&*store, "absolute").await, "step {by} on {home:?}");
            assert!(store.figures().clock_steps >= 1, "the step is counted: {by} on {home:?}");
            clock.advance(millis(MINUTE - 20));
            assert!(!is_live(&*store, "relative").await, "step {by} on {home:?}");
            clock.set_wall(Timestamp::from_millis(start + MINUTE));
            assert!(!is_live(&*store, "absolute").await, "step {by} on {home:?}");
        }
    }
}

#[tokio::test]
async fn a_clock_set_back_at_every_restart_still_lets_records_expire() {
    let home = Home::sim();
    let start = wall(&ManualClock::default());
    let mut clock = Arc::new(ManualClock::default());
    let mut store = home.open(small(), &clock);
    put(&*store, "relative", after(10 * MINUTE)).await;
    for restart in 1..=10 {
        assert!(is_live(&*store, "relative").await, "restart {restart}: nine minutes are not ten");
        clock.advance(millis(MINUTE));
        store.close().await.unwrap();
        clock = Arc::new(ManualClock::at(Timestamp::from_millis(start - restart * HOUR)));
        store = home.open(small(), &clock);
    }
    assert!(!is_live(&*store, "relative").await, "ten minutes of running have passed");
}

/// A machine without a battery clock starts in the past; the time is set after the store has opened.
#[tokio::test]
async fn a_restart_after_the_clock_was_put_right_keeps_fresh_records() {
    for by in [HOUR, 10 * YEAR] {
        for home in [Home::sim(), Home::dir()] {
            let clock = Arc::new(ManualClock::default());
            let store = home.open(small(), &clock);
            step(&clock, by as i64);
            put(&*store, "fresh", after(MINUTE)).await;
            store.close().await.unwrap();
            clock.advance(millis(SECOND));
            let store = home.open(small(), &clock);
            assert_eq!(left(&*store, "fresh").await, MINUTE - SECOND, "stepped by {by} on {home:?}");
        }
    }
}

#[tokio::test]
async fn an_absolute_deadline_below_the_latest_wall_time_survives_a_restart() {
    for home in [Home::sim(), Home::dir()] {
        let clock = Arc::new(ManualClock::default());
        let store = home.open(small(), &clock);
        clock.advance(millis(2 * HOUR));
        put(&*store, "filler", Expiry::Never).await;
        step(&clock, -(2 * HOUR as i64));
        put(&*store, "absolute", at(wall(&clock) + HOUR)).await;
        assert_eq!(left(&*store, "absolute").await, HOUR);
        store.close().await.unwrap();
        let store = home.open(small(), &clock);
        assert!(is_live(&*store, "absolute").await, "its time has not come, whatever clock showed before");
        clock.advance(millis(HOUR));
        assert!(!is_live(&*store, "absolute").await);
    }
}

#[tokio::test]
async fn a_suspend_counts() {
    for asleep in [MINUTE, 24 * HOUR] {
        for home in Home::each() {
            let clock = Arc::new(ManualClock::default());
            let store = home.open(small(), &clock);
            put(&*store, "relative", after(MINUTE)).await;
            put(&*store, "absolute", at(wall(&clock) + MINUTE)).await;
            clock.advance(millis(asleep));
            assert!(!is_live(&*store, "relative").await, "{asleep} ms on {home:?}");
            assert!(!is_live(&*store, "absolute").await, "{asleep} ms on {home:?}");
            assert_eq!(store.figures().clock_steps, 0, "a suspend is not a step");
        }
    }
}

#[tokio::test]
async fn slewing_is_not_stepping() {
    for home in Home::each() {
        let clock = Arc::new(ManualClock::default());
        let store = home.open(small(), &clock);
        put(&*store, "relative", after(2 * HOUR)).await;
        // 500 parts per million for two hours, less a moment.
        for _ in 0..3599 {
            clock.advance(millis(2000));
            step(&clock, -1);
            assert!(is_live(&*store, "relative").await);
        }
        assert_eq!(left(&*store, "relative").await, 2000);
        assert_eq!(store.figures().clock_steps, 0, "no jump was over a millisecond, on {home:?}");
        clock.advance(millis(2000));
        assert!(!is_live(&*store, "relative").await);
    }
}

#[tokio::test]
async fn a_leap_second_does_not_touch_relative_deadlines() {
    for home in Home::each() {
        let clock = Arc::new(ManualClock::default());
        let store = home.open(small(), &clock);
        put(&*store, "relative", after(10 * SECOND)).await;
        clock.advance(millis(5 * SECOND));
        step(&clock, -(SECOND as i64));
        clock.advance(millis(5 * SECOND - 1));
        assert!(is_live(&*store, "relative").await);
        clock.advance(millis(1));
        assert!(!is_live(&*store, "relative").await);
    }
}

#[tokio::test]
async fn odd_dates_work() {
    const Y2038: u64 = (1 << 31) * 1000;
    const Y2106: u64 = (1 << 32) * 1000;
    let dates = [0, 1, Y2038 - SECOND, Y2038, Y2106 - SECOND, Y2106, 253_402_300_799_000];
    for start in dates {
        for home in Home::each() {
            let clock = Arc::new(ManualClock::at(Timestamp::from_millis(start)));
            let store = home.open(small(), &clock);
            put(&*store, "relative", after(2 * SECOND)).await;
            put(&*store, "absolute", at(start + 2 * SECOND)).await;
            put(&*store, "longest", after(100 * YEAR)).await;
            clock.advance(millis(2 * SECOND - 1));
            assert!(is_live(&*store, "relative").await && is_live(&*store, "absolute").await, "{start}");
            clock.advance(millis(1));
            assert!(!is_live(&*store, "relative").await && !is_live(&*store, "absolute").await, "{start}");
            if home.is_durable() {
                store.close().await.unwrap();
                let store = home.open(small(), &clock);
                assert!(
                    !is_live(&*store, "relative").await && !is_live(&*store, "absolute").await,
                    "{start}"
                );
                assert_eq!(left(&*store, "longest").await, 100 * YEAR - 2 * SECOND, "{start}");
            }
        }
    }
}

const EDGES: [u64; 6] = [1 << 53, (1 << 56) - 1, i64::MAX as u64 - 1, i64::MAX as u64, 1 << 63, u64::MAX];

#[tokio::test]
async fn a_clock_at_the_end_of_numbers_is_refused_or_works_but_never_overflows() {
    for start in EDGES {
        let home = Home::sim();
        let clock = Arc::new(ManualClock::at(Timestamp::from_millis(start)));
        match home.try_open(small(), &clock) {
            Ok(store) => {
                put(&*store, "relative", after(SECOND)).await;
                clock.advance(millis(SECOND));
                assert!(!is_live(&*store, "relative").await);
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error:?}");
                assert!(error.to_string().contains("clock"), "{error}");
            }
        }
    }
}

#[tokio::test]
async fn a_wall_clock_that_jumps_to_the_end_of_numbers_leaves_relative_deadlines_alone() {
    for to in EDGES {
        for home in Home::each() {
            let clock = Arc::new(ManualClock::default());
            let start = wall(&clock);
            let store = home.open(small(), &clock);
            put(&*store, "relative", after(MINUTE)).await;
            clock.set_wall(Timestamp::from_millis(to));
            assert_eq!(left(&*store, "relative").await, MINUTE, "at {to} on {home:?}");
            _ = store.get(&key("clock", "relative")).await.unwrap().unwrap().expires_at;
            put(&*store, "another", after(MINUTE)).await;
            assert!(is_live(&*store, "another").await);
            clock.set_wall(Timestamp::from_millis(start));
            clock.advance(millis(MINUTE));
            assert!(!is_live(&*store, "relative").await, "at {to} on {home:?}");
            store.close().await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_ttl_never_ends_within_its_millisecond() {
    for home in Home::each() {
        let clock = Arc::new(ManualClock::default());
        let store = home.open(small(), &clock);
        clock.advance(Duration::from_micros(700));
        put(&*store, "relative", after(1)).await;
        clock.advance(Duration::from_micros(999));
        assert!(is_live(&*store, "relative").await, "999 of 1000 µs on {home:?}");
        clock.advance(Duration::from_micros(1001));
        assert!(!is_live(&*store, "relative").await);
    }
}

/// After a step back more than the longest ttl may be left; that is a long time, not an absence.
#[tokio::test]
async fn more_than_a_hundred_years_left_is_not_absent() {
    for home in Home::each() {
        let clock = Arc::new(ManualClock::default());
        let store = home.open(small(), &clock);
        put(&*store, "absolute", at(wall(&clock) + 99 * YEAR)).await;
        step(&clock, -10 * YEAR as i64);
        assert!(is_live(&*store, "absolute").await, "on {home:?}");
        assert!(left(&*store, "absolute").await >= 99 * YEAR);
    }
}

/// A clock whose readings on the store's own threads can be held back, as a scheduler does.
#[derive(Debug, Default)]
struct Stalling {
    clock: ManualClock,
    gate: parking_lot::Mutex<bool>,
    opened: parking_lot::Condvar,
    waiting: std::sync::atomic::AtomicBool,
}

impl Clock for Stalling {
    fn now(&self) -> Moment {
        let now = self.clock.now();
        let own = std::thread::current()
            .name()
            .is_some_and(|name| name.starts_with("mayfly-") && !name.contains("commit"));
        let mut closed = self.gate.lock();
        while own && *closed {
            self.waiting.store(true, std::sync::atomic::Ordering::Release);
            self.opened.wait(&mut closed);
        }
        now
    }

    fn ring_when_moved(&self, alarm: Weak<Alarm>) {
        self.clock.ring_when_moved(alarm);
    }
}

impl Stalling {
    fn hold(&self) {
        *self.gate.lock() = true;
    }

    fn release(&self) {
        *self.gate.lock() = false;
        self.opened.notify_all();
    }
}

async fn sweep_stalls(store: Arc<dyn Engine>, clock: &Stalling) {
    clock.hold();
    let start = wall(&clock.clock);
    clock.clock.advance(millis(HOUR));
    let stalled = || clock.waiting.load(std::sync::atomic::Ordering::Acquire);
    eventually("the sweeper has read the clock", stalled).await;
    clock.clock.set_wall(Timestamp::from_millis(start));
    // A store may make the write wait for the sweeper; then the sweeper goes first.
    let write = tokio::spawn({
        let store = store.clone();
        async move { put(&*store, "absolute", at(start + MINUTE)).await }
    });
    for _ in 0..50 {
        tokio::time::sleep(millis(1)).await;
        if write.is_finished() {
            break;
        }
    }
    clock.release();
    write.await.expect("the write works");
    put(&*store, "witness", after(1)).await;
    let before = store.figures().expired;
    clock.clock.advance(millis(1));
    eventually("the sweeper has been by", || store.figures().expired > before).await;
    assert!(is_live(&*store, "absolute").await, "swept by a reading from before the step");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_sweep_that_began_before_a_step_back_takes_nothing_written_after_it() {
    let clock = Arc::new(Stalling::default());
    sweep_stalls(Arc::new(MemStore::open(clock.clone())), &clock).await;
    let clock = Arc::new(Stalling::default());
    let disk = Arc::new(crate::sim_disk::SimDisk::new());
    let store = mayfly_store::FileStore::open_on(disk, small(), clock.clone()).unwrap();
    sweep_stalls(Arc::new(store), &clock).await;
}
