//! Eight tasks that fight over a few short-lived records, and the history of what they saw.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use mayfly_store::{
    Clock, ErrorKind, Expiry, Key, Range, Result, Store, StoreExt, SystemClock, Ttl, TtlState, Value,
};

use super::history::{Answer, Ask, Call, Look, Nanos, Number};

const TASKS: usize = 8;
const KEYS: usize = 3;
/// Operations of one history.
pub(crate) const OPERATIONS: usize = 500;

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

struct Task {
    store: Arc<dyn Store>,
    index: usize,
    random: Random,
    keys: Arc<Vec<Key>>,
    /// What somebody last saw under each key: without such hints hardly a swap would succeed.
    hints: Arc<Vec<AtomicU64>>,
    longest_ttl: u64,
}

/// Runs one history in real time and returns the calls on each key, in the order in which they began.
pub(crate) async fn run(store: &Arc<dyn Store>, seed: u64, longest_ttl: Duration) -> Vec<Vec<Call>> {
    let partition = format!("history {seed}");
    let key = |i| Key::new(&partition, [i as u8]).expect("a short key");
    let keys: Arc<Vec<_>> = Arc::new((0..KEYS).map(key).collect());
    let hints: Arc<Vec<_>> = Arc::new((0..KEYS).map(|_| AtomicU64::new(0)).collect());
    let tasks: Vec<_> = (0..TASKS)
        .map(|index| {
            let task = Task {
                store: store.clone(),
                index,
                random: Random(seed.wrapping_mul(TASKS as u64).wrapping_add(index as u64)),
                keys: keys.clone(),
                hints: hints.clone(),
                longest_ttl: longest_ttl.as_millis() as u64,
            };
            tokio::spawn(task.run())
        })
        .collect();
    let mut calls = vec![Vec::new(); KEYS];
    for task in tasks {
        for (key, call) in task.await.expect("a task panicked") {
            calls[key].push(call);
        }
    }
    calls.iter_mut().for_each(|calls| calls.sort_by_key(|call| call.began));
    calls
}

impl Task {
    async fn run(mut self) -> Vec<(usize, Call)> {
        let mut calls = Vec::new();
        for number in 0..OPERATIONS / TASKS + usize::from(self.index < OPERATIONS % TASKS) {
            let key = self.random.below(KEYS as u64) as usize;
            let ask = self.ask(key, (self.index as u64) << 32 | (number as u64 + 1));
            let began = now();
            let answer = self.call(key, ask).await;
            let ended = now();
            match answer {
                Ok(answer) => {
                    self.remember(key, ask, answer);
                    calls.push((key, Call { task: self.index, ask, answer, began, ended }));
                }
                Err(error) if error.kind() == ErrorKind::UnknownOutcome => {
                    let unknown =
                        Call { task: self.index, ask, answer: Answer::Unknown, began, ended: Nanos::MAX };
                    calls.push((key, unknown));
                }
                // Any other error promises that nothing has happened, so the call has no place in the history.
                Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
            }
            match self.random.below(4) {
                0 => tokio::time::sleep(Duration::from_micros(self.random.below(3000))).await,
                1 => tokio::task::yield_now().await,
                _ => {}
            }
        }
        calls
    }

    fn ask(&mut self, key: usize, new: Number) -> Ask {
        let ttl = match self.random.below(12) {
            0 => None,
            _ => Some((1 + self.random.below(self.longest_ttl)) * 1_000_000),
        };
        let expected = self.hints[key].load(Ordering::Relaxed);
        match self.random.below(16) {
            0 => Ask::Put { new, ttl },
            1..4 => Ask::Insert { new, ttl },
            4..8 => Ask::Swap { expected, new, ttl },
            8..10 => Ask::Delete { expected },
            10..12 => Ask::Get(Look::Get),
            12 | 13 => Ask::Get(Look::Range),
            14 => Ask::Get(Look::Batch),
            _ => Ask::IsAlive,
        }
    }

    async fn call(&mut self, key: usize, ask: Ask) -> Result<Answer> {
        let (store, key) = (&self.store, &self.keys[key]);
        Ok(match ask {
            Ask::Put { new, ttl } => {
                store.put(key, value(new), expiry(ttl)).await?;
                Answer::Done(true)
            }
            Ask::Insert { new, ttl } => {
                Answer::Done(store.insert_if_not_exists(key, value(new), expiry(ttl)).await?)
            }
            Ask::Swap { expected, new, ttl } => {
                Answer::Done(store.compare_and_swap(key, &value(expected), value(new), expiry(ttl)).await?)
            }
            Ask::Delete { expected } => Answer::Done(store.compare_and_delete(key, &value(expected)).await?),
            Ask::Get(look) => Answer::Found(match look {
                Look::Range => get_by_read(store, key).await?,
                Look::Batch => {
                    let entries = store.get_batch(std::slice::from_ref(key)).await?;
                    entries.into_iter().flatten().next().map(|entry| number(&entry.value))
                }
                Look::Get => store.get(key).await?.map(|entry| number(&entry.value)),
            }),
            Ask::IsAlive => Answer::Alive(store.query_ttl(key).await? != TtlState::Absent),
        })
    }

    fn remember(&self, key: usize, ask: Ask, answer: Answer) {
        let seen = match (ask, answer) {
            (Ask::Put { new, .. } | Ask::Insert { new, .. } | Ask::Swap { new, .. }, Answer::Done(true)) => {
                new
            }
            (_, Answer::Found(Some(found))) => found,
            _ => return,
        };
        self.hints[key].store(seen, Ordering::Relaxed);
    }
}

async fn get_by_read(store: &Arc<dyn Store>, key: &Key) -> Result<Option<Number>> {
    let mut stream = store.read(Range::all(key.partition())?);
    while let Some(record) = stream.next().await {
        let record = record?;
        if record.key == *key {
            return Ok(Some(number(&record.value)));
        }
    }
    Ok(None)
}

fn now() -> Nanos {
    SystemClock.now().boot.as_nanos() as Nanos
}

fn value(number: Number) -> Value {
    Value::new(number.to_be_bytes().to_vec()).expect("eight bytes are a value")
}

fn number(value: &Value) -> Number {
    Number::from_be_bytes(value[..].try_into().expect("only numbers are written"))
}

fn expiry(ttl: Option<Nanos>) -> Expiry {
    ttl.map_or(Expiry::Never, |ttl| Ttl::from_millis(ttl / 1_000_000).expect("some milliseconds").into())
}
