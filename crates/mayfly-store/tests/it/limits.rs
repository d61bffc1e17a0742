//! The largest and the smallest, and that space comes back.

#![allow(clippy::unwrap_used, reason = "clippy takes only functions marked as tests for tests")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use mayfly_store::{
    ErrorKind, Expiry, FileOptions, FileStore, Key, MAX_PARTITION, MAX_SORT, MAX_VALUE, ManualClock, Put,
    Store, StoreExt, Value,
};

use crate::engine::{Home, after, all, dir_bytes, eventually, key, millis, small, value};
use crate::sim_disk::{Rng, SimDisk};

const MINUTE: u64 = 60_000;

fn pattern(size: usize) -> Vec<u8> {
    let mut rng = Rng::new(size as u64);
    (0..size).map(|_| rng.next() as u8).collect()
}

#[tokio::test]
async fn values_of_every_size_up_to_the_limit_survive() {
    let sizes =
        [0, 1, 2, 127, 128, 511, 512, 4095, 4096, 16_383, 16_384, 65_535, 65_536, MAX_VALUE - 1, MAX_VALUE];
    for home in Home::each() {
        let clock = Arc::new(ManualClock::default());
        let mut store = home.open(small(), &clock);
        for size in sizes {
            store.put(&key("p", size.to_be_bytes()), value(pattern(size)), Expiry::Never).await.unwrap();
        }
        for reopened in [false, true] {
            for size in sizes {
                let entry = store.get(&key("p", size.to_be_bytes())).await.unwrap().expect("it was written");
                assert!(*entry.value == *pattern(size), "{size} bytes, reopened {reopened}, on {home:?}");
            }
            if home.is_durable() {
                store.close().await.unwrap();
                store = home.open(small(), &clock);
            }
        }
    }
}

#[tokio::test]
async fn the_longest_keys_survive_and_longer_ones_are_refused() {
    let longest =
        [key([9; MAX_PARTITION], [8; MAX_SORT]), key([9; MAX_PARTITION], ""), key("p", [8; MAX_SORT])];
    for home in Home::each() {
        let clock = Arc::new(ManualClock::default());
        let mut store = home.open(small(), &clock);
        for key in &longest {
            assert!(store.insert_if_not_exists(key, value("v"), Expiry::Never).await.unwrap());
        }
        if home.is_durable() {
            store.close().await.unwrap();
            store = home.open(small(), &clock);
        }
        for key in &longest {
            assert!(store.compare_and_delete(key, &value("v")).await.unwrap(), "on {home:?}");
        }
    }
    assert_eq!(Key::new([9; MAX_PARTITION + 1], "").unwrap_err().kind(), ErrorKind::PartitionTooLong);
    assert_eq!(Key::new("p", [9; MAX_SORT + 1]).unwrap_err().kind(), ErrorKind::SortTooLong);
    assert_eq!(Value::new(vec![0; MAX_VALUE + 1]).unwrap_err().kind(), ErrorKind::ValueTooLong);
}

/// More than a segment and more than any buffer, and still all or nothing.
#[tokio::test]
async fn a_batch_larger_than_a_segment_is_one_batch() {
    let (disk, clock) = (SimDisk::new(), Arc::new(ManualClock::default()));
    let store = Home::Sim(disk.clone()).open(small(), &clock);
    let put = |number: u32| Put {
        key: key("p", number.to_be_bytes()),
        value: value(vec![number as u8; MAX_VALUE]),
        expiry: after(MINUTE),
    };
    store.put_batch((0..40).map(put).collect()).await.unwrap();
    for seed in 0..4 {
        let store = Home::Sim(disk.after_power_loss(seed)).open(small(), &clock);
        let records = all(&*store, b"p").await;
        assert_eq!(records.len(), 40);
        assert!(records.iter().zip(0_u8..).all(|(record, number)| *record.value == vec![number; MAX_VALUE]));
    }
}

#[tokio::test]
async fn impossible_segment_sizes_are_refused_or_served() {
    let clock = Arc::new(ManualClock::default());
    for segment_bytes in [0, 1, u64::from(u32::MAX) + 1, u64::MAX] {
        let options = FileOptions { segment_bytes, ..small() };
        let disk = Arc::new(SimDisk::new());
        match FileStore::open_on(disk, options, clock.clone()) {
            Err(error) => assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{segment_bytes}: {error:?}"),
            Ok(store) => {
                store.put(&key("p", "k"), value("v"), Expiry::Never).await.unwrap();
                assert!(store.get(&key("p", "k")).await.unwrap().is_some());
            }
        }
    }
}

#[tokio::test]
async fn the_directory_shrinks_when_records_expire() {
    let home = Home::dir();
    let Home::Dir(dir) = &home else { unreachable!("a directory was asked for") };
    let clock = Arc::new(ManualClock::default());
    let store = home.open(small(), &clock);
    let empty = dir_bytes(dir.path());
    for number in 0..500 {
        store.put(&key("p", format!("{number}")), value([1; 1000]), after(MINUTE)).await.unwrap();
    }
    assert!(dir_bytes(dir.path()) > 500_000);
    clock.advance(millis(MINUTE));
    eventually("the directory is nearly empty", || dir_bytes(dir.path()) < empty + 80_000).await;
    assert_eq!(store.figures().expired, 500);
}

/// One long-lived record now and then must not keep the files around it: what lives is moved, what died goes.
#[tokio::test]
async fn a_trickle_of_long_lived_records_does_not_hold_dead_data() {
    let home = Home::dir();
    let Home::Dir(dir) = &home else { unreachable!("a directory was asked for") };
    let clock = Arc::new(ManualClock::default());
    let store = home.open(small(), &clock);
    for number in 0..1500 {
        let (expiry, size) = if number % 50 == 0 { (Expiry::Never, 10) } else { (after(MINUTE), 1000) };
        store.put(&key("p", format!("{number:04}")), value(vec![2; size]), expiry).await.unwrap();
        clock.advance(millis(100));
    }
    let tidy = || {
        clock.advance(millis(10_000));
        dir_bytes(dir.path()) < 150_000
    };
    eventually("1.5 MB of dead data are gone", tidy).await;
    assert_eq!(all(&*store, b"p").await.len(), 30, "the long-lived ones are all there");
    store.close().await.unwrap();
    let store = home.open(small(), &clock);
    assert_eq!(all(&*store, b"p").await.len(), 30);
}

/// Overwrites and deletes leave dead bytes, too.
#[tokio::test]
async fn overwriting_the_same_records_does_not_grow_the_directory() {
    let home = Home::dir();
    let Home::Dir(dir) = &home else { unreachable!("a directory was asked for") };
    let clock = Arc::new(ManualClock::default());
    let store = home.open(small(), &clock);
    for round in 0..100 {
        for number in 0..20 {
            let key = key("p", format!("{number}"));
            store.put(&key, value([round; 500]), Expiry::Never).await.unwrap();
        }
        clock.advance(millis(1000));
    }
    let tidy = || {
        clock.advance(millis(10_000));
        dir_bytes(dir.path()) < 150_000
    };
    eventually("1 MB of overwritten data is gone", tidy).await;
    assert!(all(&*store, b"p").await.iter().all(|record| *record.value == [99; 500]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn readers_never_see_an_expired_record_nor_stop_while_thousands_expire() {
    for home in Home::each() {
        let clock = Arc::new(ManualClock::default());
        let store = home.open(FileOptions { sync: mayfly_store::Sync::Never, ..small() }, &clock);
        let mut rng = Rng::new(3);
        let put = |number: u32| {
            let ttl = 1 + rng.below(1000);
            Put { key: key("p", number.to_be_bytes()), value: value(ttl.to_be_bytes()), expiry: after(ttl) }
        };
        store.put_batch((0..5000).map(put).collect()).await.unwrap();
        // Readers check against the time that had surely passed before they read.
        let (passed, stop, reads) =
            (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let readers: Vec<_> = (0..8)
            .map(|_| {
                let (store, passed, stop, reads) =
                    (store.clone(), passed.clone(), stop.clone(), reads.clone());
                tokio::spawn(async move {
                    while !stop.load(Ordering::Acquire) {
                        let before = passed.load(Ordering::Acquire);
                        let records = all(&*store, b"p").await;
                        let early = records.iter().find(|record| deadline(&record.value) <= before);
                        assert_eq!(early, None, "after {before} ms");
                        reads.fetch_add(1, Ordering::AcqRel);
                        tokio::task::yield_now().await;
                    }
                })
            })
            .collect();
        for step in 1..=20 {
            clock.advance(millis(50));
            passed.store(step * 50, Ordering::Release);
            let seen = reads.load(Ordering::Acquire);
            eventually("readers go on", || reads.load(Ordering::Acquire) > seen).await;
        }
        stop.store(true, Ordering::Release);
        for reader in readers {
            reader.await.expect("no reader panics");
        }
        assert_eq!(all(&*store, b"p").await, []);
        eventually("all are let go", || store.figures().expired == 5000).await;
    }
}

fn deadline(value: &[u8]) -> u64 {
    u64::from_be_bytes(value.try_into().expect("eight bytes"))
}
