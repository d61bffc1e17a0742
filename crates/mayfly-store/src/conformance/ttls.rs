//! The shortest and the longest times to live, deadlines on the wall clock, and none at all.

use std::time::Duration;

use super::deadline::Deadline;
use super::outcome::{Outcome, ensure};
use super::trial::{Trial, value};
use crate::store::TtlState;
use crate::time::{Expiry, MAX_TTL, Ttl};

const MILLISECOND: Duration = Duration::from_millis(1);

pub(super) async fn ttl_of_one_millisecond_works(t: Trial) -> Outcome {
    let (key, held, shortest) = (t.key("k"), value("held"), Expiry::After(Ttl::from_millis(1)?));
    for _ in 0..20 {
        let deadline = t.insert(&key, &held, shortest).await?;
        if t.is_exact() {
            t.live(&key, &held, &deadline).await?;
        }
        t.outlive(&deadline).await;
        t.absent(&key).await?;
    }
    let deadline = t.put(&key, &held, shortest).await?;
    t.outlive(&deadline).await;
    t.absent(&key).await
}

pub(super) async fn ttl_of_100_years_works(t: Trial) -> Outcome {
    let (key, held, longest) = (t.key("k"), value("held"), Ttl::try_from(MAX_TTL)?);
    let inserted = t.insert(&key, &held, longest.into()).await?;
    t.live(&key, &held, &inserted).await?;
    t.pass(t.step()).await;
    t.live(&key, &held, &inserted).await?;
    let TtlState::Left(left) = t.store().query_ttl(&key).await? else {
        ensure!(false, "query_ttl does not know the time left of 100 years");
        return Ok(());
    };
    let passed = longest.as_millis() - left.as_millis();
    ensure!(left < longest && passed < 60_000, "{passed} ms are said to have passed of 100 years");
    let swapped = t.swap(&key, (&held, &inserted), &held, longest.into()).await?;
    t.delete(&key, (&held, &swapped)).await
}

pub(super) async fn never_is_never(t: Trial) -> Outcome {
    let (key, held) = (t.key("k"), value("held"));
    t.insert(&key, &held, Expiry::Never).await?;
    t.live(&key, &held, &Deadline::Never).await?;
    ensure!(t.store().query_ttl(&key).await? == TtlState::Forever, "a record without expiry has a ttl");
    t.pass(t.step()).await;
    t.live(&key, &held, &Deadline::Never).await?;
    t.delete(&key, (&held, &Deadline::Never)).await?;
    t.absent(&key).await
}

pub(super) async fn deadline_at_a_wall_time_is_kept(t: Trial) -> Outcome {
    let (old, new) = (value("old"), value("new"));
    let [inserted, put, swapped] = ["inserted", "put", "swapped"].map(|sort| t.key(sort));
    let (soon, late) = (t.at_steps(3), t.at_steps(6));
    let a = t.insert(&inserted, &old, soon).await?;
    let b = t.put(&put, &old, late).await?;
    let c = t.insert(&swapped, &old, t.long()).await?;
    let c = t.swap(&swapped, (&old, &c), &new, late).await?;
    for (key, value, deadline) in [(&inserted, &old, &a), (&put, &old, &b), (&swapped, &new, &c)] {
        t.live(key, value, deadline).await?;
    }
    t.outlive(&a).await;
    t.absent(&inserted).await?;
    t.live(&put, &old, &b).await?;
    t.live(&swapped, &new, &c).await?;
    t.outlive(&b).await;
    t.absent(&put).await?;
    t.absent(&swapped).await
}

pub(super) async fn deadline_at_a_wall_time_is_exact(t: Trial) -> Outcome {
    if !t.is_exact() {
        return Ok(());
    }
    let (key, held) = (t.key("k"), value("held"));
    for millis in [1, 2, 64, 1000, 86_400_000] {
        let deadline = t.insert(&key, &held, t.at_millis(millis)).await?;
        t.pass(Duration::from_millis(millis as u64) - MILLISECOND).await;
        t.live(&key, &held, &deadline).await?;
        t.pass(MILLISECOND).await;
        t.absent(&key).await?;
    }
    Ok(())
}

/// Last of all cases, for it takes a clock moved by hand far ahead.
pub(super) async fn deadlines_live_through_100_years(t: Trial) -> Outcome {
    if !t.is_exact() {
        return Ok(());
    }
    let (forever, held) = (t.key("never"), value("held"));
    t.insert(&forever, &held, Expiry::Never).await?;
    for sort in ["ttl", "wall"] {
        let key = t.key(sort);
        let expiry = match sort {
            "ttl" => Ttl::try_from(MAX_TTL)?.into(),
            _ => t.at_millis(MAX_TTL.as_millis() as i64),
        };
        let deadline = t.insert(&key, &held, expiry).await?;
        t.pass(MAX_TTL - MILLISECOND).await;
        t.live(&key, &held, &deadline).await?;
        t.pass(MILLISECOND).await;
        t.absent(&key).await?;
        t.live(&forever, &held, &Deadline::Never).await?;
    }
    t.delete(&forever, (&held, &Deadline::Never)).await
}
