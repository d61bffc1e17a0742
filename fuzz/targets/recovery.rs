//! Opens a sound store whose files the input has damaged: no panic, and no value that was never written.
//!
//! The input is a list of injuries, eight bytes each and some data: overwritten, cut, zeroed, moved, removed and
//! swapped pieces of any file. Those that mend a checksum afterwards may make up data, so then only panics count.

#![no_main]

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use futures_util::StreamExt;
use libfuzzer_sys::fuzz_target;
use mayfly_store::{
    ExpiredFeed, Expiry, FileOptions, FileStore, Key, ManualClock, Range, Store, StoreExt, Sync, Ttl, Value,
};

#[allow(dead_code)]
#[path = "../../crates/mayfly-store/tests/it/sim_disk.rs"]
mod sim_disk;
use sim_disk::SimDisk;

fn options() -> FileOptions {
    FileOptions { sync: Sync::Always, segment_bytes: 65_536, ..FileOptions::default() }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime").block_on(future)
}

fn key(number: u8) -> Key {
    Key::new("p", [number]).expect("a legal key")
}

/// Every value says which key it belongs to.
fn value(number: u8, version: u8) -> Value {
    Value::new(vec![number.wrapping_mul(31) ^ version; 20 + 3 * number as usize]).expect("a legal value")
}

/// The files of two stores, one closed and one killed.
fn sound() -> &'static [SimDisk; 2] {
    static SOUND: OnceLock<[SimDisk; 2]> = OnceLock::new();
    SOUND.get_or_init(|| block_on(async { [write(true).await, write(false).await] }))
}

async fn write(close: bool) -> SimDisk {
    let mut disk = SimDisk::new();
    for version in 0..3 {
        // Each run begins a file of its own.
        let store = open(&disk).expect("a sound disk opens");
        store.subscribe("listener").await.expect("it works");
        for number in 0..25 {
            let expiry = match number % 3 {
                0 => Expiry::Never,
                more => Expiry::After(Ttl::from_millis(u64::from(more) * 40).expect("a legal ttl")),
            };
            store.put(&key(number), value(number, version), expiry).await.expect("it works");
            if number % 5 == version {
                store.delete(&key(number)).await.expect("it works");
            }
        }
        if close {
            store.close().await.expect("it works");
        }
        disk = disk.after_kill();
    }
    disk
}

fn open(disk: &SimDisk) -> mayfly_store::Result<FileStore> {
    FileStore::open_on(Arc::new(disk.clone()), options(), Arc::new(ManualClock::default()))
}

/// Injures the files; true if a checksum was mended.
fn injure(disk: &SimDisk, mut input: &[u8]) -> bool {
    let mut mended = false;
    let mut files: BTreeMap<String, Vec<u8>> = disk.files();
    while let Some((head, rest)) = input.split_first_chunk::<8>() {
        input = rest;
        let names: Vec<String> = files.keys().cloned().collect();
        let name = names[head[1] as usize % names.len()].clone();
        let content = files.get_mut(&name).expect("a name from the list");
        let size = content.len();
        let at = if size == 0 { 0 } else { u16::from_le_bytes([head[2], head[3]]) as usize % size };
        let len = (u16::from_le_bytes([head[4], head[5]]) as usize).min(size - at);
        match head[0] % 8 {
            0 if size > 0 => content[at] ^= head[6].max(1),
            1 => {
                let take = (head[6] as usize).min(input.len()).min(size - at);
                content[at..at + take].copy_from_slice(&input[..take]);
                input = &input[take..];
            }
            2 => content.truncate(at),
            3 => content[at..at + len].fill(head[6]),
            4 => {
                let piece = content[at..at + len].to_vec();
                content.extend_from_slice(&piece);
            }
            5 => {
                let other = names[head[6] as usize % names.len()].clone();
                let moved = std::mem::take(content);
                let swapped = files.insert(other.clone(), moved).unwrap_or_default();
                if other != name {
                    files.insert(name, swapped);
                }
                mended = true;
            }
            6 => _ = content.drain(at..at + len),
            _ => {
                mended = true;
                mend(&name, content, at);
            }
        }
    }
    for (name, content) in files {
        disk.put_file(&name, content);
    }
    mended
}

/// Makes one checksum fit what it covers.
fn mend(name: &str, content: &mut [u8], at: usize) {
    let (from, to) = match name {
        "clock" => (at / 64 * 64, at / 64 * 64 + 60),
        _ if name.ends_with(".seg") && at < 64 => (at / 32 * 32, at / 32 * 32 + 28),
        _ if name.ends_with(".seg") => (at, at + 44),
        _ => (0, content.len().saturating_sub(4)),
    };
    if to + 4 <= content.len() {
        // Blocks are salted by their file's header.
        let salt = match name.ends_with(".seg") && at >= 64 {
            true => u32::from_le_bytes([content[16], content[17], content[18], content[19]]),
            false => 0,
        };
        let crc = crc32c::crc32c_append(salt, &content[from..to]).to_le_bytes();
        content[to..to + 4].copy_from_slice(&crc);
    }
}

async fn read(store: &FileStore, honest: bool) {
    let records: Vec<_> = store.read(Range::all("p").expect("a legal range")).collect().await;
    for record in records.into_iter().flatten() {
        if honest {
            let number = record.key.sort()[0];
            let written = (0..3).any(|version| record.value == value(number, version));
            assert!(written, "{:?} was never written to {number}", record.value);
        }
    }
    for number in 0..25 {
        _ = store.query_ttl(&key(number)).await;
    }
}

fuzz_target!(|input: &[u8]| {
    let Some((&which, input)) = input.split_first() else { return };
    let disk = sound()[which as usize % 2].after_kill();
    let honest = !injure(&disk, input);
    block_on(async {
        let Ok(store) = open(&disk) else { return };
        read(&store, honest).await;
        _ = store.verify(&mut |_| {});
        _ = store.put(&key(200), value(200, 0), Expiry::Never).await;
        _ = store.close().await;
        drop(store);
        let store = open(&disk).expect("what opened once opens again");
        read(&store, honest).await;
    });
});
