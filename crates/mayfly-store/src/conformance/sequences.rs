//! Random sequences of operations and waits against the simplest model, and what must hold after each.

use super::deadline::Deadline;
use super::outcome::{Outcome, ensure};
use super::random::{Random, fresh_seed};
use super::trial::{Timed, Trial, value};
use crate::record::{Key, Put, Value};
use crate::time::{Expiry, Ttl};

/// What one key should hold: the last value written and its deadline, none if it was deleted or seen expired.
struct Model {
    key: Key,
    held: Option<(Value, Deadline)>,
}

impl Model {
    /// Whether an operation between these moments must have met a live record; none if that cannot be told.
    fn was_live<T>(&self, timed: &Timed<T>) -> Option<bool> {
        match &self.held {
            None => Some(false),
            Some((_, deadline)) if deadline.has_surely_passed(timed.began) => Some(false),
            Some((_, deadline)) if deadline.is_surely_ahead(timed.ended) => Some(true),
            Some(_) => None,
        }
    }

    fn held_value(&self) -> Value {
        self.held.as_ref().map_or_else(|| value("nothing"), |(value, _)| value.clone())
    }
}

pub(super) async fn any_sequence_matches_the_model(t: Trial) -> Outcome {
    for _ in 0..if t.is_exact() { 40 } else { 6 } {
        run_sequence(&t, fresh_seed(), 50).await?;
    }
    Ok(())
}

pub(super) async fn absent_means_insertable_after_any_sequence(t: Trial) -> Outcome {
    for _ in 0..if t.is_exact() { 100 } else { 12 } {
        let seed = fresh_seed();
        for model in run_sequence(&t, seed, 12).await? {
            check_insertable(&t, &model, seed).await?;
        }
    }
    Ok(())
}

/// Absent stays absent as nobody else writes, so the insert must succeed; alive, it may only once it is not.
async fn check_insertable(t: &Trial, model: &Model, seed: u64) -> Outcome {
    let absent = t.store().get(&model.key).await?.is_none();
    let insert = t.timed(t.store().insert_if_not_exists(&model.key, value("probe"), t.long())).await?;
    ensure!(insert.result || !absent, "seed {seed}: {:?} is absent and yet not insertable", model.key);
    if let Some(live) = model.was_live(&insert) {
        ensure!(insert.result != live, "seed {seed}: insert says {}, live is {live}", insert.result);
    }
    Ok(())
}

/// Runs random operations on three keys, checks each answer that can be known, and returns what should be there.
async fn run_sequence(t: &Trial, seed: u64, operations: u32) -> Outcome<Vec<Model>> {
    let mut random = Random::from_seed(seed);
    let mut models: Vec<Model> =
        (0..3).map(|i| Model { key: t.key(format!("{seed} {i}")), held: None }).collect();
    for _ in 0..operations {
        let model = &mut models[random.below(3) as usize];
        let fresh = value([random.below(3) as u8]);
        let expiry = random_expiry(t, &mut random);
        match random.below(8) {
            0 => put(t, model, fresh, expiry).await?,
            1 | 2 => insert(t, model, fresh, expiry, seed).await?,
            3 | 4 => {
                let expected = if random.below(4) == 0 { fresh.clone() } else { model.held_value() };
                swap(t, model, expected, fresh, expiry, seed).await?;
            }
            5 => {
                let expected = if random.below(4) == 0 { fresh } else { model.held_value() };
                delete(t, model, &expected, seed).await?;
            }
            6 => get(t, model, seed).await?,
            _ => t.pass(t.step() * random.below(20) as u32 / 100).await,
        }
    }
    Ok(models)
}

fn random_expiry(t: &Trial, random: &mut Random) -> Expiry {
    let millis = 1 + random.below(t.step().as_millis() as u64 / 2);
    match random.below(10) {
        0 => t.long(),
        1 | 2 => t.at_millis(millis as i64 + t.step().as_millis() as i64 / 2),
        _ => Expiry::After(Ttl::from_millis(millis).expect("at most half a step")),
    }
}

async fn put(t: &Trial, model: &mut Model, fresh: Value, expiry: Expiry) -> Outcome {
    let put = Put { key: model.key.clone(), value: fresh.clone(), expiry };
    let done = t.timed_write(expiry, t.store().put_batch(vec![put])).await?;
    model.held = Some((fresh, t.deadline(expiry, &done)));
    Ok(())
}

async fn insert(t: &Trial, model: &mut Model, fresh: Value, expiry: Expiry, seed: u64) -> Outcome {
    let done =
        t.timed_write(expiry, t.store().insert_if_not_exists(&model.key, fresh.clone(), expiry)).await?;
    if let Some(live) = model.was_live(&done) {
        ensure!(done.result != live, "seed {seed}: insert of {:?} says {}", model.key, done.result);
    }
    if done.result {
        model.held = Some((fresh, t.deadline(expiry, &done)));
    }
    Ok(())
}

async fn swap(
    t: &Trial,
    model: &mut Model,
    expected: Value,
    fresh: Value,
    expiry: Expiry,
    seed: u64,
) -> Outcome {
    let done = t
        .timed_write(expiry, t.store().compare_and_swap(&model.key, &expected, fresh.clone(), expiry))
        .await?;
    let equal = model.held.as_ref().is_some_and(|(held, _)| *held == expected);
    if let Some(live) = model.was_live(&done) {
        ensure!(done.result == (live && equal), "seed {seed}: swap of {:?} says {}", model.key, done.result);
    }
    if done.result {
        ensure!(equal, "seed {seed}: swap of {:?} matched {expected:?}", model.key);
        model.held = Some((fresh, t.deadline(expiry, &done)));
    }
    Ok(())
}

async fn delete(t: &Trial, model: &mut Model, expected: &Value, seed: u64) -> Outcome {
    let done = t.timed(t.store().compare_and_delete(&model.key, expected)).await?;
    let equal = model.held.as_ref().is_some_and(|(held, _)| held == expected);
    if let Some(live) = model.was_live(&done) {
        ensure!(
            done.result == (live && equal),
            "seed {seed}: delete of {:?} says {}",
            model.key,
            done.result
        );
    }
    if done.result {
        ensure!(equal, "seed {seed}: delete of {:?} matched {expected:?}", model.key);
        model.held = None;
    }
    Ok(())
}

async fn get(t: &Trial, model: &Model, seed: u64) -> Outcome {
    let done = t.timed(t.store().get(&model.key)).await?;
    if let Some(live) = model.was_live(&done) {
        ensure!(
            done.result.is_some() == live,
            "seed {seed}: get of {:?} brings {:?}",
            model.key,
            done.result
        );
    }
    if let (Some(entry), Some((held, deadline))) = (done.result, &model.held) {
        ensure!(entry.value == *held, "seed {seed}: get brings {:?}, not {held:?}", entry.value);
        t.deadline_reads(&model.key, entry.expires_at, deadline)?;
    }
    Ok(())
}
