//! Every store of this crate runs the conformance suite, on a clock moved by hand and in real time; and the suite
//! itself is examined with planted bugs.

use std::sync::Arc;
use std::time::Duration;

use mayfly_store::conformance::{self, Subject};
use mayfly_store::wrap::FaultyStore;
use mayfly_store::{FileOptions, FileStore, ManualClock, MemStore, Store, Sync, SystemClock};

use crate::naive::{Bug, NaiveStore};

async fn check(subject: Subject) {
    if let Err(violations) = conformance::run(&subject).await {
        panic!("{violations}");
    }
    if let Err(violation) = conformance::check_closing(subject).await {
        panic!("{violation}");
    }
}

async fn check_manual(store: impl Store, clock: Arc<ManualClock>) {
    check(Subject::with_manual_clock(Arc::new(store), clock)).await;
}

async fn check_real(store: impl Store) {
    check(Subject::in_real_time(Arc::new(store))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mem_store_conforms_on_a_manual_clock() {
    let clock = Arc::new(ManualClock::default());
    check_manual(MemStore::open(clock.clone()), clock).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mem_store_conforms_in_real_time() {
    check_real(MemStore::open(Arc::new(SystemClock))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn file_store_conforms_on_a_manual_clock() {
    let directory = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::default());
    let store = FileStore::open(directory.path(), FileOptions::default(), clock.clone()).unwrap();
    check_manual(store, clock).await;
}

/// Segments of 64 KB, so that they fill, age and are regrouped under the suite.
#[tokio::test(flavor = "multi_thread")]
async fn file_store_with_small_segments_conforms() {
    let directory = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::default());
    let options = FileOptions { sync: Sync::Never, segment_bytes: 64 << 10 };
    let store = FileStore::open(directory.path(), options, clock.clone()).unwrap();
    check_manual(store, clock).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn file_store_conforms_in_real_time() {
    let directory = tempfile::tempdir().unwrap();
    let clock = Arc::new(SystemClock);
    check_real(FileStore::open(directory.path(), FileOptions::default(), clock).unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn faulty_store_without_faults_conforms() {
    let clock = Arc::new(ManualClock::default());
    let below = Arc::new(MemStore::open(clock.clone()));
    check_manual(FaultyStore::new(below), clock).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn naive_store_conforms() {
    let clock = Arc::new(ManualClock::default());
    check_manual(NaiveStore::new(clock.clone()), clock).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn naive_store_conforms_in_real_time() {
    check_real(NaiveStore::new(Arc::new(SystemClock))).await;
}

const BUGS: [Bug; 47] = [
    Bug::Late(Duration::from_millis(1)),
    Bug::Early(Duration::from_millis(1)),
    Bug::LateWallDeadlines,
    Bug::BornExpiredBeyondWeeks,
    Bug::GetShowsExpired,
    Bug::GetBatchShowsExpired,
    Bug::ReadShowsExpired,
    Bug::QueryShowsExpired,
    Bug::InsertSeesExpired,
    Bug::SwapSeesExpired,
    Bug::DeleteSeesExpired,
    Bug::StreamShowsWhatItFirstSaw,
    Bug::StreamHidesRenewed,
    Bug::PutKeepsOldExpiry,
    Bug::InsertTouchesLive,
    Bug::InsertKeepsRowMarker,
    Bug::SwapForgetsExpiry,
    Bug::SwapCannotRemoveExpiry,
    Bug::SwapToSameIsIgnored,
    Bug::RefusedSwapRenews,
    Bug::SwapComparesPrefix,
    Bug::StaleCleaner,
    Bug::RacyInsert,
    Bug::RacySwap,
    Bug::RacyDelete,
    Bug::BatchIsNotAtomic,
    Bug::BatchKeepsFirst,
    Bug::BatchAppliesWhatItCan,
    Bug::BatchEndsAfter25,
    Bug::GetBatchSkipsMissing,
    Bug::GetBatchDropsDuplicates,
    Bug::ZeroByteIsEmpty,
    Bug::EmptyValueIsAbsent,
    Bug::DeleteIgnoresEmptySort,
    Bug::ValuesAreCut,
    Bug::FinishIsInclusive,
    Bug::StartIsExclusive,
    Bug::SignedOrder,
    Bug::RangePanicsOnReversedBounds,
    Bug::RangeLeavesPartition,
    Bug::RangeEndsAfterPage,
    Bug::ReaderBlocksWriters,
    Bug::QueryRoundsDown,
    Bug::QueryReportsForeverAsLeft,
    Bug::ExpiresAtIsCoarse,
    Bug::AcceptsPassedDeadline,
    Bug::AcceptsFarDeadline,
];

/// The first case that a store breaks.
async fn caught(subject: Subject) -> Option<String> {
    for case in conformance::cases() {
        if let Err(violation) = case.check(&subject).await {
            return Some(violation.to_string());
        }
    }
    None
}

#[tokio::test(flavor = "multi_thread")]
async fn every_planted_bug_is_caught() {
    let mut escaped = Vec::new();
    for bug in BUGS {
        let clock = Arc::new(ManualClock::default());
        let store = NaiveStore::with_bug(clock.clone(), Some(bug));
        match caught(Subject::with_manual_clock(Arc::new(store), clock)).await {
            Some(violation) => println!("{bug:?}: {violation}"),
            None => escaped.push(bug),
        }
    }
    assert!(escaped.is_empty(), "the suite passes stores with these bugs: {escaped:?}");
}

/// In real time the same bugs must show, if they last longer than the machine's jitter.
#[tokio::test(flavor = "multi_thread")]
async fn timing_bugs_are_caught_in_real_time() {
    let (late, early) = (Bug::Late(Duration::from_millis(20)), Bug::Early(Duration::from_millis(20)));
    for bug in [late, early, Bug::StaleCleaner, Bug::SwapForgetsExpiry, Bug::SwapToSameIsIgnored] {
        let store = NaiveStore::with_bug(Arc::new(SystemClock), Some(bug));
        let violation = caught(Subject::in_real_time(Arc::new(store))).await;
        assert!(violation.is_some(), "the suite passes a store with this bug: {bug:?}");
    }
}

#[test]
fn case_names_are_unique() {
    let mut names: Vec<_> = conformance::cases().map(|case| case.name()).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
}
