//! Range reads: order, bounds, prefixes, and partitions that stay apart.

use super::outcome::{Outcome, ensure, ensure_eq};
use super::random::Random;
use super::trial::{Trial, value};
use crate::record::{Put, Range};
use crate::time::Expiry;

/// Fills this trial's partition with these sort columns, in this order.
async fn fill<S: AsRef<[u8]>>(t: &Trial, sorts: impl IntoIterator<Item = S>) -> Outcome {
    for sort in sorts {
        t.insert(&t.key(&sort), &value(&sort), t.long()).await?;
    }
    Ok(())
}

/// Demands that a range of this trial's partition holds exactly these sort columns.
async fn holds(t: &Trial, start: &[u8], finish: &[u8], wanted: &[&[u8]]) -> Outcome {
    let found = t.sorts(Range::new(t.partition(), start, finish)?).await?;
    ensure_eq!(found, wanted, "range from {:?} to {:?}", start.escape_ascii().to_string(), finish);
    Ok(())
}

pub(super) async fn range_is_ordered_bytewise_unsigned(t: Trial) -> Outcome {
    let mut random = Random::from_seed(3);
    let mut sorts: Vec<Vec<u8>> = (0..=255u8).map(|byte| vec![byte]).collect();
    sorts.extend([vec![], vec![0, 0], vec![0x7f, 0xff], vec![0x80, 0], vec![0xff, 0xff], vec![0xff, 0, 1]]);
    sorts.extend((0..100).map(|_| {
        let len = 2 + random.below(8) as usize;
        random.bytes(len)
    }));
    let mut shuffled = sorts.clone();
    shuffled.sort_by_cached_key(|_| random.next());
    let puts = shuffled.iter().map(|sort| Put { key: t.key(sort), value: value(sort), expiry: t.long() });
    t.store().put_batch(puts.collect()).await?;
    sorts.sort();
    sorts.dedup();
    ensure_eq!(t.sorts(Range::all(t.partition())?).await?, sorts, "read of the whole partition");
    Ok(())
}

pub(super) async fn range_includes_start_and_excludes_finish(t: Trial) -> Outcome {
    fill(&t, ["b", "d", "a", "c", "bb"]).await?;
    holds(&t, b"b", b"d", &[b"b", b"bb", b"c"]).await?;
    holds(&t, b"a", b"b", &[b"a"]).await?;
    holds(&t, b"b", b"bb", &[b"b"]).await?;
    holds(&t, b"b", b"b\0", &[b"b"]).await?;
    holds(&t, b"b\0", b"c", &[b"bb"]).await?;
    holds(&t, b"d", b"e", &[b"d"]).await
}

pub(super) async fn empty_bounds_are_open(t: Trial) -> Outcome {
    fill(&t, [&b""[..], b"\0", b"a", b"\xff", b"\xff\xff"]).await?;
    holds(&t, b"", b"", &[b"", b"\0", b"a", b"\xff", b"\xff\xff"]).await?;
    holds(&t, b"", b"a", &[b"", b"\0"]).await?;
    holds(&t, b"", b"\0", &[b""]).await?;
    holds(&t, b"\0", b"", &[b"\0", b"a", b"\xff", b"\xff\xff"]).await?;
    holds(&t, b"a", b"", &[b"a", b"\xff", b"\xff\xff"]).await?;
    holds(&t, b"\xff\xff", b"", &[b"\xff\xff"]).await?;
    holds(&t, b"\xff\xff\0", b"", &[]).await
}

pub(super) async fn bounds_need_not_exist_and_may_be_long(t: Trial) -> Outcome {
    fill(&t, ["b", "d"]).await?;
    holds(&t, b"a", b"c", &[b"b"]).await?;
    holds(&t, b"c", b"z", &[b"d"]).await?;
    holds(&t, b"e", b"z", &[]).await?;
    let long = |first: u8| [vec![first], vec![0xff; 3000]].concat();
    holds(&t, &long(b'a'), &long(b'b'), &[b"b"]).await?;
    holds(&t, &long(b'b'), &long(0xff), &[b"d"]).await
}

pub(super) async fn range_without_room_is_empty(t: Trial) -> Outcome {
    fill(&t, [&b""[..], b"a", b"b", b"c"]).await?;
    holds(&t, b"b", b"b", &[]).await?;
    holds(&t, b"c", b"a", &[]).await?;
    holds(&t, b"\xff", b"\0", &[]).await?;
    holds(&t, b"b\0", b"b", &[]).await?;
    let empty = Range::all(t.sub_partition("empty"))?;
    ensure_eq!(t.sorts(empty).await?.len(), 0, "records of a partition without any");
    Ok(())
}

pub(super) async fn prefix_range_holds_what_begins_so(t: Trial) -> Outcome {
    let sorts: [&[u8]; 9] = [b"", b"a", b"a\0", b"a\xff", b"a\xff\xff", b"ab", b"b", b"\xff", b"\xff\xffz"];
    fill(&t, sorts).await?;
    let cases: [(&[u8], &[&[u8]]); 7] = [
        (b"a", &[b"a", b"a\0", b"ab", b"a\xff", b"a\xff\xff"]),
        (b"a\xff", &[b"a\xff", b"a\xff\xff"]),
        (b"a\xff\xff", &[b"a\xff\xff"]),
        (b"\xff", &[b"\xff", b"\xff\xffz"]),
        (b"\xff\xff", &[b"\xff\xffz"]),
        (b"c", &[]),
        (b"", &[b"", b"a", b"a\0", b"ab", b"a\xff", b"a\xff\xff", b"b", b"\xff", b"\xff\xffz"]),
    ];
    for (prefix, wanted) in cases {
        let found = t.sorts(Range::prefix(t.partition(), prefix)?).await?;
        ensure_eq!(found, wanted, "records that begin with {prefix:?}");
    }
    Ok(())
}

/// Partitions that begin with each other, and neighbours in any order a backend may flatten them to.
pub(super) async fn range_stays_in_its_partition(t: Trial) -> Outcome {
    let suffixes: [&[u8]; 8] = [b"", b"\0", b"\0\0", b"a", b"a\0", b"ab", b"b", b"\xff"];
    for suffix in suffixes {
        for sort in [&b""[..], b"\0", b"a", b"\xff\xff"] {
            let key = t.key_in(&t.sub_partition(suffix), sort);
            t.insert(&key, &value(suffix), t.long()).await?;
        }
    }
    for suffix in suffixes {
        let partition = t.sub_partition(suffix);
        for range in [Range::all(&partition)?, Range::new(&partition, "", [0xff; 8])?] {
            let records = t.records(range).await?;
            ensure_eq!(records.len(), 4, "records of partition …{suffix:?}");
            for record in records {
                ensure_eq!(record.key.partition(), partition, "partition of a record of …{suffix:?}");
                ensure_eq!(record.value, value(suffix), "value of a record of …{suffix:?}");
            }
        }
        ensure_eq!(t.sorts(Range::new(&partition, "\0", "b")?).await?.len(), 2, "part of …{suffix:?}");
    }
    Ok(())
}

pub(super) async fn range_skips_what_has_expired_or_gone(t: Trial) -> Outcome {
    let mut deadlines = Vec::new();
    for i in 0..100u8 {
        let expiry = match i % 4 {
            0 => t.steps(1),
            1 => t.at_steps(1),
            _ => t.long(),
        };
        deadlines.push(t.put(&t.key([i]), &value([i]), expiry).await?);
    }
    for i in (2..100u8).step_by(4) {
        ensure!(t.store().compare_and_delete(&t.key([i]), &value([i])).await?, "delete of record {i} failed");
    }
    for (_, deadline) in deadlines.iter().enumerate().filter(|(i, _)| i % 4 < 2) {
        t.outlive(deadline).await;
    }
    let wanted: Vec<Vec<u8>> = (3..100u8).step_by(4).map(|i| vec![i]).collect();
    ensure_eq!(t.sorts(Range::all(t.partition())?).await?, wanted, "what is left");
    let middle = t.sorts(Range::new(t.partition(), [40], [60])?).await?;
    ensure_eq!(middle, vec![vec![43], vec![47], vec![51], vec![55], vec![59]], "the middle of what is left");
    Ok(())
}

/// More than any page of any server: 3,000 records, 3 MB.
pub(super) async fn long_range_comes_whole(t: Trial) -> Outcome {
    const RECORDS: u32 = 3000;
    let numbers: Vec<u32> = (0..RECORDS).collect();
    for chunk in numbers.chunks(500) {
        let puts = chunk.iter().map(|i| {
            let bytes = [i.to_be_bytes().as_slice(), &[0x55; 1000]].concat();
            Put { key: t.key(i.to_be_bytes()), value: value(bytes), expiry: t.long() }
        });
        t.store().put_batch(puts.collect()).await?;
    }
    let records = t.records(Range::all(t.partition())?).await?;
    ensure_eq!(records.len() as u32, RECORDS, "records of the long range");
    for (record, i) in records.iter().zip(0u32..) {
        ensure_eq!(record.key.sort(), i.to_be_bytes(), "sort columns of record {i}");
        ensure!(record.value.starts_with(&i.to_be_bytes()), "record {i} has the value of another one");
        ensure_eq!(record.value.len(), 1004, "length of the value of record {i}");
    }
    let part = Range::new(t.partition(), 1000u32.to_be_bytes(), 2500u32.to_be_bytes())?;
    ensure_eq!(t.sorts(part).await?.len(), 1500, "records of a part of the long range");
    Ok(())
}

pub(super) async fn range_shows_values_and_deadlines(t: Trial) -> Outcome {
    let rows = [("a", t.long()), ("b", t.at_steps(1000)), ("c", Expiry::Never)];
    let mut deadlines = Vec::new();
    for (sort, expiry) in rows {
        deadlines.push(t.insert(&t.key(sort), &value(sort.repeat(3)), expiry).await?);
    }
    let records = t.records(Range::all(t.partition())?).await?;
    ensure_eq!(records.len(), rows.len(), "records of the range");
    for ((record, (sort, _)), deadline) in records.iter().zip(rows).zip(&deadlines) {
        ensure_eq!(record.key, t.key(sort), "key of a record");
        ensure_eq!(record.value, value(sort.repeat(3)), "value of {sort}");
        t.deadline_reads(&record.key, record.expires_at, deadline)?;
    }
    t.delete(&t.key("c"), (&value("ccc"), &deadlines[2])).await
}
