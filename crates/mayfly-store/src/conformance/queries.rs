//! What a store says about the time left.

use std::time::Duration;

use super::deadline::Deadline;
use super::outcome::{Miss, Outcome, ensure, ensure_eq};
use super::trial::{Trial, value};
use crate::record::{Key, Range};
use crate::store::TtlState;
use crate::time::{Expiry, Ttl};

pub(super) async fn query_ttl_tells_three_states(t: Trial) -> Outcome {
    let (key, held) = (t.key("k"), value("held"));
    ensure_eq!(t.store().query_ttl(&key).await?, TtlState::Absent, "query_ttl before the first write");
    t.insert(&key, &held, Expiry::Never).await?;
    ensure_eq!(t.store().query_ttl(&key).await?, TtlState::Forever, "query_ttl without expiry");
    let deadline = t.swap(&key, (&held, &Deadline::Never), &held, t.steps(2)).await?;
    left_fits(&t, &key, &deadline).await?;
    t.outlive(&deadline).await;
    ensure_eq!(t.store().query_ttl(&key).await?, TtlState::Absent, "query_ttl after expiry");
    let deadline = t.insert(&key, &held, t.long()).await?;
    t.delete(&key, (&held, &deadline)).await?;
    ensure_eq!(t.store().query_ttl(&key).await?, TtlState::Absent, "query_ttl after delete");
    Ok(())
}

/// Demands a time left that fits the deadline.
async fn left_fits(t: &Trial, key: &Key, deadline: &Deadline) -> Outcome {
    let seen = t.timed(t.store().query_ttl(key)).await?;
    let left = match seen.result {
        TtlState::Left(left) => left,
        TtlState::Absent if !deadline.is_surely_ahead(seen.ended) => return Err(Miss::TooSlow),
        other => {
            ensure!(false, "query_ttl of {key:?} says {other:?}, wanted {deadline:?}");
            return Ok(());
        }
    };
    ensure!(left.as_secs_ceil() >= 1, "a live record reads {} s", left.as_secs_ceil());
    let left = Duration::from_millis(left.as_millis());
    let most = deadline.surely_passes_in(seen.began);
    let least = match deadline {
        Deadline::Relative { earliest, .. } => earliest.boot.saturating_sub(seen.ended.boot),
        _ => deadline.surely_passes_in(seen.ended),
    };
    // A store may count the time left from whole milliseconds at both ends.
    let grain = if t.is_exact() { Duration::ZERO } else { Duration::from_millis(1) };
    ensure!(
        left <= most + grain && left + grain >= least,
        "query_ttl of {key:?} says {left:?}, wanted {least:?} to {most:?}"
    );
    Ok(())
}

pub(super) async fn query_ttl_follows_every_write(t: Trial) -> Outcome {
    let (key, held) = (t.key("k"), value("held"));
    let deadline = t.insert(&key, &held, t.steps(50)).await?;
    left_fits(&t, &key, &deadline).await?;
    t.pass(t.step()).await;
    left_fits(&t, &key, &deadline).await?;
    let deadline = t.swap(&key, (&held, &deadline), &held, t.steps(100)).await?;
    left_fits(&t, &key, &deadline).await?;
    let deadline = t.put(&key, &held, t.steps(20)).await?;
    left_fits(&t, &key, &deadline).await?;
    let deadline = t.put(&key, &held, t.at_steps(40)).await?;
    left_fits(&t, &key, &deadline).await?;
    t.pass(t.step()).await;
    left_fits(&t, &key, &deadline).await?;
    t.delete(&key, (&held, &deadline)).await?;
    let deadline = t.insert(&key, &held, t.steps(30)).await?;
    left_fits(&t, &key, &deadline).await
}

/// Rounding must not lend time: who asks right after writing reads at most what was given, also in seconds.
pub(super) async fn query_ttl_never_says_more_than_was_given(t: Trial) -> Outcome {
    let (key, held, given) = (t.key("k"), value("held"), Ttl::from_secs(1000)?);
    for _ in 0..50 {
        t.put(&key, &held, given.into()).await?;
        let TtlState::Left(left) = t.store().query_ttl(&key).await? else {
            ensure!(false, "query_ttl does not know the time left");
            return Ok(());
        };
        ensure!(left <= given, "query_ttl says {left:?} right after {given:?} was given");
        ensure!(left.as_secs_ceil() <= 1000, "{} s left of 1000", left.as_secs_ceil());
    }
    Ok(())
}

pub(super) async fn query_ttl_rounds_seconds_up(t: Trial) -> Outcome {
    let (key, held) = (t.key("k"), value("held"));
    let seconds = async || -> Outcome<Option<(u64, u64)>> {
        Ok(match t.store().query_ttl(&key).await? {
            TtlState::Left(left) => Some((left.as_millis(), left.as_secs_ceil())),
            _ => None,
        })
    };
    if !t.is_exact() {
        let deadline = t.insert(&key, &held, t.steps(1)).await?;
        let (_, secs) = seconds().await?.ok_or(Miss::TooSlow)?;
        ensure_eq!(secs, t.step().as_millis().div_ceil(1000) as u64, "seconds left of one step");
        return t.live(&key, &held, &deadline).await;
    }
    t.insert(&key, &held, Ttl::from_millis(2001)?.into()).await?;
    let rounds = [(0, 2001, 3), (1, 2000, 2), (999, 1001, 2), (1, 1000, 1), (1, 999, 1), (998, 1, 1)];
    for (pass, millis, secs) in rounds {
        t.pass(Duration::from_millis(pass)).await;
        ensure_eq!(seconds().await?, Some((millis, secs)), "milliseconds and seconds left");
    }
    t.pass(Duration::from_millis(1)).await;
    ensure_eq!(seconds().await?, None, "milliseconds and seconds left at the deadline");
    Ok(())
}

pub(super) async fn expires_at_is_the_same_wherever_it_is_shown(t: Trial) -> Outcome {
    let held = value("held");
    for (sort, expiry) in [("ttl", t.steps(100)), ("wall", t.at_steps(100)), ("never", Expiry::Never)] {
        let key = t.key(sort);
        let deadline = t.insert(&key, &held, expiry).await?;
        for _ in 0..2 {
            let shown = t.store().get(&key).await?;
            let entry = shown.as_ref().ok_or(Miss::TooSlow)?;
            t.deadline_reads(&key, entry.expires_at, &deadline)?;
            let batch = t.store().get_batch(std::slice::from_ref(&key)).await?;
            ensure_eq!(batch, vec![shown.clone()], "get_batch beside get of {key:?}");
            let records = t.records(Range::prefix(t.partition(), sort)?).await?;
            ensure_eq!(records.len(), 1, "records of {key:?}");
            ensure_eq!(records[0].expires_at, entry.expires_at, "expires_at from read beside get of {key:?}");
            t.pass(t.step()).await;
        }
        t.delete(&key, (&held, &deadline)).await?;
    }
    Ok(())
}
