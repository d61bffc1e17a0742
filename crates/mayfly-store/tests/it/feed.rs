//! The expired feed, on memory and file: every expired record with its value, in expiry order, at least once,
//! and never again once acknowledged, whatever happens to the consumer or the store.

#![allow(clippy::unwrap_used, reason = "clippy takes only functions marked as tests for tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use mayfly_store::{ErrorKind, Expired, Expiry, ManualClock, StoreExt, Timestamp};

use crate::engine::{
    Engine, Home, after, at, dir_bytes, eventually, feed_now, in_time, key, millis, small, value, wall,
};
use crate::sim_disk::{Rng, SimDisk};

const NAME: &str = "listener";
const HOUR: u64 = 3_600_000;

async fn put(store: &dyn Engine, sort: &str, text: &str, expiry: Expiry) {
    store.put(&key("feed", sort), value(text), expiry).await.unwrap();
}

/// Waits for so many expired records and takes them, acknowledging each batch.
async fn take(store: &dyn Engine, name: &str, count: usize) -> Vec<Expired> {
    let mut taken = Vec::new();
    while taken.len() < count {
        let batch = in_time("next_expired", store.next_expired(name, 7)).await.unwrap();
        assert!(batch.len() <= 7 && !batch.is_empty());
        in_time("acknowledge", store.acknowledge(name, batch.last().unwrap().position)).await.unwrap();
        taken.extend(batch);
    }
    taken
}

fn sorts(batch: &[Expired]) -> Vec<String> {
    batch.iter().map(|expired| String::from_utf8(expired.record.key.sort().to_vec()).unwrap()).collect()
}

fn values(batch: &[Expired]) -> Vec<String> {
    batch.iter().map(|expired| String::from_utf8(expired.record.value.to_vec()).unwrap()).collect()
}

#[tokio::test]
async fn every_expired_record_comes_once_in_order_with_its_value() {
    for home in Home::each() {
        let clock = Arc::new(ManualClock::default());
        let store = home.open(small(), &clock);
        store.subscribe(NAME).await.unwrap();
        let mut rng = Rng::new(5);
        let mut deadlines = BTreeMap::new();
        for number in 0..200 {
            let ttl = 1 + rng.below(1000);
            let deadline = wall(&clock) + ttl;
            let expiry = if rng.chance(50) { after(ttl) } else { at(deadline) };
            put(&*store, &format!("{number:03}"), &format!("value {number}"), expiry).await;
            deadlines.insert(format!("{number:03}"), deadline);
        }
        put(&*store, "stays", "stays", Expiry::Never).await;
        let mut seen = Vec::new();
        for _ in 0..10 {
            clock.advance(millis(100));
            let due = deadlines.values().filter(|deadline| **deadline <= wall(&clock)).count();
            seen.extend(take(&*store, NAME, due - seen.len()).await);
        }
        let times: Vec<u64> =
            seen.iter().map(|expired| expired.record.expires_at.unwrap().as_millis()).collect();
        assert!(times.is_sorted(), "in expiry order on {home:?}: {times:?}");
        for (sort, expired) in sorts(&seen).iter().zip(&seen) {
            assert_eq!(expired.record.expires_at.unwrap().as_millis(), deadlines[sort], "{sort}");
            assert_eq!(*expired.record.value, *format!("value {}", sort.parse::<u32>().unwrap()).as_bytes());
        }
        let distinct: BTreeSet<String> = sorts(&seen).into_iter().collect();
        assert_eq!((seen.len(), distinct.len()), (200, 200), "each of them once on {home:?}");
        assert!(feed_now(&*store, NAME, 10).await.is_empty());
        assert_eq!(store.figures().feed_backlog, 0);
    }
}

#[tokio::test]
async fn without_acknowledgement_the_same_ones_come_again() {
    for home in Home::each() {
        let clock = Arc::new(ManualClock::default());
        let store = home.open(small(), &clock);
        store.subscribe(NAME).await.unwrap();
        for number in 0..5 {
            put(&*store, &number.to_string(), "x", after(10 + number)).await;
        }
        clock.advance(millis(100));
        eventually("all five wait", || store.figures().feed_backlog == 5).await;
        let first = store.next_expired(NAME, 3).await.unwrap();
        let again = store.next_expired(NAME, 3).await.unwrap();
        assert_eq!(sorts(&first), ["0", "1", "2"]);
        assert_eq!(sorts(&again), ["0", "1", "2"], "on {home:?}");
        store.acknowledge(NAME, first[1].position).await.unwrap();
        assert_eq!(sorts(&store.next_expired(NAME, 9).await.unwrap()), ["2", "3", "4"]);
        // An old acknowledgement that arrives late takes nothing back.
        store.acknowledge(NAME, first[0].position).await.unwrap();
        assert_eq!(sorts(&store.next_expired(NAME, 9).await.unwrap()), ["2", "3", "4"]);
    }
}

#[tokio::test]
async fn overwritten_renewed_and_deleted_records_are_never_reported() {
    for home in Home::each() {
        let clock = Arc::new(ManualClock::default());
        let mut store = home.open(small(), &clock);
        store.subscribe(NAME).await.unwrap();
        for sort in ["overwritten", "renewed", "deleted", "made permanent", "expires"] {
            put(&*store, sort, sort, after(10)).await;
        }
        put(&*store, "overwritten", "new", after(HOUR)).await;
        let renewed = key("feed", "renewed");
        assert!(
            store.compare_and_swap(&renewed, &value("renewed"), value("renewed"), after(HOUR)).await.unwrap()
        );
        assert!(store.delete(&key("feed", "deleted")).await.unwrap());
        put(&*store, "made permanent", "new", Expiry::Never).await;
        if home.is_durable() {
            store.close().await.unwrap();
            store = home.open(small(), &clock);
        }
        clock.advance(millis(20));
        assert_eq!(sorts(&take(&*store, NAME, 1).await), ["expires"], "on {home:?}");
        assert!(feed_now(&*store, NAME, 10).await.is_empty(), "on {home:?}");
    }
}

#[tokio::test]
async fn a_record_written_again_after_it_expired_is_reported_with_its_old_value() {
    for home in Home::each() {
        let clock = Arc::new(ManualClock::default());
        let mut store = home.open(small(), &clock);
        store.subscribe(NAME).await.unwrap();
        for round in 0..20 {
            let (inserted, put_again) = (format!("i{round}"), format!("p{round}"));
            put(&*store, &inserted, "old", after(10)).await;
            put(&*store, &put_again, "old", after(10)).await;
            clock.advance(millis(10));
            // At once, before any sweep can have been by.
            let key = key("feed", &inserted);
            assert!(store.insert_if_not_exists(&key, value("new"), after(HOUR)).await.unwrap());
            put(&*store, &put_again, "new", after(HOUR)).await;
        }
        let seen = take(&*store, NAME, 40).await;
        assert!(values(&seen).iter().all(|value| value == "old"), "on {home:?}: {:?}", values(&seen));
        if home.is_durable() {
            store.close().await.unwrap();
            store = home.open(small(), &clock);
        }
        assert!(feed_now(&*store, NAME, 10).await.is_empty(), "the new ones live, on {home:?}");
        clock.advance(millis(HOUR));
        let seen = take(&*store, NAME, 40).await;
        assert!(values(&seen).iter().all(|value| value == "new"), "on {home:?}");
        assert_eq!(sorts(&seen).into_iter().collect::<BTreeSet<_>>().len(), 40);
    }
}

#[tokio::test]
async fn two_subscribers_progress_on_their_own() {
    for home in Home::each() {
        let clock = Arc::new(ManualClock::default());
        let mut store = home.open(small(), &clock);
        store.subscribe("fast").await.unwrap();
        store.subscribe("slow").await.unwrap();
        for number in 0..6 {
            put(&*store, &number.to_string(), "x", after(10 + number)).await;
        }
        clock.advance(millis(100));
        assert_eq!(take(&*store, "fast", 6).await.len(), 6);
        let slow = store.next_expired("slow", 9).await.unwrap();
        assert_eq!(sorts(&slow), ["0", "1", "2", "3", "4", "5"]);
        store.acknowledge("slow", slow[3].position).await.unwrap();
        assert_eq!(store.figures().feed_backlog, 2, "what the slower one has not acknowledged");
        if home.is_durable() {
            store.close().await.unwrap();
            store = home.open(small(), &clock);
        }
        assert!(feed_now(&*store, "fast", 9).await.is_empty(), "on {home:?}");
        assert_eq!(sorts(&store.next_expired("slow", 9).await.unwrap()), ["4", "5"], "on {home:?}");
        // Taking a name up again changes nothing.
        store.subscribe("slow").await.unwrap();
        assert_eq!(sorts(&store.next_expired("slow", 9).await.unwrap()), ["4", "5"], "on {home:?}");
    }
}

#[tokio::test]
async fn who_left_holds_nothing_and_who_comes_sees_what_expires_from_then_on() {
    for home in Home::each() {
        let clock = Arc::new(ManualClock::default());
        let mut store = home.open(small(), &clock);
        put(&*store, "before", "x", after(10)).await;
        clock.advance(millis(10));
        store.subscribe(NAME).await.unwrap();
        put(&*store, "after", "x", after(10)).await;
        clock.advance(millis(10));
        eventually("one waits", || store.figures().feed_backlog == 1).await;
        assert_eq!(sorts(&store.next_expired(NAME, 9).await.unwrap()), ["after"], "on {home:?}");
        assert!(store.unsubscribe(NAME).await.unwrap());
        assert!(!store.unsubscribe(NAME).await.unwrap());
        assert_eq!(store.figures().feed_backlog, 0);
        if home.is_durable() {
            store.close().await.unwrap();
            store = home.open(small(), &clock);
        }
        let error = store.next_expired(NAME, 9).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error:?}");
        put(&*store, "nobody listens", "x", after(10)).await;
        clock.advance(millis(10));
        eventually("it was let go", || store.figures().records == 0).await;
        assert_eq!(store.figures().feed_backlog, 0, "on {home:?}");
        store.subscribe(NAME).await.unwrap();
        assert!(feed_now(&*store, NAME, 9).await.is_empty(), "on {home:?}");
    }
}

#[tokio::test]
async fn a_waiting_consumer_wakes_for_an_expiry_and_for_the_end() {
    for home in Home::each() {
        let clock = Arc::new(ManualClock::default());
        let store = home.open(small(), &clock);
        store.subscribe(NAME).await.unwrap();
        put(&*store, "a", "x", after(10)).await;
        let waiting = tokio::spawn({
            let store = store.clone();
            async move { store.next_expired(NAME, 1).await }
        });
        tokio::task::yield_now().await;
        clock.advance(millis(10));
        let batch = in_time("the expiry", waiting).await.unwrap().unwrap();
        store.acknowledge(NAME, batch[0].position).await.unwrap();
        let waiting = tokio::spawn({
            let store = store.clone();
            async move { store.next_expired(NAME, 1).await }
        });
        tokio::task::yield_now().await;
        store.close().await.unwrap();
        let error = in_time("the end", waiting).await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Closed, "{error:?}");
    }
}

/// Expiries after a step back have deadlines below those that were acknowledged already.
#[tokio::test]
async fn a_wall_clock_set_back_swallows_no_expiry() {
    for home in Home::each() {
        let clock = Arc::new(ManualClock::default());
        let mut store = home.open(small(), &clock);
        store.subscribe(NAME).await.unwrap();
        let start = wall(&clock);
        put(&*store, "early", "x", at(start + 2 * HOUR)).await;
        clock.advance(millis(2 * HOUR));
        assert_eq!(sorts(&take(&*store, NAME, 1).await), ["early"]);
        clock.set_wall(Timestamp::from_millis(start));
        put(&*store, "relative", "x", after(5)).await;
        put(&*store, "late 1", "x", at(start + 10)).await;
        put(&*store, "late 2", "x", at(start + 20)).await;
        clock.advance(millis(50));
        eventually("three wait", || store.figures().feed_backlog == 3).await;
        let first = store.next_expired(NAME, 1).await.unwrap();
        store.acknowledge(NAME, first[0].position).await.unwrap();
        if home.is_durable() {
            store.close().await.unwrap();
            store = home.open(small(), &clock);
        }
        let mut seen = sorts(&first);
        while seen.len() < 3 {
            let batch = feed_now(&*store, NAME, 1).await;
            assert!(!batch.is_empty(), "only {seen:?} came on {home:?}");
            store.acknowledge(NAME, batch[0].position).await.unwrap();
            seen.extend(sorts(&batch));
        }
        seen.sort();
        assert_eq!(seen, ["late 1", "late 2", "relative"], "on {home:?}");
    }
}

/// The consumer is killed twenty times in the middle of its work; what it did before it acknowledged may be done
/// twice, but nothing is left out, and nothing acknowledged comes again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_consumer_killed_twenty_times_misses_nothing() {
    for home in Home::each() {
        let clock = Arc::new(ManualClock::default());
        let store = home.open(small(), &clock);
        store.subscribe(NAME).await.unwrap();
        for number in 0..400 {
            put(&*store, &format!("{number:03}"), "x", after(1 + number)).await;
        }
        let (report, mut reports) = tokio::sync::mpsc::unbounded_channel();
        let (mut done, mut acknowledged) = (BTreeSet::new(), BTreeSet::new());
        for _ in 0..20 {
            clock.advance(millis(20));
            let (store, report) = (store.clone(), report.clone());
            let consumer = tokio::spawn(async move {
                loop {
                    let batch = store.next_expired(NAME, 5).await.unwrap();
                    report.send((false, sorts(&batch))).unwrap();
                    store.acknowledge(NAME, batch.last().unwrap().position).await.unwrap();
                    report.send((true, sorts(&batch))).unwrap();
                }
            });
            let (_, some) = in_time("work", reports.recv()).await.unwrap();
            done.extend(some);
            consumer.abort();
            _ = consumer.await;
            while let Ok((acknowledgement, sorts)) = reports.try_recv() {
                let known = sorts.iter().any(|sort| acknowledged.contains(sort));
                assert!(!known, "acknowledged ones came again on {home:?}: {sorts:?}");
                done.extend(sorts.iter().cloned());
                if acknowledgement {
                    acknowledged.extend(sorts);
                }
            }
        }
        while done.len() < 400 {
            done.extend(sorts(&take(&*store, NAME, 1).await));
        }
        assert!(feed_now(&*store, NAME, 9).await.is_empty(), "on {home:?}");
    }
}

/// The machine loses power twenty times; some records expire while it is down.
#[tokio::test]
async fn power_losses_lose_no_expiry_and_bring_none_back() {
    let clock = Arc::new(ManualClock::default());
    let mut rng = Rng::new(77);
    let mut disk = SimDisk::new();
    let mut open = BTreeSet::new();
    let mut acknowledged = BTreeSet::new();
    let mut number = 0;
    for cycle in 0..20 {
        let store = Home::Sim(disk.clone()).open(small(), &clock);
        store.subscribe(NAME).await.unwrap();
        for _ in 0..30 {
            number += 1;
            let sort = format!("{number:04}");
            put(&*store, &sort, &sort, after(1 + rng.below(400))).await;
            open.insert(sort);
            clock.advance(millis(rng.below(5)));
            if rng.chance(20) && store.figures().feed_backlog > 0 {
                let batch = in_time("next_expired", store.next_expired(NAME, 4)).await.unwrap();
                assert_eq!(sorts(&batch), values(&batch), "cycle {cycle}");
                assert!(sorts(&batch).iter().all(|sort| !acknowledged.contains(sort)), "cycle {cycle}");
                store.acknowledge(NAME, batch.last().unwrap().position).await.unwrap();
                acknowledged.extend(sorts(&batch));
            }
        }
        let left = if rng.chance(30) { disk.after_kill() } else { disk.after_power_loss(rng.next()) };
        drop(store);
        disk = left;
        clock.advance(millis(rng.below(300)));
    }
    clock.advance(millis(1000));
    let store = Home::Sim(disk).open(small(), &clock);
    for sort in sorts(&take(&*store, NAME, open.len() - acknowledged.len()).await) {
        assert!(acknowledged.insert(sort.clone()), "{sort} came again");
    }
    assert_eq!(acknowledged, open, "every record expired, and every one was reported");
    assert!(feed_now(&*store, NAME, 9).await.is_empty());
}

#[tokio::test]
async fn disk_space_held_for_a_subscriber_is_freed_when_it_acknowledges() {
    let home = Home::dir();
    let Home::Dir(dir) = &home else { unreachable!("a directory was asked for") };
    let clock = Arc::new(ManualClock::default());
    let store = home.open(small(), &clock);
    let empty = dir_bytes(dir.path());
    store.subscribe(NAME).await.unwrap();
    let kilobyte = "x".repeat(1000);
    for number in 0..300 {
        put(&*store, &number.to_string(), &kilobyte, after(60_000)).await;
    }
    clock.advance(millis(60_000));
    eventually("all wait", || store.figures().feed_backlog == 300).await;
    assert!(dir_bytes(dir.path()) >= 300_000, "the values are kept for the subscriber");
    assert!(take(&*store, NAME, 300).await.iter().all(|expired| expired.record.value.len() == 1000));
    let freed = || {
        // Reclaiming may wait for its next round.
        clock.advance(millis(1000));
        dir_bytes(dir.path()) < empty + 80_000
    };
    eventually("the space is free", freed).await;
}
