//! 64 writers at once: insert has one winner, swaps lose nothing, a delete happens once.

use std::sync::Arc;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Barrier;

use super::outcome::{Outcome, ensure, ensure_eq};
use super::trial::{Trial, value};
use crate::record::{Key, Value};

const WRITERS: u64 = 64;
/// Keys that are fought for, one after the other.
const KEYS: u64 = 40;
/// Increments of the counter by each writer.
const INCREMENTS: u64 = 5;

/// Starts 64 tasks at one moment and collects what they return.
async fn race<T, F>(writer: impl Fn(u64) -> F) -> Outcome<Vec<T>>
where
    T: Send + 'static,
    F: Future<Output = Outcome<T>> + Send + 'static,
{
    let runtime = Handle::current().runtime_flavor();
    ensure!(runtime != RuntimeFlavor::CurrentThread, "races need a multi-threaded tokio runtime");
    let barrier = Arc::new(Barrier::new(WRITERS as usize));
    let tasks: Vec<_> = (0..WRITERS)
        .map(|index| {
            let (barrier, work) = (barrier.clone(), writer(index));
            tokio::spawn(async move {
                barrier.wait().await;
                work.await
            })
        })
        .collect();
    let mut results = Vec::new();
    for task in tasks {
        results.push(task.await.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))?);
    }
    Ok(results)
}

fn name(writer: u64) -> Value {
    value(writer.to_be_bytes())
}

/// Lets all writers insert under one key; demands one winner, whose value is what is there.
async fn one_insert_wins(t: &Trial, key: &Key) -> Outcome {
    let won = race(|writer| {
        let (t, key) = (t.clone(), key.clone());
        async move { Ok(t.store().insert_if_not_exists(&key, name(writer), t.long()).await?) }
    });
    let won = won.await?;
    let winners: Vec<u64> = (0..WRITERS).filter(|writer| won[*writer as usize]).collect();
    ensure_eq!(winners.len(), 1, "winners of the insert of {key:?} ({winners:?})");
    let found = t.store().get(key).await?.map(|entry| entry.value);
    ensure_eq!(found, Some(name(winners[0])), "value that the winner left at {key:?}");
    Ok(())
}

pub(super) async fn racing_inserts_have_one_winner(t: Trial) -> Outcome {
    for key in 0..KEYS {
        one_insert_wins(&t, &t.key(key.to_be_bytes())).await?;
    }
    Ok(())
}

/// The moment at which a lease ends is when everybody wants it.
pub(super) async fn racing_inserts_over_an_expired_record_have_one_winner(t: Trial) -> Outcome {
    for key in 0..8u64 {
        let key = t.key(key.to_be_bytes());
        let deadline = t.insert(&key, &value("expiring"), t.steps(1)).await?;
        t.outlive(&deadline).await;
        one_insert_wins(&t, &key).await?;
    }
    Ok(())
}

pub(super) async fn racing_swaps_of_a_counter_lose_none(t: Trial) -> Outcome {
    let counter = t.key("counter");
    t.insert(&counter, &value(0u64.to_be_bytes()), t.long()).await?;
    race(|_| {
        let (t, counter) = (t.clone(), counter.clone());
        async move {
            for _ in 0..INCREMENTS {
                increment(&t, &counter).await?;
            }
            Ok(())
        }
    })
    .await?;
    let entry = t.store().get(&counter).await?;
    let total = entry.as_ref().map(|entry| number(&entry.value));
    ensure_eq!(
        total,
        Some(WRITERS * INCREMENTS),
        "counter after {INCREMENTS} increments of {WRITERS} writers"
    );
    Ok(())
}

fn number(value: &Value) -> u64 {
    value[..].try_into().map_or(u64::MAX, u64::from_be_bytes)
}

async fn increment(t: &Trial, counter: &Key) -> Outcome {
    loop {
        let Some(entry) = t.store().get(counter).await? else {
            ensure!(false, "the counter is gone");
            return Ok(());
        };
        let next = value((number(&entry.value) + 1).to_be_bytes());
        if t.store().compare_and_swap(counter, &entry.value, next, t.long()).await? {
            return Ok(());
        }
        tokio::task::yield_now().await;
    }
}

pub(super) async fn racing_deletes_happen_once(t: Trial) -> Outcome {
    for key in 0..KEYS {
        let key = t.key(key.to_be_bytes());
        t.insert(&key, &value("prey"), t.long()).await?;
        let deleted = race(|_| {
            let (t, key) = (t.clone(), key.clone());
            async move { Ok(t.store().compare_and_delete(&key, &value("prey")).await?) }
        });
        let times = deleted.await?.into_iter().filter(|deleted| *deleted).count();
        ensure_eq!(times, 1, "successful deletes of {key:?}");
        t.absent(&key).await?;
    }
    Ok(())
}

pub(super) async fn racing_swaps_and_deletes_have_one_winner(t: Trial) -> Outcome {
    for key in 0..KEYS {
        let key = t.key(key.to_be_bytes());
        t.insert(&key, &value("prey"), t.long()).await?;
        let won = race(|writer| {
            let (t, key) = (t.clone(), key.clone());
            async move {
                let store = t.store();
                Ok(if writer.is_multiple_of(2) {
                    store.compare_and_swap(&key, &value("prey"), name(writer), t.long()).await?
                } else {
                    store.compare_and_delete(&key, &value("prey")).await?
                })
            }
        });
        let won = won.await?;
        let winners: Vec<u64> = (0..WRITERS).filter(|writer| won[*writer as usize]).collect();
        ensure_eq!(winners.len(), 1, "winners among swaps and deletes of {key:?} ({winners:?})");
        let wanted = winners[0].is_multiple_of(2).then(|| name(winners[0]));
        let found = t.store().get(&key).await?.map(|entry| entry.value);
        ensure_eq!(found, wanted, "what the winner {} left at {key:?}", winners[0]);
    }
    Ok(())
}

/// A lock by insert and delete: the number of holders, kept in a second record, never passes one.
pub(super) async fn racing_insert_and_delete_pairs_never_overlap(t: Trial) -> Outcome {
    let (lock, guarded) = (t.key("lock"), t.key("guarded"));
    t.put(&guarded, &value(0u64.to_be_bytes()), t.long()).await?;
    let held = race(|writer| {
        let (t, lock, guarded) = (t.clone(), lock.clone(), guarded.clone());
        async move {
            let mut held = 0;
            for _ in 0..20 {
                if !t.store().insert_if_not_exists(&lock, name(writer), t.long()).await? {
                    tokio::task::yield_now().await;
                    continue;
                }
                // Only safe under the lock: read, then write whatever was there.
                let entry = t.store().get(&guarded).await?;
                let next = entry.map_or(u64::MAX, |entry| number(&entry.value)) + 1;
                tokio::task::yield_now().await;
                t.put(&guarded, &value(next.to_be_bytes()), t.long()).await?;
                ensure!(
                    t.store().compare_and_delete(&lock, &name(writer)).await?,
                    "writer {writer} lost the lock while it held it"
                );
                held += 1;
            }
            Ok(held)
        }
    });
    let held: u64 = held.await?.into_iter().sum();
    let entry = t.store().get(&guarded).await?;
    let counted = entry.as_ref().map(|entry| number(&entry.value));
    ensure_eq!(counted, Some(held), "changes under the lock");
    ensure!(held > 0, "nobody got the lock");
    t.absent(&lock).await
}
