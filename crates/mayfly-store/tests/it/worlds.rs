//! A client that knows, for every partition, all states it may be in after errors and crashes.
//!
//! An acknowledged write leaves one possible state, a definite error changes none, an unknown outcome doubles
//! them, and a read that answers narrows them down. Batches are whole: no state has half of one.

use std::collections::BTreeMap;
use std::sync::Arc;

use mayfly_store::{ErrorKind, Expiry, Key, ManualClock, Put, Record, Result, Value};

use crate::engine::{Engine, after, in_time, key, value, wall};
use crate::sim_disk::{Rng, SimDisk};

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Cell {
    value: Value,
    deadline: Option<u64>,
}

type World = BTreeMap<Key, Cell>;

#[derive(Debug, Clone)]
enum Op {
    Puts(Vec<(Key, Cell)>),
    Insert(Key, Cell),
    Swap(Key, Value, Cell),
    Delete(Key, Value),
}

impl Op {
    /// What the operation answers in a world, and what it makes of it.
    fn apply(&self, partition: &[u8], world: &World) -> (bool, World) {
        let mut new = world.clone();
        let holds = |key: &Key, old: &Value| world.get(key).is_some_and(|cell| cell.value == *old);
        let done = match self {
            Self::Puts(puts) => {
                new.extend(puts.iter().filter(|(key, _)| key.partition() == partition).cloned());
                true
            }
            Self::Insert(key, _) if world.contains_key(key) => false,
            Self::Insert(key, cell) => new.insert(key.clone(), cell.clone()).is_none(),
            Self::Swap(key, old, cell) if holds(key, old) => new.insert(key.clone(), cell.clone()).is_some(),
            Self::Delete(key, old) if holds(key, old) => new.remove(key).is_some(),
            Self::Swap(..) | Self::Delete(..) => false,
        };
        (done, new)
    }

    fn touches(&self, partition: &[u8]) -> bool {
        match self {
            Self::Puts(puts) => puts.iter().any(|(key, _)| key.partition() == partition),
            Self::Insert(key, _) | Self::Swap(key, ..) | Self::Delete(key, _) => key.partition() == partition,
        }
    }
}

/// What is known about a store's content.
#[derive(Debug, Clone)]
pub(crate) struct Worlds {
    rng: Rng,
    clock: Arc<ManualClock>,
    partitions: BTreeMap<Vec<u8>, Vec<World>>,
    /// Every value ever written has its own number, so that an old one is not taken for a new one.
    written: u64,
    pub(crate) log: Vec<String>,
}

impl Worlds {
    /// Nothing is stored in any of the partitions.
    pub(crate) fn empty(seed: u64, clock: &Arc<ManualClock>, partitions: &[&str]) -> Self {
        let partitions = partitions.iter().map(|name| (name.as_bytes().to_vec(), vec![World::new()]));
        let (rng, clock) = (Rng::new(seed), clock.clone());
        Self { rng, clock, partitions: partitions.collect(), written: 0, log: Vec::new() }
    }

    /// Lets time pass; what expires is gone from every world.
    pub(crate) fn expire(&mut self) {
        let now = wall(&self.clock);
        for world in self.partitions.values_mut().flatten() {
            world.retain(|_, cell| cell.deadline.is_none_or(|deadline| now < deadline));
        }
    }

    fn any_key(&mut self) -> Key {
        let place = self.rng.below(self.partitions.len() as u64) as usize;
        let partition = self.partitions.keys().nth(place).expect("below the count").clone();
        key(partition, format!("k{}", self.rng.below(6)))
    }

    fn any_cell(&mut self) -> Cell {
        self.written += 1;
        let mut bytes = format!("value {} ", self.written).into_bytes();
        bytes.resize(bytes.len() + self.rng.below(3000) as usize, b'.');
        let ttl = match self.rng.below(10) {
            0..3 => None,
            3..7 => Some(1 + self.rng.below(200)),
            _ => Some(1 + self.rng.below(3_600_000)),
        };
        Cell { value: value(bytes), deadline: ttl.map(|ttl| wall(&self.clock) + ttl) }
    }

    fn guess(&mut self, key: &Key) -> Value {
        match self.partitions[key.partition()][0].get(key) {
            Some(cell) if self.rng.chance(90) => cell.value.clone(),
            _ => value("a wrong guess"),
        }
    }

    fn any_op(&mut self) -> Op {
        let key = self.any_key();
        let cell = self.any_cell();
        match self.rng.below(10) {
            0..3 => Op::Insert(key, cell),
            3..5 => {
                let old = self.guess(&key);
                Op::Swap(key, old, cell)
            }
            5..7 => {
                let old = self.guess(&key);
                Op::Delete(key, old)
            }
            7 => Op::Puts(vec![(key, cell)]),
            _ => {
                let more = 1 + self.rng.below(4);
                let puts = (0..more).map(|_| (self.any_key(), self.any_cell()));
                Op::Puts(puts.collect())
            }
        }
    }

    /// Performs one random write and draws the conclusions from its answer.
    pub(crate) async fn write(&mut self, store: &dyn Engine, disk: &SimDisk) {
        let op = self.any_op();
        let began_dead = disk.is_dead();
        let answer = in_time("a write", self.perform(store, &op)).await;
        self.log.push(format!("{op:?} -> {answer:?}"));
        let unknown = match &answer {
            Ok(done) => return self.learn_answer(&op, *done),
            Err(_) if began_dead => false,
            Err(_) if disk.is_dead() => true,
            Err(error) => {
                let kinds = [ErrorKind::DiskFull, ErrorKind::Unavailable, ErrorKind::UnknownOutcome];
                assert!(
                    kinds.contains(&error.kind()),
                    "a disk fault shows as {error:?}\n{}",
                    self.story(disk)
                );
                assert!(disk.fired(), "an error without a fault: {error:?}\n{}", self.story(disk));
                error.kind() == ErrorKind::UnknownOutcome
            }
        };
        if unknown {
            for (partition, worlds) in self.partitions.iter_mut().filter(|(name, _)| op.touches(name)) {
                let applied: Vec<World> = worlds.iter().map(|world| op.apply(partition, world).1).collect();
                worlds.extend(applied);
                worlds.dedup();
            }
        }
        if !disk.is_dead() {
            self.read(store, disk).await;
        }
    }

    async fn perform(&self, store: &dyn Engine, op: &Op) -> Result<bool> {
        let now = wall(&self.clock);
        let expiry = |cell: &Cell| cell.deadline.map_or(Expiry::Never, |deadline| after(deadline - now));
        match op {
            Op::Puts(puts) => {
                let put = |(key, cell): &(Key, Cell)| {
                    let (key, value) = (key.clone(), cell.value.clone());
                    Put { key, value, expiry: expiry(cell) }
                };
                store.put_batch(puts.iter().map(put).collect()).await.map(|()| true)
            }
            Op::Insert(key, cell) => store.insert_if_not_exists(key, cell.value.clone(), expiry(cell)).await,
            Op::Swap(key, old, cell) => {
                store.compare_and_swap(key, old, cell.value.clone(), expiry(cell)).await
            }
            Op::Delete(key, old) => store.compare_and_delete(key, old).await,
        }
    }

    fn learn_answer(&mut self, op: &Op, done: bool) {
        for (partition, worlds) in self.partitions.iter_mut().filter(|(name, _)| op.touches(name)) {
            let applied = worlds.iter().map(|world| op.apply(partition, world));
            *worlds = applied.filter(|(answer, _)| *answer == done).map(|(_, world)| world).collect();
            worlds.dedup();
            assert!(!worlds.is_empty(), "{op:?} cannot have answered {done}\n{}", self.log.join("\n"));
        }
    }

    /// Reads every partition. A disk that works must answer, and only with what may be there.
    pub(crate) async fn read(&mut self, store: &dyn Engine, disk: &SimDisk) {
        let names: Vec<Vec<u8>> = self.partitions.keys().cloned().collect();
        for name in names {
            let answer = in_time("a read", read_all(store, &name)).await;
            let found: World = match answer {
                Ok(records) => records.into_iter().map(|record| (record.key.clone(), cell(record))).collect(),
                Err(error) => {
                    assert!(disk.fired(), "a read fails on a good disk: {error:?}\n{}", self.story(disk));
                    continue;
                }
            };
            let story = self.story(disk);
            let worlds = self.partitions.get_mut(&name).expect("a known partition");
            assert!(
                worlds.contains(&found),
                "{} has {found:#?}\nbut should have {worlds:#?}\n{story}",
                name.escape_ascii()
            );
            *worlds = vec![found];
        }
    }

    fn story(&self, disk: &SimDisk) -> String {
        let tail = self.log.len().saturating_sub(15);
        format!("the last writes:\n{}\nthe last disk calls:{}", self.log[tail..].join("\n"), disk.trace())
    }
}

async fn read_all(store: &dyn Engine, partition: &[u8]) -> Result<Vec<Record>> {
    use futures_util::TryStreamExt;
    store.read(mayfly_store::Range::all(partition)?).try_collect().await
}

fn cell(record: Record) -> Cell {
    Cell { value: record.value, deadline: record.expires_at.map(|at| at.as_millis()) }
}
