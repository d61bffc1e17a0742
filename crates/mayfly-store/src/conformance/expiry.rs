//! Expired is absent: for every operation, at once, and not a moment before.

use std::time::Duration;

use super::outcome::{Outcome, ensure, ensure_eq};
use super::trial::{Trial, value};
use crate::record::{Key, Put, Range};
use crate::store::TtlState;
use crate::time::{Expiry, Ttl};

/// Two records that were seen alive and have just expired, one by a ttl and one at a wall time, and one between
/// them that lives on. Nothing has touched them since.
async fn expired(t: &Trial) -> Outcome<[Key; 2]> {
    let keys = [t.key("1 ttl"), t.key("3 wall time")];
    let expiries = [t.steps(1), t.at_steps(1)];
    t.insert(&t.key("2 alive"), &value("v"), t.long()).await?;
    let mut deadlines = Vec::new();
    for (key, expiry) in keys.iter().zip(expiries) {
        deadlines.push(t.insert(key, &value("v"), expiry).await?);
    }
    for (key, deadline) in keys.iter().zip(&deadlines) {
        t.live(key, &value("v"), deadline).await?;
    }
    for deadline in &deadlines {
        t.outlive(deadline).await;
    }
    Ok(keys)
}

pub(super) async fn expired_is_absent_for_get(t: Trial) -> Outcome {
    for key in expired(&t).await? {
        ensure_eq!(t.store().get(&key).await?, None, "get of the expired {key:?}");
    }
    Ok(())
}

pub(super) async fn expired_is_absent_for_get_batch(t: Trial) -> Outcome {
    let [first, second] = expired(&t).await?;
    let found = t.store().get_batch(&[first.clone(), t.key("2 alive"), second, first]).await?;
    let present: Vec<bool> = found.iter().map(Option::is_some).collect();
    ensure_eq!(present, vec![false, true, false, false], "get_batch of expired, live, expired, expired");
    Ok(())
}

pub(super) async fn expired_is_absent_for_read(t: Trial) -> Outcome {
    let [first, second] = expired(&t).await?;
    let alive = vec![b"2 alive".to_vec()];
    ensure_eq!(t.sorts(Range::all(t.partition())?).await?, alive, "read of the whole partition");
    let bounded = Range::new(t.partition(), first.sort(), [second.sort(), b"x"].concat())?;
    ensure_eq!(t.sorts(bounded).await?, alive, "read between bounds");
    Ok(())
}

pub(super) async fn expired_is_absent_for_query_ttl(t: Trial) -> Outcome {
    for key in expired(&t).await? {
        ensure_eq!(t.store().query_ttl(&key).await?, TtlState::Absent, "query_ttl of the expired {key:?}");
    }
    Ok(())
}

pub(super) async fn expired_is_absent_for_insert(t: Trial) -> Outcome {
    for key in expired(&t).await? {
        let deadline = t.insert(&key, &value("new"), t.long()).await?;
        t.live(&key, &value("new"), &deadline).await?;
    }
    Ok(())
}

pub(super) async fn expired_is_absent_for_swap(t: Trial) -> Outcome {
    for key in expired(&t).await? {
        for new in ["v", "new"] {
            let swapped = t.store().compare_and_swap(&key, &value("v"), value(new), t.long()).await?;
            ensure!(!swapped, "swap of the expired {key:?} succeeded");
        }
        t.absent(&key).await?;
    }
    Ok(())
}

pub(super) async fn expired_is_absent_for_delete(t: Trial) -> Outcome {
    for key in expired(&t).await? {
        let deleted = t.store().compare_and_delete(&key, &value("v")).await?;
        ensure!(!deleted, "delete of the expired {key:?} succeeded");
        t.absent(&key).await?;
    }
    Ok(())
}

pub(super) async fn expired_is_absent_after_put_and_put_batch(t: Trial) -> Outcome {
    let keys: Vec<Key> = (0..20u8).map(|i| t.key([i])).collect();
    let puts = keys.iter().map(|key| Put { key: key.clone(), value: value("v"), expiry: t.steps(1) });
    let done = t.timed(t.store().put_batch(puts.collect())).await?;
    t.outlive(&t.deadline(t.steps(1), &done)).await;
    for key in &keys {
        t.absent(key).await?;
    }
    ensure_eq!(t.sorts(Range::all(t.partition())?).await?.len(), 0, "records left in the partition");
    let deadline = t.put(&keys[0], &value("w"), t.steps(1)).await?;
    t.live(&keys[0], &value("w"), &deadline).await?;
    t.outlive(&deadline).await;
    t.absent(&keys[0]).await
}

/// Looks again and again around the deadline and judges every single answer.
pub(super) async fn expiry_is_never_early_and_never_late(t: Trial) -> Outcome {
    let (key, held) = (t.key("k"), value("held"));
    for expiry in [t.steps(1), t.at_steps(2)] {
        let deadline = t.insert(&key, &held, expiry).await?;
        let mut seen_alive = 0;
        loop {
            let seen = t.timed(t.store().get(&key)).await?;
            if seen.result.is_none() {
                ensure!(!deadline.is_surely_ahead(seen.ended), "gone before its deadline {deadline:?}");
                break;
            }
            seen_alive += 1;
            ensure!(!deadline.has_surely_passed(seen.began), "alive after its deadline {deadline:?}");
            t.pass(t.step() / 100).await;
        }
        ensure!(seen_alive > 0, "not seen alive even once");
        t.outlive(&deadline).await;
    }
    Ok(())
}

pub(super) async fn expiry_is_exact_to_the_millisecond(t: Trial) -> Outcome {
    if !t.is_exact() {
        return Ok(());
    }
    let millisecond = Duration::from_millis(1);
    let held = value("held");
    // Around the sizes at which a timing wheel changes its slot or level.
    for millis in
        [2, 63, 64, 65, 255, 256, 257, 999, 1000, 1001, 4096, 65_536, 262_144, 16_777_216, 86_400_000]
    {
        let (key, expiry) = (t.key("k"), Expiry::After(Ttl::from_millis(millis)?));
        let deadline = t.insert(&key, &held, expiry).await?;
        t.pass(Duration::from_millis(millis) - millisecond).await;
        t.live(&key, &held, &deadline).await?;
        t.pass(millisecond).await;
        t.absent(&key).await?;
        ensure!(!t.store().compare_and_delete(&key, &held).await?, "delete at the deadline succeeded");
    }
    Ok(())
}

/// Neighbours with deadlines close to each other: none takes another one with it.
pub(super) async fn every_record_keeps_its_own_deadline(t: Trial) -> Outcome {
    let rows: Vec<(Key, u32)> = (0..60u8).map(|i| (t.key([i]), 2 + u32::from(i) * 7 % 6 * 3)).collect();
    let mut deadlines = Vec::new();
    for (key, steps) in &rows {
        deadlines.push(t.insert(key, &value("v"), t.steps(*steps)).await?);
    }
    for _ in 0..18 {
        t.pass(t.step()).await;
        let began = t.now();
        let present: Vec<Key> =
            t.records(Range::all(t.partition())?).await?.into_iter().map(|record| record.key).collect();
        let ended = t.now();
        for ((key, _), deadline) in rows.iter().zip(&deadlines) {
            let found = present.contains(key);
            ensure!(found || !deadline.is_surely_ahead(ended), "{key:?} is gone before {deadline:?}");
            ensure!(!found || !deadline.has_surely_passed(began), "{key:?} is there after {deadline:?}");
        }
    }
    Ok(())
}
