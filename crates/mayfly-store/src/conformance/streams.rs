//! Streams: dropped, slow, held too long, and in the way of writers.

use futures_util::StreamExt;

use super::deadline::Deadline;
use super::outcome::{Miss, Outcome, ensure, ensure_eq};
use super::trial::{Trial, value};
use crate::record::{Key, Put, Range, Record};
use crate::store::RecordStream;
use crate::time::Expiry;

const RECORDS: u32 = 1000;

/// Fills this trial's partition with 1,000 records of 1 KB at even numbers.
async fn fill(t: &Trial, expiry: Expiry) -> Outcome<Deadline> {
    let puts = (0..RECORDS).map(|i| Put { key: number(t, 2 * i), value: value([7; 1000]), expiry });
    let done = t.timed(t.store().put_batch(puts.collect())).await?;
    Ok(t.deadline(expiry, &done))
}

fn number(t: &Trial, number: u32) -> Key {
    t.key(number.to_be_bytes())
}

async fn next(stream: &mut RecordStream) -> Outcome<Record> {
    let record = stream.next().await.ok_or_else(|| Miss::Broken("the stream ended too soon".into()))?;
    Ok(record?)
}

/// Neither an open, nor a begun, nor a dropped stream uses anything up.
pub(super) async fn dropping_a_stream_stops_it(t: Trial) -> Outcome {
    fill(&t, t.long()).await?;
    let work = {
        let t = t.clone();
        async move {
            for round in 0..500 {
                let mut stream = t.store().read(Range::all(t.partition())?);
                for _ in 0..round % 3 {
                    next(&mut stream).await?;
                }
                drop(stream);
            }
            let stream = t.store().read(Range::all(t.partition())?);
            t.put(&number(&t, 1), &value("after"), t.long()).await?;
            drop(stream);
            ensure_eq!(t.sorts(Range::all(t.partition())?).await?.len() as u32, RECORDS + 1, "records");
            Ok(())
        }
    };
    t.promptly("dropping 500 streams", work).await
}

pub(super) async fn slow_reader_blocks_no_writer(t: Trial) -> Outcome {
    fill(&t, t.long()).await?;
    let mut stream = t.store().read(Range::all(t.partition())?);
    let mut seen = vec![next(&mut stream).await?.key];
    let writer = {
        let t = t.clone();
        async move {
            for i in 0..50u32 {
                let (key, old, new) = (number(&t, 2 * i + 1), value("old"), value("new"));
                let inserted = t.insert(&key, &old, t.long()).await?;
                let swapped = t.swap(&key, (&old, &inserted), &new, t.long()).await?;
                t.delete(&key, (&new, &swapped)).await?;
                t.put(&number(&t, 2 * i), &new, t.long()).await?;
                ensure!(t.store().get(&number(&t, 2 * i)).await?.is_some(), "record {i} is gone");
            }
            Ok(())
        }
    };
    t.promptly("writing beside a slow reader", writer).await?;
    while let Some(record) = stream.next().await {
        seen.push(record?.key);
    }
    ensure!(seen.is_sorted_by(|a, b| a < b), "the slow reader's records are out of order or doubled");
    let even = seen.iter().filter(|key| key.sort()[3].is_multiple_of(2)).count();
    ensure_eq!(even as u32, RECORDS, "records that were there all the time and that the slow reader saw");
    Ok(())
}

pub(super) async fn writing_while_reading_never_deadlocks(t: Trial) -> Outcome {
    fill(&t, t.long()).await?;
    let work = {
        let t = t.clone();
        async move {
            let mut stream = t.store().read(Range::all(t.partition())?);
            let mut seen = 0;
            while let Some(record) = stream.next().await {
                let key = record?.key;
                seen += 1;
                if seen % 10 == 0 {
                    let deadline = t.put(&key, &value("seen"), t.long()).await?;
                    let deadline = t.swap(&key, (&value("seen"), &deadline), &value("x"), t.long()).await?;
                    t.delete(&key, (&value("x"), &deadline)).await?;
                }
            }
            ensure_eq!(seen, RECORDS, "records seen");
            Ok(())
        }
    };
    t.promptly("writing what is being read", work).await?;
    let left = t.sorts(Range::all(t.partition())?).await?.len() as u32;
    ensure_eq!(left, RECORDS - RECORDS / 10, "records left");
    Ok(())
}

/// Records that live during the whole read come exactly once, whatever happens around them.
pub(super) async fn reading_under_writes_misses_nothing(t: Trial) -> Outcome {
    fill(&t, t.long()).await?;
    let writer = {
        let t = t.clone();
        tokio::spawn(async move {
            for round in 0..600u32 {
                let key = number(&t, (round * 37 % RECORDS) * 2 + 1);
                t.put(&key, &value([1; 100]), t.long()).await?;
                if round % 2 == 0 {
                    t.store().compare_and_delete(&key, &value([1; 100])).await?;
                }
                tokio::task::yield_now().await;
            }
            Outcome::Ok(())
        })
    };
    let mut rounds = 0;
    while !writer.is_finished() || rounds == 0 {
        rounds += 1;
        let sorts = t.sorts(Range::all(t.partition())?).await?;
        ensure!(sorts.is_sorted_by(|a, b| a < b), "records are out of order or doubled");
        let steady = sorts.iter().filter(|sort| sort[3].is_multiple_of(2)).count() as u32;
        ensure_eq!(steady, RECORDS, "records that nobody touched and the read saw");
        // A store that never waits would otherwise keep the writer from ever being scheduled.
        tokio::task::yield_now().await;
    }
    writer.await.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
}

pub(super) async fn stream_held_past_the_deadline_shows_nothing_expired(t: Trial) -> Outcome {
    let deadline = fill(&t, t.steps(3)).await?;
    let survivor = t.key([0xff]);
    t.insert(&survivor, &value("alive"), t.long()).await?;
    let mut stream = t.store().read(Range::all(t.partition())?);
    let first = next(&mut stream).await?;
    if first.key == survivor {
        ensure!(!deadline.is_surely_ahead(t.now()), "the live records before {survivor:?} are missing");
        return Err(Miss::TooSlow);
    }
    t.outlive(&deadline).await;
    let mut rest = Vec::new();
    while let Some(record) = stream.next().await {
        rest.push(record?.key);
    }
    ensure_eq!(rest, vec![survivor], "what a stream brings after the deadline of all but one");
    Ok(())
}

/// A store that reads ahead must look again where what it read has expired: the record may have been renewed.
pub(super) async fn stream_held_past_the_deadline_shows_what_was_renewed(t: Trial) -> Outcome {
    let deadline = fill(&t, t.steps(3)).await?;
    let mut stream = t.store().read(Range::all(t.partition())?);
    if stream.next().await.transpose()?.is_none() {
        ensure!(!deadline.is_surely_ahead(t.now()), "the live records are missing");
        return Err(Miss::TooSlow);
    }
    let renewed = (1..RECORDS).map(|i| Put { key: number(&t, 2 * i), value: value("new"), expiry: t.long() });
    t.store().put_batch(renewed.collect()).await?;
    if !deadline.is_surely_ahead(t.now()) {
        return Err(Miss::TooSlow);
    }
    t.outlive(&deadline).await;
    let mut rest = 0;
    while let Some(record) = stream.next().await {
        ensure_eq!(record?.value, value("new"), "value of a record whose old deadline has passed");
        rest += 1;
    }
    ensure_eq!(rest, RECORDS - 1, "renewed records that the held stream still brings");
    Ok(())
}
