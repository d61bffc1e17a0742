//! The list of all cases, and how one or all of them are run.

use std::time::Duration;

use futures_util::future::BoxFuture;

use super::outcome::{Miss, Outcome, Violation, Violations};
use super::subject::Subject;
use super::trial::Trial;
use super::{
    batches, expiry, keys, limits, queries, races, ranges, renewals, sequences, streams, ttls, values, writes,
};

/// Attempts a case gets on a slow machine; the last one has 64 times the time of the first.
const ATTEMPTS: u32 = 7;
/// How long an attempt may take before it counts as hanging.
const PATIENCE: Duration = Duration::from_secs(300);

/// One case of the contract.
#[derive(Clone, Copy)]
pub struct Case {
    name: &'static str,
    attempt: fn(Trial) -> BoxFuture<'static, Outcome>,
}

impl Case {
    /// What it claims.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Examines the store for this case alone.
    pub async fn check(&self, subject: &Subject) -> Result<(), Violation> {
        for attempt in 0..ATTEMPTS {
            match self.attempt(subject, attempt).await {
                Ok(()) => return Ok(()),
                Err(Miss::Broken(message)) => {
                    return Err(Violation { case: self.name, message: shorten(message) });
                }
                Err(Miss::TooSlow) => {}
            }
        }
        let message = format!("could not be decided: the store was too slow in {ATTEMPTS} attempts");
        Err(Violation { case: self.name, message })
    }

    /// A task of its own turns a panic of the store into a violation, and a hanging call too.
    async fn attempt(&self, subject: &Subject, attempt: u32) -> Outcome {
        let task = tokio::spawn((self.attempt)(Trial::new(subject.clone(), attempt)));
        match tokio::time::timeout(PATIENCE, task).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(panic)) => Err(Miss::Broken(format!("panicked: {panic}"))),
            Err(_) => Err(Miss::Broken(format!("did not finish within {PATIENCE:?}"))),
        }
    }
}

impl std::fmt::Debug for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// Runs every case, one after the other, and reports all that the store breaks.
pub async fn run(subject: &Subject) -> Result<(), Violations> {
    let mut violations = Vec::new();
    for case in cases() {
        violations.extend(case.check(subject).await.err());
    }
    if violations.is_empty() { Ok(()) } else { Err(Violations(violations)) }
}

/// Some cases compare thousands of records; nobody reads that many.
fn shorten(mut message: String) -> String {
    if let Some((end, _)) = message.char_indices().nth(1000) {
        message.truncate(end);
        message.push('…');
    }
    message
}

/// Names the functions of one module as cases.
macro_rules! cases_of {
    ($module:ident: $($case:ident)+) => {
        &[$(Case { name: stringify!($case), attempt: |trial| Box::pin($module::$case(trial)) }),+]
    };
}

const KEYS: &[Case] = cases_of!(keys:
    empty_sort_is_a_key_like_any_other
    empty_sort_and_zero_byte_are_two_keys
    partition_and_sort_do_not_run_together
    longest_keys_work
    keys_may_hold_any_byte
);

const VALUES: &[Case] = cases_of!(values:
    values_of_every_size_come_back
    empty_value_is_a_value
    values_compare_by_all_their_bytes
    longest_values_can_be_swapped_and_deleted
);

const LIMITS: &[Case] = cases_of!(limits:
    keys_beyond_the_limit_are_refused
    values_beyond_the_limit_are_refused
    ttls_out_of_range_are_refused
    passed_deadline_is_refused
    deadline_over_100_years_ahead_is_refused
    batch_with_a_refused_put_changes_nothing
);

const WRITES: &[Case] = cases_of!(writes:
    put_replaces_value_and_expiry
    put_without_expiry_clears_the_old_one
    insert_leaves_a_live_record_untouched
    insert_takes_the_place_of_an_expired_record
    swap_needs_the_live_value
    swap_resets_the_ttl
    swap_to_never_removes_the_ttl
    refused_swap_leaves_value_and_ttl
    swap_to_the_same_value_renews
    delete_needs_the_live_value
    delete_works_with_empty_sort
);

const BATCHES: &[Case] = cases_of!(batches:
    get_batch_keeps_order_and_duplicates
    get_batch_of_nothing_is_empty
    get_batch_spans_partitions
    put_batch_of_nothing_is_fine
    put_batch_spans_partitions
    put_batch_keeps_the_later_of_two_puts
    put_batch_gives_each_record_its_expiry
    batches_of_a_thousand_work
    put_batch_is_seen_whole_or_not_at_all
);

const EXPIRY: &[Case] = cases_of!(expiry:
    expired_is_absent_for_get
    expired_is_absent_for_get_batch
    expired_is_absent_for_read
    expired_is_absent_for_query_ttl
    expired_is_absent_for_insert
    expired_is_absent_for_swap
    expired_is_absent_for_delete
    expired_is_absent_after_put_and_put_batch
    expiry_is_never_early_and_never_late
    expiry_is_exact_to_the_millisecond
    every_record_keeps_its_own_deadline
);

const TTLS: &[Case] = cases_of!(ttls:
    ttl_of_one_millisecond_works
    ttl_of_100_years_works
    never_is_never
    deadline_at_a_wall_time_is_kept
    deadline_at_a_wall_time_is_exact
    deadlines_live_through_100_years
);

const QUERIES: &[Case] = cases_of!(queries:
    query_ttl_tells_three_states
    query_ttl_follows_every_write
    query_ttl_never_says_more_than_was_given
    query_ttl_rounds_seconds_up
    expires_at_is_the_same_wherever_it_is_shown
);

const RANGES: &[Case] = cases_of!(ranges:
    range_is_ordered_bytewise_unsigned
    range_includes_start_and_excludes_finish
    empty_bounds_are_open
    bounds_need_not_exist_and_may_be_long
    range_without_room_is_empty
    prefix_range_holds_what_begins_so
    range_stays_in_its_partition
    range_skips_what_has_expired_or_gone
    long_range_comes_whole
    range_shows_values_and_deadlines
);

const STREAMS: &[Case] = cases_of!(streams:
    dropping_a_stream_stops_it
    slow_reader_blocks_no_writer
    writing_while_reading_never_deadlocks
    reading_under_writes_misses_nothing
    stream_held_past_the_deadline_shows_nothing_expired
    stream_held_past_the_deadline_shows_what_was_renewed
);

const RENEWALS: &[Case] = cases_of!(renewals:
    shortened_ttl_expires_and_frees_the_key
    no_expiry_shortened_to_a_ttl_frees_the_key
    old_deadline_never_touches_a_renewed_record
    lease_renewed_many_times_lives
    delete_then_insert_with_longer_ttl_lives
    deleted_record_stays_away
);

const SEQUENCES: &[Case] = cases_of!(sequences:
    any_sequence_matches_the_model
    absent_means_insertable_after_any_sequence
);

const RACES: &[Case] = cases_of!(races:
    racing_inserts_have_one_winner
    racing_inserts_over_an_expired_record_have_one_winner
    racing_swaps_of_a_counter_lose_none
    racing_deletes_happen_once
    racing_swaps_and_deletes_have_one_winner
    racing_insert_and_delete_pairs_never_overlap
);

/// Every case, in the order in which [`run`] checks them.
pub fn cases() -> impl Iterator<Item = Case> {
    let all = [
        KEYS, VALUES, LIMITS, WRITES, BATCHES, EXPIRY, QUERIES, RANGES, STREAMS, RENEWALS, SEQUENCES, RACES,
        TTLS,
    ];
    all.into_iter().flatten().copied()
}
