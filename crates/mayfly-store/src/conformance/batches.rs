//! Reading and writing many records at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::outcome::{Outcome, ensure, ensure_eq};
use super::trial::{Trial, value};
use crate::record::{Key, Put, Range, Value};
use crate::time::Expiry;

const MANY: u32 = 1000;

fn put(key: &Key, value: Value, expiry: Expiry) -> Put {
    Put { key: key.clone(), value, expiry }
}

async fn values_of(t: &Trial, keys: &[Key]) -> Outcome<Vec<Option<Value>>> {
    let entries = t.store().get_batch(keys).await?;
    Ok(entries.into_iter().map(|entry| entry.map(|entry| entry.value)).collect())
}

pub(super) async fn get_batch_keeps_order_and_duplicates(t: Trial) -> Outcome {
    let [a, b, c, missing] = ["a", "b", "c", "missing"].map(|sort| t.key(sort));
    for (key, text) in [(&b, "B"), (&a, "A"), (&c, "")] {
        t.insert(key, &value(text), t.long()).await?;
    }
    let asked = [c.clone(), missing.clone(), a.clone(), c.clone(), b, a.clone(), missing, a];
    let wanted = [Some(""), None, Some("A"), Some(""), Some("B"), Some("A"), None, Some("A")];
    let found = values_of(&t, &asked).await?;
    ensure_eq!(found, wanted.map(|text| text.map(value)).to_vec(), "get_batch of {asked:?}");
    Ok(())
}

pub(super) async fn get_batch_of_nothing_is_empty(t: Trial) -> Outcome {
    ensure_eq!(t.store().get_batch(&[]).await?, vec![], "get_batch of no keys");
    Ok(())
}

pub(super) async fn get_batch_spans_partitions(t: Trial) -> Outcome {
    let keys: Vec<Key> = (0..20u8).map(|i| t.key_in(&t.sub_partition([i % 5]), [i])).collect();
    for (index, key) in keys.iter().enumerate().filter(|(index, _)| index % 3 != 0) {
        t.insert(key, &value([index as u8]), t.long()).await?;
    }
    let wanted: Vec<_> = (0..20u8).map(|i| (i % 3 != 0).then(|| value([i]))).collect();
    ensure_eq!(values_of(&t, &keys).await?, wanted, "get_batch over five partitions");
    Ok(())
}

pub(super) async fn put_batch_of_nothing_is_fine(t: Trial) -> Outcome {
    t.store().put_batch(vec![]).await?;
    ensure_eq!(t.sorts(Range::all(t.partition())?).await?.len(), 0, "records after an empty batch");
    Ok(())
}

pub(super) async fn put_batch_spans_partitions(t: Trial) -> Outcome {
    let keys: Vec<Key> = (0..30u8).map(|i| t.key_in(&t.sub_partition([i % 7]), [i])).collect();
    let puts = keys.iter().enumerate().map(|(i, key)| put(key, value([i as u8]), t.long()));
    t.store().put_batch(puts.collect()).await?;
    let wanted: Vec<_> = (0..30u8).map(|i| Some(value([i]))).collect();
    ensure_eq!(values_of(&t, &keys).await?, wanted, "get_batch after a batch over seven partitions");
    let sorts = t.sorts(Range::all(t.sub_partition([3]))?).await?;
    ensure_eq!(sorts, vec![vec![3], vec![10], vec![17], vec![24]], "one of the partitions");
    Ok(())
}

pub(super) async fn put_batch_keeps_the_later_of_two_puts(t: Trial) -> Outcome {
    let (key, other) = (t.key("twice"), t.key("other"));
    let batch = vec![
        put(&key, value("first"), Expiry::Never),
        put(&other, value("other"), t.long()),
        put(&key, value("second"), t.long()),
        put(&key, value("last"), t.steps(2)),
    ];
    let done = t.timed(t.store().put_batch(batch)).await?;
    let deadline = t.deadline(t.steps(2), &done);
    t.live(&key, &value("last"), &deadline).await?;
    t.outlive(&deadline).await;
    t.absent(&key).await?;
    ensure_eq!(t.sorts(Range::all(t.partition())?).await?, vec![b"other".to_vec()], "what is left");
    Ok(())
}

pub(super) async fn put_batch_gives_each_record_its_expiry(t: Trial) -> Outcome {
    let [soon, late, never, at] = ["soon", "late", "never", "at"].map(|sort| t.key(sort));
    let held = value("held");
    let before = t.insert(&never, &held, t.steps(1)).await?;
    let expiries = [(&soon, t.steps(1)), (&late, t.long()), (&never, Expiry::Never), (&at, t.at_steps(2))];
    let batch = expiries.iter().map(|(key, expiry)| put(key, held.clone(), *expiry)).collect();
    let done = t.timed_write(expiries[3].1, t.store().put_batch(batch)).await?;
    let deadlines = expiries.map(|(_, expiry)| t.deadline(expiry, &done));
    t.outlive(&before).await;
    t.outlive(&deadlines[0]).await;
    t.absent(&soon).await?;
    t.live(&at, &held, &deadlines[3]).await?;
    t.outlive(&deadlines[3]).await;
    t.absent(&at).await?;
    t.live(&late, &held, &deadlines[1]).await?;
    t.live(&never, &held, &deadlines[2]).await?;
    t.delete(&never, (&held, &deadlines[2])).await
}

pub(super) async fn batches_of_a_thousand_work(t: Trial) -> Outcome {
    for partitions in [1, 50] {
        let name = |i: u32| t.sub_partition(format!("{partitions} {}", i % partitions));
        let keys: Vec<Key> = (0..MANY).map(|i| t.key_in(&name(i), i.to_be_bytes())).collect();
        let text = |i: u32| value([i.to_be_bytes().as_slice(), &[b'x'; 100]].concat());
        let puts = keys.iter().zip(0..).map(|(key, i)| put(key, text(i), t.long()));
        t.store().put_batch(puts.collect()).await?;
        let backwards: Vec<Key> = keys.iter().rev().cloned().collect();
        let found = values_of(&t, &backwards).await?;
        ensure_eq!(found.len(), keys.len(), "length of the answer to get_batch of {MANY} keys");
        for (found, i) in found.into_iter().zip((0..MANY).rev()) {
            ensure_eq!(found, Some(text(i)), "record {i} of {MANY} in {partitions} partition(s)");
        }
        let first = t.sorts(Range::all(name(0))?).await?;
        ensure_eq!(
            first.len() as u32,
            MANY / partitions,
            "records in the first of {partitions} partition(s)"
        );
    }
    Ok(())
}

/// A reader who has seen one record of a generation must find all others at least as new, whichever it looks at
/// first. That holds for every store with atomic batches, also where `get_batch` itself is no snapshot.
pub(super) async fn put_batch_is_seen_whole_or_not_at_all(t: Trial) -> Outcome {
    const KEYS: u64 = 8;
    const GENERATIONS: u64 = 200;
    let keys: Arc<Vec<Key>> = Arc::new((0..KEYS).map(|i| t.key(i.to_be_bytes())).collect());
    let done = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..4u64)
        .map(|reader| {
            let (t, keys, done) = (t.clone(), keys.clone(), done.clone());
            tokio::spawn(async move {
                let (mut rounds, mut newest) = (reader, 0);
                while newest < GENERATIONS && !done.load(Ordering::Relaxed) {
                    rounds += 1;
                    newest = see_one_then_the_others(&t, &keys, rounds).await?;
                    tokio::task::yield_now().await;
                }
                Outcome::Ok(())
            })
        })
        .collect();
    for generation in 1..=GENERATIONS {
        let puts = keys.iter().map(|key| put(key, value(generation.to_be_bytes()), t.long()));
        t.store().put_batch(puts.collect()).await?;
        tokio::task::yield_now().await;
    }
    done.store(true, Ordering::Relaxed);
    for reader in readers {
        reader.await.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))?;
    }
    Ok(())
}

async fn see_one_then_the_others(t: &Trial, keys: &[Key], round: u64) -> Outcome<u64> {
    let generation = |value: Option<&Value>| {
        value.and_then(|value| value[..].try_into().ok()).map_or(0, u64::from_be_bytes)
    };
    let first = &keys[round as usize % keys.len()];
    let entry = t.store().get(first).await?;
    let seen = generation(entry.as_ref().map(|entry| &entry.value));
    if round.is_multiple_of(3) {
        let records = t.records(Range::all(t.partition())?).await?;
        ensure!(seen == 0 || records.len() == keys.len(), "a range read found only {records:?}");
        for record in records {
            let found = generation(Some(&record.value));
            ensure!(found >= seen, "saw {first:?} of batch {seen}, then {:?} of batch {found}", record.key);
        }
        return Ok(seen);
    }
    for key in keys {
        let entry = t.store().get(key).await?;
        let found = generation(entry.as_ref().map(|entry| &entry.value));
        ensure!(found >= seen, "saw {first:?} of batch {seen}, then {key:?} of batch {found}");
    }
    Ok(seen)
}
