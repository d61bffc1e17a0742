//! Addresses: empty sort columns, the longest keys, and parts that must not run together.

use super::outcome::{Outcome, ensure, ensure_eq};
use super::trial::{Trial, after, value};
use crate::error::ErrorKind;
use crate::record::{MAX_PARTITION, MAX_SORT, Range};

pub(super) async fn empty_sort_is_a_key_like_any_other(t: Trial) -> Outcome {
    let (key, first, second) = (t.key(""), value("first"), value("second"));
    t.absent(&key).await?;
    let inserted = t.insert(&key, &first, t.long()).await?;
    t.live(&key, &first, &inserted).await?;
    ensure!(
        !t.store().insert_if_not_exists(&key, second.clone(), t.long()).await?,
        "a second insert at empty sort columns succeeded"
    );
    let swapped = t.swap(&key, (&first, &inserted), &second, t.long()).await?;
    t.live(&key, &second, &swapped).await?;
    ensure_eq!(t.sorts(Range::all(t.partition())?).await?, vec![Vec::<u8>::new()], "read of the partition");
    t.delete(&key, (&second, &swapped)).await?;
    t.absent(&key).await
}

pub(super) async fn empty_sort_and_zero_byte_are_two_keys(t: Trial) -> Outcome {
    let sorts: [&[u8]; 4] = [b"", b"\0", b"\0\0", b"\0\x01"];
    for (index, sort) in sorts.iter().enumerate() {
        t.insert(&t.key(sort), &value([index as u8]), t.long()).await?;
    }
    for (index, sort) in sorts.iter().enumerate() {
        let found = t.store().get(&t.key(sort)).await?.map(|entry| entry.value);
        ensure_eq!(found, Some(value([index as u8])), "get at sort columns {sort:?}");
    }
    ensure_eq!(t.sorts(Range::all(t.partition())?).await?, sorts.map(<[u8]>::to_vec), "read of all");
    let first = Range::new(t.partition(), [], [0])?;
    ensure_eq!(t.sorts(first).await?, vec![Vec::<u8>::new()], "read before the zero byte");
    let rest = Range::new(t.partition(), [0], [])?;
    ensure_eq!(t.sorts(rest).await?.len(), 3, "records from the zero byte on");
    ensure!(
        t.store().compare_and_delete(&t.key(""), &value([0])).await?,
        "delete at empty sort columns failed"
    );
    ensure!(t.store().get(&t.key([0])).await?.is_some(), "delete at empty sort columns took the zero byte's");
    t.absent(&t.key("")).await
}

pub(super) async fn partition_and_sort_do_not_run_together(t: Trial) -> Outcome {
    let splits = [("abc", ""), ("ab", "c"), ("a", "bc"), ("", "abc"), ("a\0", "bc"), ("a", "\0bc")];
    let keys = splits.map(|(suffix, sort)| t.key_in(&t.sub_partition(suffix), sort));
    for (key, (suffix, _)) in keys.iter().zip(splits) {
        t.insert(key, &value(suffix), t.long()).await?;
    }
    for (key, (suffix, sort)) in keys.iter().zip(splits) {
        let found = t.store().get(key).await?.map(|entry| entry.value);
        ensure_eq!(found, Some(value(suffix)), "get of partition …{suffix:?} with sort columns {sort:?}");
    }
    Ok(())
}

pub(super) async fn longest_keys_work(t: Trial) -> Outcome {
    let mut partition = t.partition().to_vec();
    partition.resize(MAX_PARTITION, 0xff);
    for sort in [vec![0xff; MAX_SORT], vec![b'a'; MAX_SORT], vec![b'a'; MAX_SORT - 1]] {
        let key = t.key_in(&partition, &sort);
        let deadline = t.insert(&key, &value("here"), t.long()).await?;
        t.live(&key, &value("here"), &deadline).await?;
        let range = Range::new(&partition, &sort, after(&sort))?;
        ensure_eq!(t.sorts(range).await?, vec![sort.clone()], "read of the longest key");
        t.delete(&key, (&value("here"), &deadline)).await?;
        t.absent(&key).await?;
    }
    // A server that cannot store empty sort columns escapes a leading zero byte and may have no room for it.
    let escaped = t.key_in(&partition, [0; MAX_SORT]);
    match t.store().insert_if_not_exists(&escaped, value("here"), t.long()).await {
        Ok(inserted) => ensure!(inserted, "insert at {MAX_SORT} zero bytes was refused without an error"),
        Err(error) => {
            ensure_eq!(error.kind(), ErrorKind::SortTooLong, "kind of the error for {MAX_SORT} zero bytes");
        }
    }
    Ok(())
}

pub(super) async fn keys_may_hold_any_byte(t: Trial) -> Outcome {
    for byte in 0..=255u8 {
        let key = t.key_in(&t.sub_partition([byte, byte]), [byte, 0, byte]);
        t.insert(&key, &value([byte]), t.long()).await?;
    }
    for byte in 0..=255u8 {
        let records = t.records(Range::all(t.sub_partition([byte, byte]))?).await?;
        ensure_eq!(records.len(), 1, "records in the partition of byte {byte:#04x}");
        ensure_eq!(records[0].key.sort(), [byte, 0, byte], "sort columns with byte {byte:#04x}");
        ensure_eq!(records[0].value, value([byte]), "value with byte {byte:#04x}");
    }
    Ok(())
}
