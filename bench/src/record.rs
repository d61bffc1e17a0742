//! The records of every workload: what record number `i` looks like. Nothing is stored to know it again.

use bytes::Bytes;

/// Bytes of a value.
pub const VALUE_BYTES: usize = 100;
/// Bytes of key and value together: what a user asked to have stored.
pub const PAYLOAD_BYTES: usize = 16 + VALUE_BYTES;
/// How many partitions the records are spread over.
pub const PARTITIONS: u64 = 1000;

const MINUTE: u64 = 60_000;
const DAY: u64 = 24 * 60 * MINUTE;

/// 8 bytes of partition, 8 bytes of sort columns.
pub type Key = [u8; 16];

/// One record to be written.
#[derive(Debug, Clone)]
pub struct Record {
    pub key: Key,
    pub value: Bytes,
    /// Milliseconds it lives.
    pub ttl: u64,
}

/// Record number `i`, with a time to live between a minute and a day.
pub fn record(i: u64) -> Record {
    Record { key: key(i), value: value(i, 0), ttl: ttl(i) }
}

/// The key of record `i`. Sort columns are scattered, so that records arrive in no order.
pub fn key(i: u64) -> Key {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&scatter(i % PARTITIONS).to_be_bytes());
    key[8..].copy_from_slice(&scatter(i.wrapping_add(1 << 40)).to_be_bytes());
    key
}

/// Where a range read number `i` starts: some partition, somewhere in the first half of it.
pub fn range_start(i: u64) -> Key {
    let mut key = key(scatter(i));
    key[8] &= 0x7f;
    key
}

/// The value of record `i` after `generation` swaps. It does not compress.
pub fn value(i: u64, generation: u64) -> Bytes {
    let mut value = Vec::with_capacity(VALUE_BYTES + 4);
    let mut word = scatter(i.wrapping_add(generation << 48));
    while value.len() < VALUE_BYTES {
        value.extend_from_slice(&word.to_be_bytes());
        word = scatter(word);
    }
    value.truncate(VALUE_BYTES);
    Bytes::from(value)
}

/// How long record `i` lives, in milliseconds.
pub fn ttl(i: u64) -> u64 {
    MINUTE + scatter(i ^ (7 << 56)) % (DAY - MINUTE)
}

/// SplitMix64's finaliser: a fixed random-looking permutation of the 64-bit numbers.
pub fn scatter(i: u64) -> u64 {
    let i = i.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let i = (i ^ (i >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let i = (i ^ (i >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    i ^ (i >> 31)
}
