//! Histories of racing tasks on short-lived records have an order that explains them; those of stores with planted
//! bugs have none.

mod checker;
mod history;
mod stale_clock;
mod workload;

use std::sync::Arc;
use std::time::Duration;

use mayfly_store::wrap::FaultyStore;
use mayfly_store::wrap::faulty::Odds;
use mayfly_store::{FileOptions, FileStore, MemStore, Store, SystemClock};

use crate::naive::{Bug, NaiveStore};
use checker::{first_unexplained, is_linearizable};
use history::{Answer, Ask, Call, Look};

/// How many histories each engine goes through: 100, or what `MAYFLY_HISTORIES` says, for longer runs.
fn histories() -> u64 {
    std::env::var("MAYFLY_HISTORIES")
        .map_or(100, |number| number.parse().expect("MAYFLY_HISTORIES is a number"))
}

/// The first history without an explanation, in words.
async fn first_violation(store: Arc<dyn Store>, histories: u64, longest_ttl: Duration) -> Option<String> {
    for seed in 0..histories {
        for calls in workload::run(&store, seed, longest_ttl).await {
            if !is_linearizable(&calls) {
                let lines: Vec<String> = calls.iter().map(Call::to_string).collect();
                let last = first_unexplained(&calls).map_or_else(String::new, |call| call.to_string());
                return Some(format!(
                    "seed {seed}: no order explains\n{}\nat the latest since\n{last}",
                    lines.join("\n")
                ));
            }
        }
    }
    None
}

async fn check(store: Arc<dyn Store>, histories: u64, longest_ttl: Duration) {
    if let Some(violation) = first_violation(store, histories, longest_ttl).await {
        panic!("{violation}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn mem_store_is_linearizable() {
    check(Arc::new(MemStore::open(Arc::new(SystemClock))), histories(), Duration::from_millis(12)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn file_store_is_linearizable() {
    let directory = tempfile::tempdir().unwrap();
    let store = FileStore::open(directory.path(), FileOptions::default(), Arc::new(SystemClock)).unwrap();
    check(Arc::new(store), histories(), Duration::from_millis(40)).await;
}

/// Lost answers become writes that may have happened at any later time; refused ones must not have happened at all.
#[tokio::test(flavor = "multi_thread")]
async fn faulty_store_is_linearizable_with_unknown_outcomes() {
    let store = FaultyStore::new(Arc::new(MemStore::open(Arc::new(SystemClock))));
    let odds = Odds { fail: 0.05, unknown: 0.01, delay: 0.1, longest_delay: Duration::from_millis(3) };
    store.set_odds(odds, 1);
    let store = Arc::new(store);
    check(store.clone(), 20, Duration::from_millis(12)).await;
    assert!(store.injected() > 500, "only {} faults were injected", store.injected());
}

#[tokio::test(flavor = "multi_thread")]
async fn naive_store_is_linearizable() {
    check(Arc::new(NaiveStore::new(Arc::new(SystemClock))), 20, Duration::from_millis(12)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn planted_bugs_are_not_linearizable() {
    let (late, early) = (Bug::Late(Duration::from_millis(5)), Bug::Early(Duration::from_millis(5)));
    for bug in [late, early, Bug::RacySwap, Bug::SwapForgetsExpiry, Bug::RacyInsert, Bug::RacyDelete] {
        let store = Arc::new(NaiveStore::with_bug(Arc::new(SystemClock), Some(bug)));
        let caught = first_violation(store, histories(), Duration::from_millis(12)).await;
        let caught = caught.unwrap_or_else(|| panic!("{bug:?} passed {} histories", histories()));
        println!("{bug:?}: {}", caught.lines().next().unwrap_or_default());
    }
}

/// A call of task 0, in milliseconds.
fn call(began: u64, ended: u64, ask: Ask, answer: Answer) -> Call {
    let nanos = 1_000_000;
    Call { task: 0, ask, answer, began: began * nanos, ended: ended.saturating_mul(nanos) }
}

fn insert(new: u64, ttl: u64) -> Ask {
    Ask::Insert { new, ttl: Some(ttl * 1_000_000) }
}

#[test]
fn checker_knows_when_a_deadline_can_have_passed() {
    let written = call(10, 20, insert(1, 100), Answer::Done(true));
    let read = |began, ended, found| {
        is_linearizable(&[written, call(began, ended, Ask::Get(Look::Get), Answer::Found(found))])
    };
    assert!(read(30, 40, Some(1)));
    assert!(!read(30, 40, None), "gone early");
    assert!(!read(30, 40, Some(2)), "a value that nobody wrote");
    assert!(read(105, 115, Some(1)) && read(105, 115, None), "within the window both are right");
    assert!(!read(130, 140, Some(1)), "there late");
    assert!(read(130, 140, None));
}

#[test]
fn checker_narrows_the_deadline_by_what_was_seen() {
    let written = call(10, 50, insert(1, 100), Answer::Done(true));
    let gone = call(112, 115, Ask::Get(Look::Get), Answer::Found(None));
    let there = call(120, 122, Ask::Get(Look::Get), Answer::Found(Some(1)));
    assert!(is_linearizable(&[written, gone]) && is_linearizable(&[written, there]));
    assert!(!is_linearizable(&[written, gone, there]), "came back to life");
}

#[test]
fn checker_lets_an_unknown_write_happen_late_or_never() {
    let unknown = call(10, u64::MAX, insert(1, 1000), Answer::Unknown);
    let found = |began, found| call(began, began + 5, Ask::Get(Look::Get), Answer::Found(found));
    assert!(is_linearizable(&[unknown, found(20, None), found(30, None)]));
    assert!(is_linearizable(&[unknown, found(20, None), found(30, Some(1))]));
    assert!(!is_linearizable(&[unknown, found(20, Some(1)), found(30, None)]), "came and went");
}

#[test]
fn checker_wants_one_winner() {
    let winner = |began| call(began, 30, insert(began, 1000), Answer::Done(true));
    assert!(is_linearizable(&[winner(10), call(11, 30, insert(2, 1000), Answer::Done(false))]));
    assert!(!is_linearizable(&[winner(10), winner(11)]));
}
