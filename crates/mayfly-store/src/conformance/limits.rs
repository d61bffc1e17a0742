//! What is refused: at the edge by the types, at the store where only its clock can tell.

use std::time::Duration;

use super::outcome::{Outcome, ensure, ensure_eq};
use super::trial::{Trial, value};
use crate::error::{ErrorKind, Result};
use crate::record::{Key, MAX_PARTITION, MAX_SORT, MAX_VALUE, Put, Range, Value};
use crate::time::{Expiry, MAX_TTL, Timestamp, Ttl};

/// Demands an error of this kind whose message states the limit.
fn refused<T>(what: &str, result: Result<T>, kind: ErrorKind, limit: &str) -> Outcome {
    match result {
        Ok(_) => ensure!(false, "{what} was accepted"),
        Err(error) => {
            ensure_eq!(error.kind(), kind, "kind of the error for {what}");
            ensure!(
                error.to_string().contains(limit),
                "the error for {what} does not state the limit {limit}: {error}"
            );
        }
    }
    Ok(())
}

pub(super) async fn keys_beyond_the_limit_are_refused(_: Trial) -> Outcome {
    let (long, sort) = (vec![b'x'; MAX_PARTITION + 1], vec![b'x'; MAX_SORT + 1]);
    refused("an empty partition", Key::new("", "sort"), ErrorKind::PartitionEmpty, "1")?;
    refused("a long partition", Key::new(&long, ""), ErrorKind::PartitionTooLong, "1024")?;
    refused("long sort columns", Key::new("p", sort), ErrorKind::SortTooLong, "1024")?;
    refused("a range of an empty partition", Range::all(""), ErrorKind::PartitionEmpty, "1")?;
    refused("a range of a long partition", Range::all(&long), ErrorKind::PartitionTooLong, "1024")
}

pub(super) async fn values_beyond_the_limit_are_refused(_: Trial) -> Outcome {
    refused("a long value", Value::new(vec![0; MAX_VALUE + 1]), ErrorKind::ValueTooLong, "262144")
}

pub(super) async fn ttls_out_of_range_are_refused(_: Trial) -> Outcome {
    let (limit, longest) = ("100 years", MAX_TTL.as_millis() as u64);
    for millis in [0, longest + 1, u64::MAX] {
        refused(&format!("{millis} ms"), Ttl::from_millis(millis), ErrorKind::InvalidTtl, limit)?;
    }
    // 2^34 s and i64::MAX s overflow a count of nanoseconds and of milliseconds.
    for secs in [0, -1, i64::MIN, 1 << 34, i64::MAX] {
        refused(&format!("{secs} s"), Ttl::from_secs(secs), ErrorKind::InvalidTtl, limit)?;
    }
    for duration in [Duration::ZERO, MAX_TTL + Duration::from_millis(1), Duration::MAX] {
        let result = Ttl::try_from(duration);
        ensure!(result.is_err_and(|e| e.kind() == ErrorKind::InvalidTtl), "{duration:?} was accepted");
    }
    refused("1.5 ms", Ttl::try_from(Duration::from_micros(1500)), ErrorKind::InvalidTtl, "whole")?;
    ensure_eq!(Ttl::from_millis(longest)?.as_millis(), longest, "the longest ttl");
    Ok(())
}

/// Tries a bad expiry with every writing operation and demands that none changes anything.
async fn expiry_is_refused(t: &Trial, name: &str, expiry: Expiry, limit: &str) -> Outcome {
    let (fresh, held, old) =
        (t.key([name, " fresh"].concat()), t.key([name, " held"].concat()), value("old"));
    let deadline = t.insert(&held, &old, t.long()).await?;
    let store = t.store();
    let invalid = ErrorKind::InvalidTtl;
    let insert = store.insert_if_not_exists(&fresh, value("new"), expiry).await;
    refused(&format!("insert with {name}"), insert, invalid, limit)?;
    let swap = store.compare_and_swap(&held, &old, value("new"), expiry).await;
    refused(&format!("swap with {name}"), swap, invalid, limit)?;
    for key in [&fresh, &held] {
        let put = Put { key: key.clone(), value: value("new"), expiry };
        refused(&format!("put with {name}"), store.put_batch(vec![put]).await, invalid, limit)?;
    }
    t.absent(&fresh).await?;
    t.live(&held, &old, &deadline).await
}

pub(super) async fn passed_deadline_is_refused(t: Trial) -> Outcome {
    expiry_is_refused(&t, "a deadline in 1970", Expiry::At(Timestamp::from_millis(0)), "").await?;
    expiry_is_refused(&t, "a deadline one step ago", t.at_millis(-(t.step().as_millis() as i64)), "").await?;
    expiry_is_refused(&t, "a deadline one millisecond ago", t.at_millis(-1), "").await?;
    expiry_is_refused(&t, "a deadline now", t.at_millis(0), "").await
}

pub(super) async fn deadline_over_100_years_ahead_is_refused(t: Trial) -> Outcome {
    let never = Expiry::At(Timestamp::from_millis(u64::MAX));
    expiry_is_refused(&t, "a deadline at the end of time", never, "100 years").await?;
    // Time goes on between building the deadline and checking it, so a millisecond decides only where it stands.
    let (longest, hair) = (MAX_TTL.as_millis() as i64, if t.is_exact() { 1 } else { 3_600_000 });
    expiry_is_refused(&t, "a deadline beyond 100 years", t.at_millis(longest + hair), "100 years").await?;
    let (key, expiry) = (t.key("longest"), t.at_millis(longest));
    let deadline = t.insert(&key, &value("v"), expiry).await?;
    t.live(&key, &value("v"), &deadline).await
}

pub(super) async fn batch_with_a_refused_put_changes_nothing(t: Trial) -> Outcome {
    let other = t.sub_partition("other");
    let keys = [t.key("a"), t.key("b"), t.key_in(&other, "c")];
    let held = t.insert(&keys[1], &value("old"), t.long()).await?;
    for bad in 0..keys.len() {
        let puts = keys.iter().enumerate().map(|(index, key)| {
            let expiry = if index == bad { t.at_millis(-1) } else { t.long() };
            Put { key: key.clone(), value: value("new"), expiry }
        });
        let result = t.store().put_batch(puts.collect()).await;
        refused("a batch with one passed deadline", result, ErrorKind::InvalidTtl, "")?;
        t.absent(&keys[0]).await?;
        t.live(&keys[1], &value("old"), &held).await?;
        t.absent(&keys[2]).await?;
    }
    Ok(())
}
