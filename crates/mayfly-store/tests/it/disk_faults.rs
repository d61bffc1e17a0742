//! What a disk does to files at rest, and a disk that gets full.
//!
//! A flipped bit anywhere is noticed, costs at most the record it is in, serves no wrong byte and deletes no
//! evidence. A full disk is a clear error that loses nothing, and passes when there is room.

#![allow(clippy::unwrap_used, reason = "clippy takes only functions marked as tests for tests")]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use mayfly_store::{ErrorKind, Expiry, FileStore, ManualClock, Store, StoreExt};

use crate::engine::{Engine, Home, after, eventually, in_time, key, millis, small, value};
use crate::sim_disk::{Rng, SimDisk};

const HOUR: u64 = 3_600_000;

/// A store's disk, and what is on it.
struct Filled {
    disk: SimDisk,
    clock: Arc<ManualClock>,
    records: BTreeMap<String, Vec<u8>>,
    /// Where the last write of a killed store begins: damage in there cannot be told from a write that was cut
    /// off, which is no damage.
    last_write: Option<(String, usize)>,
}

/// Writes records, each once, over several segments, with a subscriber; closed cleanly or killed.
async fn filled(closed: bool) -> Filled {
    let (disk, clock) = (SimDisk::new(), Arc::new(ManualClock::default()));
    let store = Home::Sim(disk.clone()).open(small(), &clock);
    store.subscribe("listener").await.unwrap();
    let mut records = BTreeMap::new();
    for number in 0..60_u8 {
        let (sort, bytes) = (format!("{number:02}"), vec![number; 40 + 60 * number as usize]);
        let expiry = if number % 2 == 0 { Expiry::Never } else { after(HOUR) };
        store.put(&key("p", &sort), value(&bytes), expiry).await.unwrap();
        records.insert(sort, bytes);
    }
    let last_log = disk.files().into_iter().rfind(|(name, _)| name.ends_with(".seg")).expect("a segment");
    let last = "last".to_string();
    store.put(&key("p", &last), value("last"), Expiry::Never).await.unwrap();
    records.insert(last, b"last".to_vec());
    let last_write = (!closed).then_some((last_log.0, last_log.1.len()));
    let left = if closed {
        store.close().await.unwrap();
        drop(store);
        disk.after_kill()
    } else {
        disk.after_kill()
    };
    Filled { disk: left, clock, records, last_write }
}

/// Reads every record: the right value, or a clear error, or absent if that was reported. Returns how many of
/// them are not there.
async fn lost(store: &FileStore, records: &BTreeMap<String, Vec<u8>>, what: &str) -> usize {
    let mut lost = 0;
    for (sort, expected) in records {
        match store.get(&key("p", sort)).await {
            Ok(Some(entry)) => assert_eq!(*entry.value, **expected, "{what}: wrong bytes for {sort}"),
            Ok(None) => lost += 1,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Corrupt, "{what}: {error:?}");
                lost += 1;
            }
        }
    }
    lost
}

async fn flip_and_check(filled: &Filled, name: &str, byte: usize, bit: u8, evidence: &[u8]) {
    let what = format!("bit {bit} of byte {byte} of {name}");
    let disk = filled.disk.after_kill();
    disk.flip(name, byte, bit);
    let before = disk.files();
    let clock = filled.clock.clone();
    let store = match FileStore::open_on(Arc::new(disk.clone()), small(), clock) {
        Ok(store) => store,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{what}: {error:?}");
            assert!(!name.ends_with(".seg"), "{what}: one bad bit makes everything unreadable: {error}");
            assert!(error.to_string().contains(name), "{what}: does not say where: {error}");
            assert_eq!(disk.files(), before, "{what}: files were touched");
            return;
        }
    };
    let lost = lost(&store, &filled.records, &what).await;
    assert!(lost <= 1, "{what}: {lost} records lost");
    let report = in_time("verify", async { store.verify(&mut |_| {}) }).await.unwrap();
    if name.ends_with(".seg") {
        let reported = !report.damaged.is_empty() || store.stats().corruptions > 0;
        assert!(reported, "{what}: reported neither by verify nor by stats");
        store.close().await.unwrap();
        let kept = disk
            .files()
            .values()
            .any(|content| content.windows(evidence.len()).any(|window| window == evidence));
        assert!(kept, "{what}: the damaged bytes are gone");
    } else {
        assert_eq!(lost, 0, "{what}: a file beside the data costs a record");
    }
}

async fn flip_everywhere(closed: bool) {
    let filled = filled(closed).await;
    let all = std::env::var_os("MAYFLY_CRASH_ALL").is_some();
    let mut rng = Rng::new(1);
    for (name, content) in filled.disk.files() {
        let stride = if all { 1 } else { (content.len() / 60).max(1) };
        let mut byte = 0;
        while byte < content.len() {
            let bit = rng.below(8) as u8;
            let from = byte.saturating_sub(8);
            let mut evidence = content[from..(byte + 8).min(content.len())].to_vec();
            evidence[byte - from] ^= 1 << bit;
            let torn = |(log, at): &(String, usize)| *log == name && byte >= *at;
            if !filled.last_write.as_ref().is_some_and(torn) {
                flip_and_check(&filled, &name, byte, bit, &evidence).await;
            }
            // Headers are dense, values are not.
            let stride = if byte < 200 { 4 } else { stride as u64 };
            byte += 1 + rng.below(2 * stride) as usize;
        }
    }
}

#[tokio::test]
async fn a_flipped_bit_in_any_file_of_a_closed_store_is_noticed_and_serves_nothing_wrong() {
    flip_everywhere(true).await;
}

#[tokio::test]
async fn a_flipped_bit_in_any_file_of_a_killed_store_is_noticed_and_serves_nothing_wrong() {
    flip_everywhere(false).await;
}

#[tokio::test]
async fn a_bit_that_flips_under_an_open_store_is_noticed_when_it_is_read() {
    let filled = filled(false).await;
    let store = FileStore::open_on(Arc::new(filled.disk.clone()), small(), filled.clock.clone()).unwrap();
    let segments = filled.disk.files();
    let wanted = vec![50; 20];
    let (name, at) = segments
        .iter()
        .find_map(|(name, content)| {
            let at = content.windows(20).position(|window| window == wanted)?;
            Some((name.clone(), at))
        })
        .expect("the value of record 50 is on disk");
    filled.disk.flip(&name, at, 3);
    let error = store.get(&key("p", "50")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error:?}");
    assert!(error.to_string().contains(&name), "it says where: {error}");
    assert_eq!(lost(&store, &filled.records, "flipped while open").await, 1);
    assert!(store.stats().corruptions > 0);
    // A new value makes the key usable again.
    store.put(&key("p", "50"), value("new"), Expiry::Never).await.unwrap();
    assert_eq!(*store.get(&key("p", "50")).await.unwrap().unwrap().value, *b"new");
}

/// Somebody keeps a copy of a data file as a value; damage beside it must not turn the copy into records.
#[tokio::test]
async fn frames_inside_a_value_are_never_taken_for_records() {
    let (source, clock) = (SimDisk::new(), Arc::new(ManualClock::default()));
    let store = Home::Sim(source.clone()).open(small(), &clock);
    store.put(&key("p", "victim"), value("from the copy"), Expiry::Never).await.unwrap();
    let segments = source.files();
    let copy = segments.iter().find(|(name, _)| name.ends_with(".seg")).expect("a segment").1.clone();

    let disk = SimDisk::new();
    let store = Home::Sim(disk.clone()).open(small(), &clock);
    store.put(&key("p", "copy"), value(&copy), Expiry::Never).await.unwrap();
    let left = disk.after_kill();
    drop(store);
    let (name, content) =
        left.files().into_iter().find(|(name, _)| name.ends_with(".seg")).expect("a segment");
    for byte in 32..content.len() {
        let damaged = left.after_kill();
        // From the first byte up to here, as a lost sector would.
        for lost in 32..=byte {
            damaged.flip(&name, lost, 0);
        }
        let store = Home::Sim(damaged).try_open(small(), &clock);
        let Ok(store) = store else { continue };
        let found = store.get(&key("p", "victim")).await;
        assert!(
            !matches!(found, Ok(Some(_))),
            "bytes 32..={byte} lost: a value was taken for a record: {found:?}"
        );
    }
}

#[tokio::test]
async fn damage_to_an_overwrite_or_a_delete_does_not_bring_the_old_record_back() {
    for delete in [false, true] {
        let (disk, clock) = (SimDisk::new(), Arc::new(ManualClock::default()));
        let store = Home::Sim(disk.clone()).open(small(), &clock);
        let record = key("p", "k");
        store.put(&record, value("the old value"), Expiry::Never).await.unwrap();
        // Enough that lives, so that the file is not worth regrouping.
        store.put(&key("p", "other"), value([1; 5000]), Expiry::Never).await.unwrap();
        if delete {
            assert!(store.delete(&record).await.unwrap());
        } else {
            store.put(&record, value("the new value"), Expiry::Never).await.unwrap();
        }
        store.close().await.unwrap();
        drop(store);
        let files = disk.files();
        let holds_old = |content: &Vec<u8>| content.windows(13).any(|window| window == b"the old value");
        let (name, content) = files.iter().find(|(_, content)| holds_old(content)).expect("still on disk");
        let after_old = content.windows(13).position(|window| window == b"the old value").unwrap() + 13;
        for byte in after_old..content.len() {
            let damaged = disk.after_kill();
            damaged.flip(name, byte, 1);
            let store = Home::Sim(damaged).open(small(), &clock);
            let found = store.get(&record).await;
            let back = matches!(&found, Ok(Some(entry)) if *entry.value == *b"the old value");
            assert!(!back, "bit 1 of byte {byte}, delete {delete}: the old value is back: {found:?}");
        }
    }
}

/// Writes records of a kilobyte until the disk is full; how many were acknowledged.
async fn fill(store: &dyn Engine, prefix: &str, expiry: Expiry) -> usize {
    for number in 0..100_000 {
        let key = key("full", format!("{prefix}{number}"));
        let write = store.put(&key, value([7; 1000]), expiry);
        match in_time("a write to a full disk", write).await {
            Ok(()) => {}
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::DiskFull, "{error:?}");
                assert_eq!(store.get(&key).await.unwrap(), None, "a refused write shows");
                return number;
            }
        }
    }
    panic!("the disk never gets full");
}

async fn all_there(store: &dyn Engine, prefix: &str, count: usize) {
    for number in 0..count {
        let key = key("full", format!("{prefix}{number}"));
        let entry = store.get(&key).await.unwrap().unwrap_or_else(|| panic!("{key:?} was acknowledged"));
        assert_eq!(*entry.value, [7; 1000]);
    }
}

#[tokio::test]
async fn a_full_disk_is_a_clear_error_that_loses_nothing_and_passes() {
    let (disk, clock) = (SimDisk::new(), Arc::new(ManualClock::default()));
    disk.set_capacity(Some(400_000));
    let store = Home::Sim(disk.clone()).open(small(), &clock);
    let written = fill(&*store, "a", after(HOUR)).await;
    assert!(written > 100, "{written} records on a disk for 400");
    all_there(&*store, "a", written).await;

    // It opens again as it is, also after a power loss.
    for left in [disk.after_kill(), disk.after_power_loss(3)] {
        let store = Home::Sim(left).open(small(), &clock);
        all_there(&*store, "a", written).await;
    }

    // More room: it works at once.
    disk.set_capacity(Some(600_000));
    let more = fill(&*store, "b", after(HOUR)).await;
    assert!(more > 50, "{more} more records in twice the room");
    all_there(&*store, "a", written).await;
    all_there(&*store, "b", more).await;

    // What expires makes room by itself.
    clock.advance(millis(HOUR));
    eventually("expiry makes room", || disk.used() < 150_000).await;
    let again = fill(&*store, "c", after(HOUR)).await;
    assert!(again > 200, "{again} records in the space of the expired ones");
    all_there(&*store, "c", again).await;
    store.close().await.unwrap();
    drop(store);
    let store = Home::Sim(disk).open(small(), &clock);
    all_there(&*store, "c", again).await;
}

/// A small file system of its own, if this process may mount one.
struct Mounted<'a>(&'a Path);

impl<'a> Mounted<'a> {
    fn tmpfs(dir: &'a Path, size: &str) -> Option<Self> {
        let options = format!("size={size}");
        let mount = Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(dir).output();
        mount.is_ok_and(|output| output.status.success()).then_some(Self(dir))
    }
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        _ = Command::new("umount").arg(self.0).status();
    }
}

#[tokio::test]
async fn a_really_full_file_system_is_a_clear_error_that_loses_nothing_and_passes() {
    let dir = tempfile::tempdir().unwrap();
    let Some(_mounted) = Mounted::tmpfs(dir.path(), "512k") else {
        eprintln!("SKIPPED: this process may not mount a file system, so none was really full");
        return;
    };
    let clock = Arc::new(ManualClock::default());
    let open = || FileStore::open(dir.path(), small(), clock.clone()).unwrap();
    let store = open();
    let written = fill(&store, "a", after(HOUR)).await;
    assert!(written > 100, "{written} records in 512k");
    all_there(&store, "a", written).await;
    drop(store);
    let store = open();
    all_there(&store, "a", written).await;
    clock.advance(millis(HOUR));
    eventually("expiry makes room", || crate::engine::dir_bytes(dir.path()) < 150_000).await;
    let again = fill(&store, "b", after(HOUR)).await;
    assert!(again > 100, "{again} records in the space of the expired ones");
    all_there(&store, "b", again).await;
    store.close().await.unwrap();
}

/// The last block of a regrouped file was synced long before a kill; damage in it is damage, not a write that was
/// cut off.
#[tokio::test]
async fn damage_at_the_end_of_a_regrouped_file_costs_one_record_and_is_reported() {
    let (disk, clock) = (SimDisk::new(), Arc::new(ManualClock::default()));
    let store = Home::Sim(disk.clone()).open(small(), &clock);
    let mut records = BTreeMap::new();
    for number in 0..20_u8 {
        let (sort, bytes) = (format!("{number:02}"), vec![number; 100]);
        store.put(&key("p", &sort), value(&bytes), after(HOUR)).await.unwrap();
        records.insert(sort, bytes);
    }
    for number in 0..80 {
        store.put(&key("filler", format!("{number}")), value([1; 1000]), after(1000)).await.unwrap();
    }
    clock.advance(millis(2000));
    eventually("the first file was regrouped", || !disk.files().contains_key("0000000001.seg")).await;
    let killed = disk.after_kill();
    drop(store);
    let holds = |content: &Vec<u8>| content.windows(100).position(|window| window == [7; 100]);
    let files = killed.files();
    let (name, at) =
        files.iter().find_map(|(name, content)| Some((name, holds(content)?))).expect("it lives");
    killed.flip(name, at + 50, 2);
    let store = FileStore::open_on(Arc::new(killed.clone()), small(), clock.clone()).unwrap();
    assert_eq!(lost(&store, &records, "a bit in a regrouped file").await, 1);
    assert!(store.stats().corruptions > 0, "it is reported");
    store.close().await.unwrap();
    let mut evidence = [7; 100];
    evidence[50] ^= 4;
    let kept = killed.files().values().any(|content| content.windows(100).any(|window| window == evidence));
    assert!(kept, "the damaged bytes are gone");
}
