//! Values: every size, every byte, and comparisons that look at all of them.

use super::outcome::{Outcome, ensure, ensure_eq};
use super::random::Random;
use super::trial::{Trial, value};
use crate::record::{MAX_VALUE, Range};

pub(super) async fn values_of_every_size_come_back(t: Trial) -> Outcome {
    let mut random = Random::from_seed(7);
    let edges = [0, 1, 2, 255, 256, 4095, 4096, 4097, 65_535, 65_536, 65_537, MAX_VALUE - 1, MAX_VALUE];
    for (index, len) in edges.into_iter().enumerate() {
        let (key, written) = (t.key([index as u8]), value(random.bytes(len)));
        let deadline = t.put(&key, &written, t.long()).await?;
        t.live(&key, &written, &deadline).await?;
        let batch = t.store().get_batch(std::slice::from_ref(&key)).await?;
        let found = batch.into_iter().flatten().next().map(|entry| entry.value);
        ensure_eq!(found, Some(written), "value of {len} bytes from get_batch");
    }
    let lengths: Vec<usize> =
        t.records(Range::all(t.partition())?).await?.iter().map(|record| record.value.len()).collect();
    ensure_eq!(lengths, edges.to_vec(), "lengths of the values from read");
    Ok(())
}

pub(super) async fn empty_value_is_a_value(t: Trial) -> Outcome {
    let (key, empty, full) = (t.key("k"), value(""), value("full"));
    let store = t.store();
    ensure!(!store.compare_and_delete(&key, &empty).await?, "deleted an absent record as if it were empty");
    ensure!(
        !store.compare_and_swap(&key, &empty, full.clone(), t.long()).await?,
        "swapped an absent record as if it were empty"
    );
    let inserted = t.insert(&key, &empty, t.long()).await?;
    t.live(&key, &empty, &inserted).await?;
    ensure!(
        !store.insert_if_not_exists(&key, full.clone(), t.long()).await?,
        "insert took an empty value for an absence"
    );
    ensure_eq!(t.records(Range::all(t.partition())?).await?.len(), 1, "records with an empty value");
    let filled = t.swap(&key, (&empty, &inserted), &full, t.long()).await?;
    ensure!(!store.compare_and_delete(&key, &empty).await?, "an empty expectation matched a full value");
    let emptied = t.swap(&key, (&full, &filled), &empty, t.long()).await?;
    t.delete(&key, (&empty, &emptied)).await?;
    t.absent(&key).await
}

pub(super) async fn values_compare_by_all_their_bytes(t: Trial) -> Outcome {
    let (key, held) = (t.key("k"), value(b"same\0start\0"));
    let deadline = t.insert(&key, &held, t.long()).await?;
    let lookalikes: [&[u8]; 6] =
        [b"", b"same", b"same\0start", b"same\0start\0\0", b"same\0start\x01", b"SAME\0start\0"];
    for lookalike in lookalikes {
        let wrong = value(lookalike);
        ensure!(
            !t.store().compare_and_swap(&key, &wrong, value("stolen"), t.long()).await?,
            "swap took {wrong:?} for {held:?}"
        );
        ensure!(!t.store().compare_and_delete(&key, &wrong).await?, "delete took {wrong:?} for {held:?}");
    }
    t.live(&key, &held, &deadline).await
}

pub(super) async fn longest_values_can_be_swapped_and_deleted(t: Trial) -> Outcome {
    let mut random = Random::from_seed(11);
    let (key, old, new) = (t.key("k"), value(random.bytes(MAX_VALUE)), value(random.bytes(MAX_VALUE)));
    let inserted = t.insert(&key, &old, t.long()).await?;
    let mut nearly = old.to_vec();
    nearly[MAX_VALUE - 1] ^= 1;
    ensure!(
        !t.store().compare_and_delete(&key, &value(nearly)).await?,
        "delete ignored the last byte of a long value"
    );
    let swapped = t.swap(&key, (&old, &inserted), &new, t.long()).await?;
    t.live(&key, &new, &swapped).await?;
    t.delete(&key, (&new, &swapped)).await?;
    t.absent(&key).await
}
