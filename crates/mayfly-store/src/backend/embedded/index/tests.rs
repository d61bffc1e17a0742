//! The index against a plain map, and what a look-up may touch.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::super::deadline::Deadline;
use super::super::timeline::Now;
use super::leaf::Slot;
use super::shard::Shard;
use super::{Index, Range};
use crate::record::Key;

fn at(line: u64) -> Now {
    Now { line, wall: line, ceiling: line }
}

fn slot(deadline: u64, seq: u64) -> Slot<u64> {
    Slot { deadline: Deadline::relative(deadline), seq, place: seq }
}

/// A small generator, so that a run can be repeated.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

fn keys_of(shard: &Shard<u64>) -> Vec<(Vec<u8>, u64)> {
    let mut keys = Vec::new();
    shard.walk(Bound::Unbounded, |key, slot| {
        keys.push((key.to_vec(), slot.seq));
        true
    });
    keys
}

#[test]
fn a_shard_equals_a_map_under_random_changes() {
    for seed in 0..20 {
        let mut state = seed;
        let mut shard = Shard::new();
        let mut model: BTreeMap<Vec<u8>, (u64, u64)> = BTreeMap::new();
        let mut line = 0;
        for seq in 0..5_000 {
            let number = next(&mut state) % 700;
            let key = [0, 1, b'p', (number >> 8) as u8, number as u8].repeat(1 + number as usize % 9);
            match next(&mut state) % 10 {
                0..6 => {
                    let deadline = line + 1 + next(&mut state) % 400;
                    let old = shard.insert(&key, slot(deadline, seq), at(line));
                    assert_eq!(old.map(|slot| slot.seq), model.insert(key, (deadline, seq)).map(|old| old.1));
                }
                6..8 => {
                    let removed = shard.remove(&key).map(|slot| slot.seq);
                    assert_eq!(removed, model.remove(&key).map(|old| old.1));
                }
                8 => assert_eq!(shard.get(&key).map(|slot| slot.seq), model.get(&key).map(|old| old.1)),
                _ => {
                    line += next(&mut state) % 40;
                    let mut reaped = Vec::new();
                    let mut after = None;
                    while {
                        after = shard.reap(at(line), after, 3, |key, _| reaped.push(key.to_vec()), |_| {});
                        after.is_some()
                    } {}
                    reaped.sort();
                    let dead = model.extract_if(.., |_, (deadline, _)| *deadline <= line);
                    assert_eq!(reaped, dead.map(|(key, _)| key).collect::<Vec<_>>(), "seed {seed} at {line}");
                }
            }
        }
        let expected: Vec<_> = model.into_iter().map(|(key, (_, seq))| (key, seq)).collect();
        assert_eq!(keys_of(&shard), expected, "seed {seed}");
    }
}

#[test]
fn a_pending_record_outlives_its_deadline_and_is_named() {
    let mut shard = Shard::new();
    shard.insert(b"\0\x01pa", slot(10, 1), at(0));
    shard.get_mut(b"\0\x01pa").unwrap().deadline = Deadline::relative(10).with_pending(true);
    let mut blocked = Vec::new();
    shard.reap(
        at(20),
        None,
        9,
        |_, _| panic!("a write is under way"),
        |deadline| blocked.push(deadline.millis()),
    );
    assert_eq!(blocked, [10]);
    shard.get_mut(b"\0\x01pa").unwrap().deadline = Deadline::relative(10);
    let mut reaped = 0;
    shard.reap(at(20), None, 9, |_, _| reaped += 1, |_| {});
    assert_eq!(reaped, 1);
}

#[test]
fn a_range_of_ten_out_of_many_looks_at_eleven() {
    let index = Index::new();
    for number in 0u32..100_000 {
        let key = Key::new("p", number.to_be_bytes()).unwrap();
        index.write(key.as_bytes(), |shard| shard.insert(key.as_bytes(), slot(1_000, 1), at(0)));
    }
    let start = Key::new("p", 50_000u32.to_be_bytes()).unwrap();
    let mut looked_at = 0;
    index.read(start.as_bytes()).walk(Bound::Included(start.as_bytes()), |_, _| {
        looked_at += 1;
        looked_at <= 10
    });
    assert_eq!(looked_at, 11);
    let range = Range::new("p", 50_000u32.to_be_bytes(), 50_010u32.to_be_bytes()).unwrap();
    assert_eq!(index.page(&range, None, 256).len(), 10);
}

#[test]
fn what_is_left_after_a_mass_expiry_lies_in_few_leaves() {
    let mut shard = Shard::new();
    for number in 0u32..64_000 {
        let key = [&b"\0\x01p"[..], &number.to_be_bytes()].concat();
        let deadline = if number.is_multiple_of(64) { 1_000 } else { 10 };
        shard.insert(&key, slot(deadline, 1), at(0));
    }
    let full = shard.leaves_in_use();
    shard.reap(at(10), None, usize::MAX, |_, _| {}, |_| {});
    assert_eq!(keys_of(&shard).len(), 1_000);
    assert!(
        shard.leaves_in_use() * 20 < full,
        "{} of {full} leaves for a 64th of the records",
        shard.leaves_in_use()
    );
}
