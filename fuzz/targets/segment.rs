//! Feeds the decoder of blocks and frames with a data file that the input made up, checksums and all.
//!
//! Opening must not panic, and must find the same records every time.

#![no_main]

use std::sync::Arc;

use futures_util::StreamExt;
use libfuzzer_sys::fuzz_target;
use mayfly_store::{
    Expiry, FileOptions, FileStore, Key, ManualClock, Range, Record, Store, StoreExt, Sync, Value,
};

#[allow(dead_code)]
#[path = "../../crates/mayfly-store/tests/it/sim_disk.rs"]
mod sim_disk;
use sim_disk::SimDisk;

fn open(disk: &SimDisk) -> mayfly_store::Result<FileStore> {
    let options = FileOptions { sync: Sync::Always, segment_bytes: 65_536, ..FileOptions::default() };
    FileStore::open_on(Arc::new(disk.clone()), options, Arc::new(ManualClock::default()))
}

fn seal(content: &mut Vec<u8>, from: usize) {
    let crc = crc32c::crc32c(&content[from..]).to_le_bytes();
    content.extend_from_slice(&crc);
}

fn header(id: u32, role: u8) -> Vec<u8> {
    let mut content = b"MAYFLYSG\x01\0".to_vec();
    content.extend_from_slice(&[role & 1, 0]);
    content.extend_from_slice(&id.to_le_bytes());
    content.resize(28, 0);
    seal(&mut content, 0);
    content
}

/// Both copies of a file header whose salt is 0, so that all checksums are plain ones.
fn headers(id: u32, role: u8) -> Vec<u8> {
    header(id, role).repeat(2)
}

/// A frame whose checksum fits: length, then whatever the input says.
fn frame(content: &mut Vec<u8>, body: &[u8]) {
    let at = content.len();
    content.extend_from_slice(&[0; 4]);
    let mut len = body.len();
    while len > 127 {
        content.push(len as u8 | 128);
        len >>= 7;
    }
    content.push(len as u8);
    content.extend_from_slice(body);
    let crc = crc32c::crc32c(&content[at + 4..]).to_le_bytes();
    content[at..at + 4].copy_from_slice(&crc);
}

/// The header of a block, or the copy that ends it, whose checksum fits.
fn edge(content: &mut Vec<u8>, magic: &[u8; 4], body: u32, frames: u32, source: u32, numbers: &[u8]) {
    let at = content.len();
    content.extend_from_slice(magic);
    content.extend_from_slice(&body.to_le_bytes());
    content.extend((0..32).map(|place| numbers.get(place).copied().unwrap_or(0)));
    content.extend_from_slice(&frames.to_le_bytes());
    content.extend_from_slice(&source.to_le_bytes());
    seal(content, at);
}

/// Takes up to `size` bytes off the input.
fn take<'a>(input: &mut &'a [u8], size: usize) -> &'a [u8] {
    let (taken, rest) = input.split_at(size.min(input.len()));
    *input = rest;
    taken
}

/// Blocks as the input describes them: whole ones, lying ones, and plain bytes between them.
fn segment(id: u32, input: &mut &[u8]) -> Vec<u8> {
    let mut content = headers(id, input.first().copied().unwrap_or(0));
    for _ in 0..8 {
        let Some((&kind, rest)) = input.split_first() else { break };
        *input = rest;
        if kind % 4 == 0 {
            content.extend_from_slice(take(input, kind as usize));
            continue;
        }
        let numbers = take(input, 32);
        let mut body = Vec::new();
        let frames = u32::from(kind >> 4);
        for _ in 0..frames {
            let size = take(input, 1).first().map_or(0, |size| *size as usize);
            frame(&mut body, take(input, size));
        }
        // Segments 1 and 2 are there, 3 is not, 0 means new.
        let source = u32::from(kind >> 2 & 3);
        let (said_body, said_frames) = match kind % 4 {
            3 => (u32::from_le_bytes([kind, frames as u8, kind, kind]), frames + 1),
            _ => (body.len() as u32, frames),
        };
        edge(&mut content, b"MFB1", said_body, said_frames, source, numbers);
        content.extend_from_slice(&body);
        if kind % 4 != 2 {
            edge(&mut content, b"MFE1", said_body, said_frames, source, numbers);
        }
    }
    content
}

async fn read(store: &FileStore) -> Vec<Record> {
    let stream = store.read(Range::all("p").expect("a legal range"));
    stream.filter_map(|record| std::future::ready(record.ok())).collect().await
}

fuzz_target!(|input: &[u8]| {
    let mut input = input;
    let disk = SimDisk::new();
    // One file only: frames of several would have to agree with each other as the engine makes them agree.
    disk.put_file("0000000001.seg", segment(1, &mut input));
    disk.put_file("0000000002.seg", headers(2, 0));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(async {
        let Ok(store) = open(&disk) else { return };
        let found = read(&store).await;
        _ = store.verify(&mut |_| {});
        let killed = disk.after_kill();
        let own = Key::new("own", "key").expect("a legal key");
        let written = store.put(&own, Value::new(&b"v"[..]).expect("short"), Expiry::Never).await;
        if written.is_ok() {
            assert!(store.get(&own).await.expect("it was just written").is_some());
        }
        _ = store.close().await;
        drop(store);
        let again = open(&killed).expect("what opened once opens again");
        assert_eq!(read(&again).await, found, "after a kill");
        let again = open(&disk).expect("what opened once opens again");
        assert_eq!(read(&again).await, found, "after a close");
    });
});
