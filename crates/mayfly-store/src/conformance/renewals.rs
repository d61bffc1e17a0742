//! Deadlines that change: no older one may ever touch a record, and a shortened one frees the key.

use std::time::Duration;

use super::deadline::Deadline;
use super::outcome::{Outcome, ensure};
use super::trial::{Trial, value};
use crate::record::Key;
use crate::time::{Expiry, Ttl};

/// Absent for all who look, and free for the next one.
async fn free_again(t: &Trial, key: &Key) -> Outcome {
    t.absent(key).await?;
    let deadline = t.insert(key, &value("next"), t.long()).await?;
    t.live(key, &value("next"), &deadline).await
}

/// On Cassandra the first insert's row marker outlives the shortened value: absent, and yet not insertable.
pub(super) async fn shortened_ttl_expires_and_frees_the_key(t: Trial) -> Outcome {
    let (long, short) = (value("long"), value("short"));
    for (sort, first, to_wall_time) in [
        ("ttl to ttl", t.steps(1000), false),
        ("ttl to wall time", t.steps(1000), true),
        ("wall time to wall time", t.at_steps(1000), true),
        ("wall time to ttl", t.at_steps(1000), false),
    ] {
        let key = t.key(sort);
        let inserted = t.insert(&key, &long, first).await?;
        let second = if to_wall_time { t.at_steps(1) } else { t.steps(1) };
        let swapped = t.swap(&key, (&long, &inserted), &short, second).await?;
        t.outlive(&swapped).await;
        free_again(&t, &key).await?;
    }
    let key = t.key("by put");
    t.insert(&key, &long, t.steps(1000)).await?;
    let put = t.put(&key, &short, t.steps(1)).await?;
    t.outlive(&put).await;
    free_again(&t, &key).await
}

pub(super) async fn no_expiry_shortened_to_a_ttl_frees_the_key(t: Trial) -> Outcome {
    let (old, new) = (value("old"), value("new"));
    let [inserted, put] = ["inserted", "put"].map(|sort| t.key(sort));
    t.insert(&inserted, &old, Expiry::Never).await?;
    t.put(&put, &old, Expiry::Never).await?;
    for key in [inserted, put] {
        let swapped = t.swap(&key, (&old, &Deadline::Never), &new, t.steps(1)).await?;
        t.outlive(&swapped).await;
        free_again(&t, &key).await?;
    }
    Ok(())
}

/// Every way to replace a deadline by a later one, looked at after the first has passed.
pub(super) async fn old_deadline_never_touches_a_renewed_record(t: Trial) -> Outcome {
    let (old, new) = (value("old"), value("new"));
    let mut renewed = Vec::new();
    let ways = ["put", "swap", "swap to the same", "delete and insert", "delete and put"];
    for first in [t.steps(3), t.at_steps(3)] {
        for (round, later) in [t.long(), t.at_steps(1000), Expiry::Never].into_iter().enumerate() {
            for way in ways {
                let key = t.key(format!("{way} {round} {first:?}"));
                let was = t.insert(&key, &old, first).await?;
                let held = if way == "swap to the same" { &old } else { &new };
                if way.starts_with("delete") {
                    t.delete(&key, (&old, &was)).await?;
                }
                let deadline = match way {
                    "put" | "delete and put" => t.put(&key, held, later).await?,
                    "delete and insert" => t.insert(&key, held, later).await?,
                    _ => t.swap(&key, (&old, &was), held, later).await?,
                };
                renewed.push((key, held, deadline, was));
            }
        }
    }
    for (.., was) in &renewed {
        t.outlive(was).await;
    }
    // A cleaner that trusts stale deadlines gets its chance to run.
    t.pass(t.step()).await;
    for (key, held, deadline, _) in &renewed {
        t.live(key, held, deadline).await?;
        let inserted = t.store().insert_if_not_exists(key, value("thief"), t.long()).await?;
        ensure!(!inserted, "{key:?} was free for an insert after its old deadline");
        t.delete(key, (held, deadline)).await?;
    }
    Ok(())
}

/// In the source system a leader that renews every five seconds loses its lease after an hour.
pub(super) async fn lease_renewed_many_times_lives(t: Trial) -> Outcome {
    let (ttl, pause, renewals) = if t.is_exact() {
        (Expiry::After(Ttl::from_secs(20)?), Duration::from_secs(5), 800)
    } else {
        (t.steps(4), t.step(), 12)
    };
    let (key, held) = (t.key("lease"), value("holder"));
    let mut deadline = t.insert(&key, &held, ttl).await?;
    for _ in 0..renewals {
        t.pass(pause).await;
        t.live(&key, &held, &deadline).await?;
        deadline = t.swap(&key, (&held, &deadline), &held, ttl).await?;
    }
    t.live(&key, &held, &deadline).await?;
    t.outlive(&deadline).await;
    free_again(&t, &key).await
}

pub(super) async fn delete_then_insert_with_longer_ttl_lives(t: Trial) -> Outcome {
    let (key, first, second) = (t.key("k"), value("first"), value("second"));
    for _ in 0..3 {
        let short = t.insert(&key, &first, t.steps(2)).await?;
        t.delete(&key, (&first, &short)).await?;
        let long = t.insert(&key, &second, t.steps(6)).await?;
        t.outlive(&short).await;
        t.live(&key, &second, &long).await?;
        t.delete(&key, (&second, &long)).await?;
    }
    t.absent(&key).await
}

pub(super) async fn deleted_record_stays_away(t: Trial) -> Outcome {
    let (key, held) = (t.key("k"), value("held"));
    // Overwritten before it is deleted, so that older versions exist that could come back.
    t.put(&key, &value("older"), t.long()).await?;
    let deadline = t.put(&key, &held, t.steps(3)).await?;
    t.delete(&key, (&held, &deadline)).await?;
    t.absent(&key).await?;
    t.outlive(&deadline).await;
    t.pass(t.step()).await;
    t.absent(&key).await?;
    ensure!(!t.store().compare_and_delete(&key, &held).await?, "the record was deleted a second time");
    free_again(&t, &key).await
}
