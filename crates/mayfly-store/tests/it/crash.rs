//! A scripted run in which every disk call fails or loses power once, and every call of the recovery after it.
//!
//! Checked after each: nothing acknowledged is missing, nothing deleted or expired is back, batches are whole,
//! what was refused did not happen. By default a part of the calls is tried, beginning somewhere else each
//! time; `MAYFLY_CRASH_ALL=1` tries all of them, `MAYFLY_CRASH_AT=n` one.

#![allow(clippy::unwrap_used, reason = "clippy takes only functions marked as tests for tests")]

use std::sync::Arc;

use mayfly_store::{FileOptions, ManualClock, StoreExt};

use crate::engine::{Engine, Home, after, eventually, in_time, key, millis, small, value};
use crate::sim_disk::{Fault, Rng, SimDisk};
use crate::worlds::Worlds;

const SCRIPT: u64 = 20_26;
const WRITES: usize = 500;
/// Writes that are tried after a fault before the store is opened again.
const AFTERMATH: usize = 25;

fn options() -> FileOptions {
    small()
}

/// The script while it runs.
struct Script {
    disk: SimDisk,
    clock: Arc<ManualClock>,
    worlds: Worlds,
    rng: Rng,
}

impl Script {
    fn new() -> Self {
        let clock = Arc::new(ManualClock::default());
        let worlds = Worlds::empty(SCRIPT, &clock, &["p0", "p1", "p2", "p3"]);
        Self { disk: SimDisk::new(), clock, worlds, rng: Rng::new(SCRIPT) }
    }

    /// Opens; where a fault is planned it may fail once.
    fn open(&self) -> Option<Arc<dyn Engine>> {
        let home = Home::Sim(self.disk.clone());
        match home.try_open(options(), &self.clock) {
            Ok(store) => Some(store),
            Err(_) if self.disk.is_dead() => None,
            Err(error) => {
                assert!(self.disk.fired(), "cannot open a good disk: {error:?}{}", self.disk.trace());
                self.disk.heal();
                Some(home.open(options(), &self.clock))
            }
        }
    }

    /// Runs until the end, or for a while after the fault.
    async fn run(&mut self) -> Option<Arc<dyn Engine>> {
        let store = self.open()?;
        let subscribed = in_time("subscribe", store.subscribe("script")).await;
        assert!(subscribed.is_ok() || self.disk.fired(), "{subscribed:?}");
        let mut after_fault = 0;
        for _ in 0..WRITES {
            self.worlds.write(&*store, &self.disk).await;
            self.between_writes(&*store).await;
            after_fault += usize::from(self.disk.fired());
            if after_fault > AFTERMATH || self.disk.is_dead() {
                break;
            }
        }
        Some(store)
    }

    async fn between_writes(&mut self, store: &dyn Engine) {
        if self.rng.chance(15) {
            let by = [3, 40, 250, 1_800_000][self.rng.below(4) as usize];
            self.clock.advance(millis(by));
            self.worlds.expire();
        }
        if self.rng.chance(10) && !self.disk.is_dead() {
            self.worlds.read(store, &self.disk).await;
        }
        if self.rng.chance(8) && store.figures().feed_backlog > 0 {
            let batch = in_time("next_expired", store.next_expired("script", 20)).await;
            if let Ok(batch) = batch {
                let last = batch.last().expect("the feed waits until there is something").position;
                _ = in_time("acknowledge", store.acknowledge("script", last)).await;
            }
        }
    }

    /// Opens what is left on `disk` and compares; then goes on working with it.
    async fn check(&self, disk: SimDisk, what: &str) {
        let mut script =
            Self { disk, clock: self.clock.clone(), worlds: self.worlds.clone(), rng: self.rng.clone() };
        script.worlds.log.push(format!("-- reopened: {what}"));
        let home = Home::Sim(script.disk.clone());
        for round in 0..2 {
            let store = home
                .try_open(options(), &script.clock)
                .unwrap_or_else(|error| panic!("{what}: round {round} does not open: {error:?}"));
            script.worlds.read(&*store, &script.disk).await;
            for _ in 0..10 {
                script.worlds.write(&*store, &script.disk).await;
            }
            script.worlds.read(&*store, &script.disk).await;
            in_time("close", store.close()).await.unwrap_or_else(|error| panic!("{what}: close: {error:?}"));
        }
    }
}

/// How many disk calls the script makes when nothing goes wrong.
async fn calls_of_script() -> u64 {
    let mut script = Script::new();
    let store = script.run().await.expect("a good disk");
    store.close().await.unwrap();
    script.disk.calls()
}

/// The calls to try: `share` of `count` spread evenly, all, or one.
fn points(count: u64, share: u64) -> Vec<u64> {
    use std::hash::{BuildHasher, RandomState};
    if let Ok(one) = std::env::var("MAYFLY_CRASH_AT") {
        return vec![one.parse().expect("MAYFLY_CRASH_AT is a number")];
    }
    let all = std::env::var_os("MAYFLY_CRASH_ALL").is_some();
    let stride = if all { 1 } else { (count / share).max(1) };
    (RandomState::new().hash_one(0) % stride..count).step_by(stride as usize).collect()
}

async fn every_call_fails_once(fault: Fault, sticky: bool, share: u64) {
    for at in points(calls_of_script().await, share) {
        let mut script = Script::new();
        if sticky {
            script.disk.fail_from(at, fault);
        } else {
            script.disk.fail_after(at, fault);
        }
        let what = format!("{fault:?} (sticky: {sticky}) at call {at}");
        script.worlds.log.push(what.clone());
        let Some(store) = script.run().await else { continue };
        script.disk.heal();
        // A disk that works again is worked with again.
        for _ in 0..5 {
            script.worlds.write(&*store, &script.disk).await;
        }
        let left = match at % 3 {
            0 => {
                _ = in_time("close", store.close()).await;
                drop(store);
                script.disk.after_kill()
            }
            1 => script.disk.after_kill(),
            _ => script.disk.after_power_loss(at),
        };
        script.check(left, &format!("{what}, left by way {}", at % 3)).await;
    }
}

#[tokio::test]
async fn no_io_error_loses_what_was_acknowledged() {
    every_call_fails_once(Fault::Eio, false, 150).await;
}

#[tokio::test]
async fn no_enospc_loses_what_was_acknowledged() {
    every_call_fails_once(Fault::Enospc, false, 100).await;
}

#[tokio::test]
async fn no_short_write_loses_what_was_acknowledged() {
    every_call_fails_once(Fault::Short, false, 100).await;
}

#[tokio::test]
async fn a_disk_that_stays_broken_loses_nothing_acknowledged() {
    every_call_fails_once(Fault::Eio, true, 60).await;
}

#[tokio::test]
async fn no_power_loss_loses_what_was_acknowledged() {
    for at in points(calls_of_script().await, 150) {
        let mut script = Script::new();
        script.disk.fail_after(at, Fault::PowerLoss);
        let store = script.run().await;
        for seed in 0..4 {
            let left = script.disk.after_power_loss(at * 4 + seed);
            script.check(left, &format!("power lost at call {at}, seed {seed}")).await;
        }
        drop(store);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_power_loss_under_concurrent_writers_loses_what_was_acknowledged() {
    const PARTITIONS: [[&str; 2]; 4] = [["a0", "a1"], ["b0", "b1"], ["c0", "c1"], ["d0", "d1"]];
    for at in points(600, 60) {
        let mut script = Script::new();
        script.disk.fail_after(at, Fault::PowerLoss);
        let Some(store) = script.open() else { continue };
        let writers = PARTITIONS.iter().zip(0..).map(|(partitions, seed)| {
            let (store, disk) = (store.clone(), script.disk.clone());
            let mut worlds = Worlds::empty(at * 4 + seed, &script.clock, partitions);
            tokio::spawn(async move {
                while !disk.is_dead() && worlds.log.len() < 400 {
                    worlds.write(&*store, &disk).await;
                }
                worlds
            })
        });
        let mut known = Vec::new();
        for writer in writers.collect::<Vec<_>>() {
            known.push(writer.await.expect("no writer panics"));
        }
        for seed in 0..4 {
            for worlds in &known {
                script.worlds = worlds.clone();
                let left = script.disk.after_power_loss(at * 4 + seed);
                script.check(left, &format!("power lost at call {at}, seed {seed}, four writers")).await;
            }
        }
    }
}

/// A disk that lost power somewhere in the middle of the script, and what must be on it.
async fn crashed(at: u64) -> (Script, SimDisk) {
    let mut script = Script::new();
    script.disk.fail_after(at, Fault::PowerLoss);
    _ = script.run().await;
    let left = script.disk.after_power_loss(at);
    (script, left)
}

/// How many calls opening takes.
fn calls_of_recovery(disk: &SimDisk, clock: &Arc<ManualClock>) -> u64 {
    let copy = disk.after_kill();
    let before = copy.calls();
    let store = Home::Sim(copy.clone()).open(options(), clock);
    let calls = copy.calls() - before;
    drop(store);
    calls
}

#[tokio::test]
async fn power_loss_during_recovery_three_times_over_loses_nothing() {
    let total = calls_of_script().await;
    for place in 1..=3 {
        let (script, left) = crashed(total * place / 4).await;
        for at in points(calls_of_recovery(&left, &script.clock), 40) {
            let mut disk = left.after_kill();
            let mut rng = Rng::new(at);
            for depth in 0..3 {
                let calls = calls_of_recovery(&disk, &script.clock);
                disk.fail_after(if depth == 0 { at } else { rng.below(calls) }, Fault::PowerLoss);
                let store = Home::Sim(disk.clone()).try_open(options(), &script.clock);
                disk = disk.after_power_loss(rng.next());
                drop(store);
                let what = format!("crash {place}/4, recovery crashed at {at}, {depth} deeper");
                script.check(disk.after_kill(), &what).await;
            }
        }
    }
}

#[tokio::test]
async fn io_errors_during_recovery_lose_nothing() {
    let total = calls_of_script().await;
    for place in 1..=3 {
        let (script, left) = crashed(total * place / 4 + 7).await;
        let count = calls_of_recovery(&left, &script.clock);
        for (at, fault) in
            points(count, 40).into_iter().zip([Fault::Eio, Fault::Enospc, Fault::Short].into_iter().cycle())
        {
            let disk = left.after_kill();
            disk.fail_after(at, fault);
            let what = format!("crash {place}/4, {fault:?} in call {at} of the recovery");
            if let Ok(store) = Home::Sim(disk.clone()).try_open(options(), &script.clock) {
                // It opened in spite of the error: then everything is there.
                let mut worlds = script.worlds.clone();
                worlds.log.push(what.clone());
                disk.heal();
                worlds.read(&*store, &left).await;
            }
            script.check(disk.after_kill(), &what).await;
            script.check(disk.after_power_loss(at), &format!("{what}, then power lost")).await;
        }
    }
}

/// A file that was unlinked but came back with a power loss is regrouped again. What it holds has a copy elsewhere
/// by then, of the same write, and must not hide it.
#[tokio::test]
async fn a_record_regrouped_twice_is_not_hidden_by_its_own_copy() {
    let (disk, clock) = (SimDisk::new(), Arc::new(ManualClock::default()));
    let store = Home::Sim(disk.clone()).open(options(), &clock);
    let record = key("p", "record");
    // The second write ends before the first one would, so it must go on hiding it.
    store.put(&record, value("first"), after(7_200_000)).await.unwrap();
    store.put(&record, value("second"), after(3_600_000)).await.unwrap();
    for number in 0..80 {
        store.put(&key("p", format!("{number}")), value([1; 1000]), after(1000)).await.unwrap();
    }
    const FIRST: &str = "0000000001.seg";
    let is_gone = |disk: &SimDisk| !disk.files().contains_key(FIRST);
    clock.advance(millis(2000));
    eventually("the first segment was regrouped", || is_gone(&disk)).await;
    let back = (0..100).map(|seed| disk.after_power_loss(seed)).find(|disk| !is_gone(disk));
    drop(store);
    let disk = back.expect("an unlink that was not synced");

    let store = Home::Sim(disk.clone()).open(options(), &clock);
    eventually("the first segment was regrouped again", || is_gone(&disk)).await;
    let left = disk.after_kill();
    drop(store);
    let store = Home::Sim(left).open(options(), &clock);
    let found = store.get(&record).await.unwrap().expect("it was acknowledged and has an hour to live");
    assert_eq!(*found.value, *b"second");
}

/// After a kill the system still has to write what the process wrote. Once a store has shown that, or relies on
/// it to let go of older copies, it must be safe.
#[tokio::test]
async fn what_recovery_has_shown_survives_a_power_loss() {
    let (disk, clock) = (SimDisk::new(), Arc::new(ManualClock::default()));
    let unsynced = FileOptions { sync: mayfly_store::Sync::Never, ..options() };
    let store = Home::Sim(disk.clone()).open(unsynced, &clock);
    store.put(&key("p", "k"), value("v"), after(3_600_000)).await.unwrap();
    let killed = disk.after_kill();
    drop(store);
    let store = Home::Sim(killed.clone()).open(options(), &clock);
    assert!(store.get(&key("p", "k")).await.unwrap().is_some(), "written is enough for a kill");
    for seed in 0..20 {
        let left = killed.after_power_loss(seed);
        let store = Home::Sim(left).open(options(), &clock);
        assert!(store.get(&key("p", "k")).await.unwrap().is_some(), "seed {seed}: it was shown before");
    }
}

#[tokio::test]
async fn a_torn_tail_is_not_corruption() {
    let (disk, clock) = (SimDisk::new(), Arc::new(ManualClock::default()));
    let store = Home::Sim(disk.clone()).open(options(), &clock);
    store.put(&key("p", "first"), value("acknowledged"), after(3_600_000)).await.unwrap();
    let size_of_first = disk.files()["0000000001.seg"].len();
    store.put(&key("p", "second"), value("torn"), after(3_600_000)).await.unwrap();
    let content = disk.files()["0000000001.seg"].clone();
    let killed = disk.after_kill();
    drop(store);
    for cut in size_of_first..content.len() {
        let torn = killed.after_kill();
        torn.put_file("0000000001.seg", content[..cut].to_vec());
        let store = Home::Sim(torn.clone()).open(options(), &clock);
        assert_eq!(store.figures().corruptions, 0, "cut at {cut} of {}", content.len());
        assert!(store.get(&key("p", "first")).await.unwrap().is_some(), "cut at {cut}");
        drop(store);
        assert!(!torn.files().keys().any(|name| name.ends_with(".bad")), "cut at {cut}");
    }
}
