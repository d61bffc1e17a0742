//! Put, insert, swap and delete, one at a time: what they answer and what they leave behind.

use super::deadline::Deadline;
use super::outcome::{Outcome, ensure};
use super::trial::{Trial, value};
use crate::record::{Key, Value};
use crate::time::Expiry;

pub(super) async fn put_replaces_value_and_expiry(t: Trial) -> Outcome {
    let key = t.key("k");
    let rounds = [("one", t.long()), ("two", t.steps(20)), ("", t.steps(1000)), ("four", t.at_steps(500))];
    for (text, expiry) in rounds {
        let deadline = t.put(&key, &value(text), expiry).await?;
        t.live(&key, &value(text), &deadline).await?;
    }
    Ok(())
}

pub(super) async fn put_without_expiry_clears_the_old_one(t: Trial) -> Outcome {
    let (key, new) = (t.key("k"), value("new"));
    let old = t.put(&key, &value("old"), t.steps(1)).await?;
    t.put(&key, &new, Expiry::Never).await?;
    t.live(&key, &new, &Deadline::Never).await?;
    t.outlive(&old).await;
    t.live(&key, &new, &Deadline::Never).await?;
    t.delete(&key, (&new, &Deadline::Never)).await
}

pub(super) async fn insert_leaves_a_live_record_untouched(t: Trial) -> Outcome {
    let (key, first) = (t.key("k"), value("first"));
    let deadline = t.insert(&key, &first, t.long()).await?;
    for (text, expiry) in [("first", t.steps(1)), ("other", Expiry::Never), ("", t.steps(5000))] {
        let inserted = t.store().insert_if_not_exists(&key, value(text), expiry).await?;
        ensure!(!inserted, "insert of {text:?} over a live record succeeded");
        t.live(&key, &first, &deadline).await?;
    }
    t.pass(t.step() * 2).await;
    t.live(&key, &first, &deadline).await
}

pub(super) async fn insert_takes_the_place_of_an_expired_record(t: Trial) -> Outcome {
    let key = t.key("k");
    let relative = t.insert(&key, &value("first"), t.steps(1)).await?;
    t.outlive(&relative).await;
    let absolute = t.insert(&key, &value("second"), t.at_steps(1)).await?;
    t.live(&key, &value("second"), &absolute).await?;
    t.outlive(&absolute).await;
    let last = t.insert(&key, &value("third"), t.long()).await?;
    t.live(&key, &value("third"), &last).await
}

/// Tries to swap and to delete with a wrong expectation, and demands that neither succeeds.
async fn refuses(t: &Trial, key: &Key, wrong: &Value) -> Outcome {
    let swapped = t.store().compare_and_swap(key, wrong, value("stolen"), Expiry::Never).await?;
    ensure!(!swapped, "swap of {key:?} from {wrong:?} succeeded");
    ensure!(!t.store().compare_and_delete(key, wrong).await?, "delete of {key:?} with {wrong:?} succeeded");
    Ok(())
}

pub(super) async fn swap_needs_the_live_value(t: Trial) -> Outcome {
    let (key, old, new) = (t.key("k"), value("old"), value("new"));
    refuses(&t, &key, &old).await?;
    t.absent(&key).await?;
    let inserted = t.insert(&key, &old, t.long()).await?;
    refuses(&t, &key, &new).await?;
    let swapped = t.swap(&key, (&old, &inserted), &new, t.long()).await?;
    t.live(&key, &new, &swapped).await?;
    refuses(&t, &key, &old).await?;
    t.live(&key, &new, &swapped).await
}

pub(super) async fn swap_resets_the_ttl(t: Trial) -> Outcome {
    let (old, new) = (value("old"), value("new"));
    for (sort, before, after) in [
        ("longer", t.steps(2), t.steps(40)),
        ("shorter", t.steps(40), t.steps(3)),
        ("from never", Expiry::Never, t.steps(3)),
        ("to a wall time", t.steps(2), t.at_steps(40)),
        ("from a wall time", t.at_steps(40), t.steps(3)),
    ] {
        let key = t.key(sort);
        let inserted = t.insert(&key, &old, before).await?;
        let swapped = t.swap(&key, (&old, &inserted), &new, after).await?;
        t.live(&key, &new, &swapped).await?;
        if sort == "longer" || sort == "to a wall time" {
            t.outlive(&inserted).await;
            t.live(&key, &new, &swapped).await?;
        } else {
            t.outlive(&swapped).await;
            t.absent(&key).await?;
        }
    }
    Ok(())
}

pub(super) async fn swap_to_never_removes_the_ttl(t: Trial) -> Outcome {
    let (key, old, new) = (t.key("k"), value("old"), value("new"));
    let inserted = t.insert(&key, &old, t.steps(2)).await?;
    let forever = t.swap(&key, (&old, &inserted), &new, Expiry::Never).await?;
    t.live(&key, &new, &forever).await?;
    t.outlive(&inserted).await;
    t.pass(t.step()).await;
    t.live(&key, &new, &forever).await?;
    t.delete(&key, (&new, &forever)).await
}

pub(super) async fn refused_swap_leaves_value_and_ttl(t: Trial) -> Outcome {
    let (key, held) = (t.key("k"), value("held"));
    let deadline = t.insert(&key, &held, t.steps(5)).await?;
    for expiry in [t.steps(1), t.long(), Expiry::Never] {
        let swapped = t.store().compare_and_swap(&key, &value("wrong"), value("new"), expiry).await?;
        ensure!(!swapped, "swap with a wrong expectation succeeded");
        t.live(&key, &held, &deadline).await?;
    }
    t.outlive(&deadline).await;
    t.absent(&key).await
}

pub(super) async fn swap_to_the_same_value_renews(t: Trial) -> Outcome {
    let (key, held) = (t.key("k"), value("held"));
    let first = t.insert(&key, &held, t.steps(3)).await?;
    let second = t.swap(&key, (&held, &first), &held, t.steps(6)).await?;
    t.outlive(&first).await;
    t.live(&key, &held, &second).await?;
    t.outlive(&second).await;
    t.absent(&key).await
}

pub(super) async fn delete_needs_the_live_value(t: Trial) -> Outcome {
    let (key, held) = (t.key("k"), value("held"));
    refuses(&t, &key, &held).await?;
    let deadline = t.insert(&key, &held, t.long()).await?;
    refuses(&t, &key, &value("wrong")).await?;
    t.live(&key, &held, &deadline).await?;
    t.delete(&key, (&held, &deadline)).await?;
    t.absent(&key).await?;
    refuses(&t, &key, &held).await?;
    t.absent(&key).await
}

pub(super) async fn delete_works_with_empty_sort(t: Trial) -> Outcome {
    let (key, neighbour, held) = (t.key(""), t.key("\0"), value("held"));
    let deadline = t.insert(&key, &held, t.long()).await?;
    let beside = t.insert(&neighbour, &held, t.long()).await?;
    t.delete(&key, (&held, &deadline)).await?;
    t.absent(&key).await?;
    ensure!(!t.store().compare_and_delete(&key, &held).await?, "a second delete succeeded");
    t.live(&neighbour, &held, &beside).await
}
