//! Opening a directory again: locks, newer formats, and how much a clean close saves.

#![allow(clippy::unwrap_used, reason = "clippy takes only functions marked as tests for tests")]

use std::sync::Arc;

use crc32c::crc32c;
use mayfly_store::{ErrorKind, Expiry, FileStore, ManualClock, Store, StoreExt};

use crate::engine::{Home, after, all, key, small, value};
use crate::sim_disk::SimDisk;

#[tokio::test]
async fn a_second_opener_gets_a_clear_error_until_the_first_one_closes() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::default());
    let open = || FileStore::open(dir.path(), small(), clock.clone());
    let first = open().unwrap();
    first.put(&key("p", "k"), value("v"), Expiry::Never).await.unwrap();
    let error = open().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Locked, "{error:?}");
    assert!(error.to_string().contains("open"), "it says what is the matter: {error}");
    assert_eq!(*first.get(&key("p", "k")).await.unwrap().unwrap().value, *b"v", "the first one goes on");
    first.close().await.unwrap();
    let second = open().unwrap();
    assert_eq!(*second.get(&key("p", "k")).await.unwrap().unwrap().value, *b"v");
    assert_eq!(open().unwrap_err().kind(), ErrorKind::Locked);
    drop(second);
    open().unwrap();
}

#[tokio::test]
async fn a_closed_store_says_so_and_closing_twice_is_fine() {
    for home in Home::each() {
        let clock = Arc::new(ManualClock::default());
        let store = home.open(small(), &clock);
        let key = key("p", "k");
        store.put(&key, value("v"), Expiry::Never).await.unwrap();
        store.close().await.unwrap();
        store.close().await.unwrap();
        let closed = |result: Result<(), mayfly_store::Error>| {
            assert_eq!(result.unwrap_err().kind(), ErrorKind::Closed, "on {home:?}");
        };
        closed(store.get(&key).await.map(drop));
        closed(store.get_batch(std::slice::from_ref(&key)).await.map(drop));
        closed(store.put(&key, value("w"), Expiry::Never).await);
        closed(store.insert_if_not_exists(&key, value("w"), Expiry::Never).await.map(drop));
        closed(store.compare_and_swap(&key, &value("v"), value("w"), Expiry::Never).await.map(drop));
        closed(store.compare_and_delete(&key, &value("v")).await.map(drop));
        closed(store.query_ttl(&key).await.map(drop));
        closed(store.subscribe("s").await);
        use futures_util::StreamExt;
        let mut stream = store.read(mayfly_store::Range::all("p").unwrap());
        closed(stream.next().await.expect("an error, not an empty partition").map(drop));
    }
}

/// A closed store with every kind of file: segments, clock, feed, index.
async fn closed_store() -> (SimDisk, Arc<ManualClock>) {
    let (disk, clock) = (SimDisk::new(), Arc::new(ManualClock::default()));
    let store = Home::Sim(disk.clone()).open(small(), &clock);
    store.subscribe("listener").await.unwrap();
    for number in 0..300 {
        store.put(&key("p", format!("{number:03}")), value([5; 500]), after(3_600_000)).await.unwrap();
    }
    store.close().await.unwrap();
    drop(store);
    (disk, clock)
}

/// The same file, sound, as a newer program would have written it.
fn newer(name: &str, mut content: Vec<u8>) -> Vec<u8> {
    let mut seal = |at: usize, from: usize, to: usize| {
        content[at..at + 2].copy_from_slice(&999_u16.to_le_bytes());
        let crc = crc32c(&content[from..to]).to_le_bytes();
        content[to..to + 4].copy_from_slice(&crc);
    };
    match name {
        "clock" => {
            seal(4, 0, 60);
            seal(68, 64, 124);
        }
        _ if name.ends_with(".seg") => seal(8, 0, 28),
        _ => {
            let end = content.len() - 4;
            content[8..10].copy_from_slice(&999_u16.to_le_bytes());
            let crc = crc32c(&content[..end]).to_le_bytes();
            content[end..].copy_from_slice(&crc);
        }
    }
    content
}

#[tokio::test]
async fn a_newer_format_of_any_file_is_refused_and_nothing_is_touched() {
    let (disk, clock) = closed_store().await;
    let kinds: Vec<String> = disk.files().into_keys().collect();
    for expected in ["clock", "feed", "index"] {
        assert!(kinds.iter().any(|name| name == expected), "{expected} is missing from {kinds:?}");
    }
    assert!(kinds.iter().filter(|name| name.ends_with(".seg")).count() > 1, "several segments: {kinds:?}");
    for name in kinds {
        let changed = disk.after_kill();
        let content = newer(&name, changed.files()[&name].clone());
        changed.put_file(&name, content);
        let before = changed.files();
        let error = Home::Sim(changed.clone()).try_open(small(), &clock).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnsupportedFormat, "{name}: {error:?}");
        assert!(error.to_string().contains(&name) && error.to_string().contains("999"), "{name}: {error}");
        assert_eq!(changed.files(), before, "{name}: files were touched");
    }
}

#[tokio::test]
async fn foreign_files_in_the_directory_are_left_alone() {
    let (disk, clock) = closed_store().await;
    disk.put_file("notes.txt", b"mine".to_vec());
    disk.put_file("1.seg", b"not a segment's name".to_vec());
    let store = Home::Sim(disk.clone()).open(small(), &clock);
    assert_eq!(all(&*store, b"p").await.len(), 300);
    store.close().await.unwrap();
    assert_eq!(disk.files()["notes.txt"], b"mine");
    assert_eq!(disk.files()["1.seg"], b"not a segment's name");
}

#[tokio::test]
async fn after_a_clean_close_opening_reads_the_index_and_not_the_data() {
    let (disk, clock) = (SimDisk::new(), Arc::new(ManualClock::default()));
    let store = Home::Sim(disk.clone()).open(small(), &clock);
    for number in 0..200 {
        store.put(&key("p", format!("{number:03}")), value([5; 5000]), after(3_600_000)).await.unwrap();
    }
    let killed = disk.after_kill();
    store.close().await.unwrap();
    drop(store);
    let read_by_opening = |disk: &SimDisk| {
        let before = disk.bytes_read();
        let store = Home::Sim(disk.clone()).open(small(), &clock);
        (disk.bytes_read() - before, store)
    };
    let (after_kill, _) = read_by_opening(&killed);
    let (after_close, store) = read_by_opening(&disk);
    assert!(after_kill > 1_000_000, "a killed store reads its data: {after_kill} bytes");
    assert!(after_close < 50_000, "a closed one its index: {after_close} bytes");
    let records = all(&*store, b"p").await;
    assert_eq!(records.len(), 200);
    assert!(records.iter().all(|record| *record.value == [5; 5000]));
}

/// The index of a clean close is true only until the next write, even if the next run is killed at once.
#[tokio::test]
async fn an_old_index_is_not_believed_after_a_run_that_was_killed() {
    let (mut disk, clock) = closed_store().await;
    for round in 0..3 {
        let store = Home::Sim(disk.clone()).open(small(), &clock);
        let key = key("p", "000");
        store.put(&key, value(format!("round {round}")), Expiry::Never).await.unwrap();
        assert!(store.delete(&self::key("p", format!("{:03}", round + 1))).await.unwrap());
        let left = disk.after_power_loss(round);
        drop(store);
        disk = left;
        let store = Home::Sim(disk.clone()).open(small(), &clock);
        assert_eq!(*store.get(&key).await.unwrap().unwrap().value, *format!("round {round}").as_bytes());
        assert_eq!(all(&*store, b"p").await.len(), 299 - round as usize);
        store.close().await.unwrap();
    }
}
