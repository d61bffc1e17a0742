//! Random operations, clock moves, reopenings and crashes, compared step by step with a plain `BTreeMap`.
//!
//! `MAYFLY_SEED=n` runs one seed, `MAYFLY_SEEDS=n` so many random ones. A failure prints its seed; add the line
//! to `tests/seeds/model.txt`, and it is run for ever.

#![allow(clippy::unwrap_used, reason = "clippy takes only functions marked as tests for tests")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use futures_util::StreamExt;
use mayfly_store::{
    Entry, ErrorKind, Expiry, FileOptions, Key, MAX_VALUE, ManualClock, Put, Range, Stats, StoreExt,
    Timestamp, TtlState, Value,
};

use crate::engine::{Engine, Home, after, all, at, key, millis, value, wall};
use crate::sim_disk::Rng;

const OPERATIONS: usize = 400;
const KEPT_SEEDS: &str = include_str!("../seeds/model.txt");
const PARTITIONS: [&[u8]; 3] = [b"a", b"ab", b"\0\xff"];
const SORTS: [&[u8]; 12] =
    [b"", b"\0", b"\0\0", b"\0\x01", b"a", b"a\0", b"aa", b"b", b"k10", b"k9", b"\xff", b"\xff\xff"];

#[derive(Debug, Clone, PartialEq)]
struct Cell {
    value: Value,
    deadline: Deadline,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Deadline {
    Never,
    /// On a line of time that no step moves.
    Line(u64),
    Wall(u64),
}

struct Run {
    name: &'static str,
    seed: u64,
    rng: Rng,
    clock: Arc<ManualClock>,
    /// The wall clock minus the line that does not step.
    offset: i64,
    /// The latest time that the wall clock has shown.
    latest_wall: u64,
    /// Whether the wall clock has stepped since the store was opened.
    stepped: bool,
    home: Home,
    options: FileOptions,
    store: Arc<dyn Engine>,
    cells: BTreeMap<Key, Cell>,
    log: Vec<String>,
}

impl Drop for Run {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let tail = self.log.len().saturating_sub(30);
            let log = self.log[tail..].iter().fold(String::new(), |text, line| text + "\n  " + line);
            let (name, seed) = (self.name, self.seed);
            eprintln!("the last operations:{log}\nseed {seed} failed; run it again with");
            eprintln!("  MAYFLY_SEED={seed} cargo test -p mayfly-store --test it model::{name}");
            eprintln!("and keep it: echo '{name} {seed}' >> crates/mayfly-store/tests/seeds/model.txt");
        }
    }
}

impl Run {
    fn new(name: &'static str, seed: u64, home: Home) -> Self {
        let mut rng = Rng::new(seed);
        let segment_bytes = [65_536, 100_000, 300_000][rng.below(3) as usize];
        let sync = match rng.below(10) {
            0..6 => mayfly_store::Sync::Always,
            6..8 => mayfly_store::Sync::Interval(millis(5)),
            _ => mayfly_store::Sync::Never,
        };
        let options = FileOptions { sync, segment_bytes };
        let clock = Arc::new(ManualClock::default());
        let latest_wall = wall(&clock);
        let store = home.open(options.clone(), &clock);
        let (cells, log) = (BTreeMap::new(), Vec::new());
        Self {
            name,
            seed,
            rng,
            clock,
            offset: 0,
            latest_wall,
            stepped: false,
            home,
            options,
            store,
            cells,
            log,
        }
    }

    fn note(&mut self, what: impl std::fmt::Debug) {
        let mut line = String::new();
        write!(line, "{}: {what:?}", self.log.len()).expect("strings take everything");
        let line = line.chars().take(300).collect();
        self.log.push(line);
    }

    fn wall(&self) -> u64 {
        wall(&self.clock)
    }

    fn line(&self) -> u64 {
        self.wall().checked_add_signed(-self.offset).expect("steps stay small")
    }

    /// Forgets what has expired, for good: a clock that goes back brings nothing back.
    fn expire(&mut self) {
        let (line, wall) = (self.line(), self.wall());
        self.latest_wall = self.latest_wall.max(wall);
        self.cells.retain(|_, cell| match cell.deadline {
            Deadline::Never => true,
            Deadline::Line(deadline) => line < deadline,
            Deadline::Wall(deadline) => wall < deadline,
        });
    }

    fn entry(&self, cell: &Cell) -> Entry {
        let expires_at = match cell.deadline {
            Deadline::Never => None,
            Deadline::Line(deadline) => Some(deadline.checked_add_signed(self.offset).expect("in range")),
            Deadline::Wall(deadline) => Some(deadline),
        };
        Entry { value: cell.value.clone(), expires_at: expires_at.map(Timestamp::from_millis) }
    }

    fn expected(&self, key: &Key) -> Option<Entry> {
        self.cells.get(key).map(|cell| self.entry(cell))
    }

    fn any_key(&mut self) -> Key {
        let partition = PARTITIONS[self.rng.below(3) as usize];
        key(partition, SORTS[self.rng.below(12) as usize])
    }

    fn any_value(&mut self) -> Value {
        let size = match self.rng.below(100) {
            0..10 => 0,
            10..50 => self.rng.below(40),
            50..85 => self.rng.below(4000),
            85..99 => self.rng.below(12_000),
            _ => MAX_VALUE as u64 - self.rng.below(2),
        };
        let fill = self.rng.next() as u8;
        value(vec![fill; size as usize])
    }

    fn any_ttl(&mut self) -> u64 {
        const HOUR: u64 = 3_600_000;
        let scale = [1, 2, 10, 1000, 10_000, 60_000, HOUR, 24 * HOUR, 720 * HOUR][self.rng.below(9) as usize];
        1 + self.rng.below(scale)
    }

    /// What to ask for, and what that means.
    fn any_expiry(&mut self) -> (Expiry, Deadline) {
        let ttl = self.any_ttl();
        match self.rng.below(100) {
            0..20 => (Expiry::Never, Deadline::Never),
            20..70 => (after(ttl), Deadline::Line(self.line() + ttl)),
            // What a time means that was shown before the clock went back is for the clock matrix to say.
            _ if self.wall() + ttl <= self.latest_wall => (after(ttl), Deadline::Line(self.line() + ttl)),
            _ => (at(self.wall() + ttl), Deadline::Wall(self.wall() + ttl)),
        }
    }

    /// The value that is there, or another one.
    fn guess(&mut self, key: &Key) -> Value {
        match self.cells.get(key) {
            Some(cell) if self.rng.chance(75) => cell.value.clone(),
            _ => self.any_value(),
        }
    }

    async fn step(&mut self) {
        match self.rng.below(100) {
            0..12 => self.get().await,
            12..18 => self.get_batch().await,
            18..36 => self.put_batch().await,
            36..48 => self.insert().await,
            48..60 => self.swap().await,
            60..68 => self.delete().await,
            68..76 => self.read_range().await,
            76..82 => self.query_ttl().await,
            82..92 => self.pass_time().await,
            92..95 => self.step_wall().await,
            95..97 => self.check_stats().await,
            97..98 => self.refuse_late_batch().await,
            _ => self.reopen().await,
        }
    }

    async fn get(&mut self) {
        let key = self.any_key();
        self.note(("get", &key));
        assert_eq!(self.store.get(&key).await.unwrap(), self.expected(&key), "get {key:?}");
    }

    async fn get_batch(&mut self) {
        let keys: Vec<Key> = (0..self.rng.below(6)).map(|_| self.any_key()).collect();
        self.note(("get_batch", &keys));
        let expected: Vec<_> = keys.iter().map(|key| self.expected(key)).collect();
        assert_eq!(self.store.get_batch(&keys).await.unwrap(), expected, "get_batch {keys:?}");
    }

    async fn put_batch(&mut self) {
        let size = if self.rng.chance(50) { 1 } else { self.rng.below(6) };
        let mut puts = Vec::new();
        for _ in 0..size {
            let (key, value) = (self.any_key(), self.any_value());
            let (expiry, deadline) = self.any_expiry();
            self.cells.insert(key.clone(), Cell { value: value.clone(), deadline });
            puts.push(Put { key, value, expiry });
        }
        self.note(("put_batch", &puts));
        self.store.put_batch(puts).await.unwrap();
    }

    async fn insert(&mut self) {
        let (key, value) = (self.any_key(), self.any_value());
        let (expiry, deadline) = self.any_expiry();
        self.note(("insert", &key, &value, expiry));
        let inserted = self.store.insert_if_not_exists(&key, value.clone(), expiry).await.unwrap();
        assert_eq!(inserted, !self.cells.contains_key(&key), "insert {key:?}");
        if inserted {
            self.cells.insert(key, Cell { value, deadline });
        }
    }

    async fn swap(&mut self) {
        let key = self.any_key();
        let old = self.guess(&key);
        let new = if self.rng.chance(30) { old.clone() } else { self.any_value() };
        let (expiry, deadline) = self.any_expiry();
        self.note(("swap", &key, &old, &new, expiry));
        let swapped = self.store.compare_and_swap(&key, &old, new.clone(), expiry).await.unwrap();
        let expected = self.cells.get(&key).is_some_and(|cell| cell.value == old);
        assert_eq!(swapped, expected, "swap {key:?}");
        if swapped {
            self.cells.insert(key, Cell { value: new, deadline });
        }
    }

    async fn delete(&mut self) {
        let key = self.any_key();
        let old = self.guess(&key);
        self.note(("delete", &key, &old));
        let deleted = self.store.compare_and_delete(&key, &old).await.unwrap();
        let expected = self.cells.get(&key).is_some_and(|cell| cell.value == old);
        assert_eq!(deleted, expected, "delete {key:?}");
        if deleted {
            self.cells.remove(&key);
        }
    }

    async fn read_range(&mut self) {
        let partition = PARTITIONS[self.rng.below(3) as usize];
        let start = SORTS[self.rng.below(12) as usize];
        let finish = SORTS[self.rng.below(12) as usize];
        let limit = if self.rng.chance(30) { self.rng.below(4) as usize } else { usize::MAX };
        self.note(("read", partition, start, finish, limit));
        let stream = self.store.read(Range::new(partition, start, finish).unwrap());
        let read: Vec<_> = stream.take(limit).map(|record| record.unwrap()).collect().await;
        let inside = |key: &Key| {
            key.partition() == partition && key.sort() >= start && (finish.is_empty() || key.sort() < finish)
        };
        let expected = self.cells.iter().filter(|(key, _)| inside(key)).take(limit);
        let expected: Vec<_> = expected.map(|(key, cell)| (key.clone(), self.entry(cell))).collect();
        let read: Vec<_> = read
            .into_iter()
            .map(|record| (record.key, Entry { value: record.value, expires_at: record.expires_at }))
            .collect();
        assert_eq!(read, expected, "read {partition:?} {start:?}..{finish:?}");
    }

    async fn query_ttl(&mut self) {
        let key = self.any_key();
        self.note(("query_ttl", &key));
        let left = |left| TtlState::Left(mayfly_store::Ttl::from_millis(left).unwrap());
        let expected = match self.cells.get(&key).map(|cell| cell.deadline) {
            None => TtlState::Absent,
            Some(Deadline::Never) => TtlState::Forever,
            Some(Deadline::Line(deadline)) => left(deadline - self.line()),
            Some(Deadline::Wall(deadline)) => left(deadline - self.wall()),
        };
        assert_eq!(self.store.query_ttl(&key).await.unwrap(), expected, "query_ttl {key:?}");
    }

    async fn pass_time(&mut self) {
        let by = self.any_ttl();
        // To the very edge of a deadline as often as anywhere else.
        let deadlines: Vec<u64> = self.cells.values().filter_map(|cell| self.left(cell.deadline)).collect();
        let by = match deadlines.len() {
            0 => by,
            _ if self.rng.chance(50) => by,
            some => (deadlines[self.rng.below(some as u64) as usize] - self.rng.below(2)).min(by.max(60_000)),
        };
        self.note(("advance", by));
        self.clock.advance(millis(by));
        self.expire();
        self.compare_all().await;
    }

    fn left(&self, deadline: Deadline) -> Option<u64> {
        match deadline {
            Deadline::Never => None,
            Deadline::Line(deadline) => Some(deadline - self.line()),
            Deadline::Wall(deadline) => Some(deadline - self.wall()),
        }
    }

    /// Steps of at least a second, which is what counts as a step, and back again more often than not.
    async fn step_wall(&mut self) {
        let by = if self.offset != 0 && self.rng.chance(60) {
            -self.offset
        } else {
            let size =
                1000 * (1 + self.rng.below([10, 3600, 1_000_000][self.rng.clone().below(3) as usize])) as i64;
            if self.rng.chance(50) { size } else { -size }
        };
        self.set_offset(self.offset + by).await;
    }

    async fn set_offset(&mut self, offset: i64) {
        let wall = self.line().checked_add_signed(offset).expect("steps stay small");
        if offset < self.offset {
            // A write notes the time on disk. Without it a kill may make the last second unseen.
            let (key, value) = (self.any_key(), self.any_value());
            self.note(("put", &key, &value));
            self.cells.insert(key.clone(), Cell { value: value.clone(), deadline: Deadline::Never });
            self.store.put(&key, value, Expiry::Never).await.unwrap();
        }
        self.note(("set_wall", wall, offset));
        self.clock.set_wall(Timestamp::from_millis(wall));
        (self.offset, self.stepped) = (offset, true);
        self.expire();
        self.compare_all().await;
    }

    async fn compare_all(&mut self) {
        for partition in PARTITIONS {
            let read = all(&*self.store, partition).await;
            let read: Vec<_> =
                read.into_iter().map(|record| (record.key, record.value, record.expires_at)).collect();
            let expected = self.cells.iter().filter(|(key, _)| key.partition() == partition);
            let expected = expected.map(|(key, cell)| (key, self.entry(cell)));
            let expected: Vec<_> =
                expected.map(|(key, entry)| (key.clone(), entry.value, entry.expires_at)).collect();
            assert_eq!(read, expected, "everything in {partition:?}");
        }
    }

    /// The figures become exact once the store's threads have caught up.
    async fn check_stats(&mut self) {
        self.note("stats");
        let mut problem = None;
        for _ in 0..5000 {
            problem = self.wrong_in_stats(&self.store.figures());
            if problem.is_none() {
                return;
            }
            tokio::time::sleep(millis(1)).await;
        }
        panic!("after five seconds still wrong: {problem:?} in {:#?}", self.store.figures());
    }

    fn wrong_in_stats(&self, stats: &Stats) -> Option<&'static str> {
        let live = self.cells.len() as u64;
        let slices = &stats.horizon.slices;
        let segments = &stats.segments;
        let forever = self.cells.values().filter(|cell| cell.deadline == Deadline::Never).count() as u64;
        let mut claims = vec![
            (stats.records == live, "records"),
            (slices.iter().map(|slice| slice.records).sum::<u64>() == live, "records of the horizon"),
            (slices.iter().map(|slice| slice.bytes).sum::<u64>() == stats.live_bytes, "bytes of the horizon"),
            (slices.last().expect("never").records == forever, "records that never expire"),
            (stats.corruptions == 0, "corruptions"),
        ];
        if self.home.is_durable() {
            let records: u64 = segments.iter().map(|segment| segment.live_records).sum();
            let bytes: u64 = segments.iter().map(|segment| segment.live_bytes).sum();
            claims.push((records == live, "records of the segments"));
            claims.push((bytes == stats.live_bytes, "live bytes of the segments"));
            let fits = segments.iter().all(|segment| segment.live_bytes <= segment.bytes);
            claims.push((fits, "more lives in a segment than it has bytes"));
        }
        claims.into_iter().find(|(holds, _)| !holds).map(|(_, what)| what)
    }

    /// One deadline that has passed already refuses the whole batch.
    async fn refuse_late_batch(&mut self) {
        let (good, late) = (self.any_key(), self.any_key());
        self.note(("refused", &good, &late));
        let wall = self.wall();
        let puts = vec![
            Put { key: good.clone(), value: value("never seen"), expiry: Expiry::Never },
            Put { key: late, value: value("never seen"), expiry: at(wall) },
        ];
        let error = self.store.put_batch(puts).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidTtl, "{error:?}");
        assert_eq!(self.store.get(&good).await.unwrap(), self.expected(&good), "half a refused batch");
    }

    /// Closes, is killed, or loses power, and opens again some time later. How a clock that stepped continues
    /// across that is the clock matrix's business, so the wall clock is put right first; and a step just before a
    /// kill cannot be told from time that passed while down, so after steps it closes.
    async fn reopen(&mut self) {
        if !self.home.is_durable() {
            return;
        }
        if self.offset != 0 {
            self.set_offset(0).await;
        }
        let ways = match self.options.sync {
            _ if self.stepped => 1,
            mayfly_store::Sync::Always => 4,
            _ => 2,
        };
        let how = self.rng.below(ways);
        self.stepped = false;
        self.note(("reopen", how));
        let mut old_disk = None;
        match (&mut self.home, how) {
            (Home::Sim(disk), 1) => old_disk = Some(std::mem::replace(disk, disk.after_kill())),
            (Home::Sim(disk), 2 | 3) => {
                old_disk = Some(std::mem::replace(disk, disk.after_power_loss(self.rng.next())));
            }
            (_, 1 | 2) => {}
            _ => self.store.close().await.unwrap(),
        }
        self.store = Home::Memory.open(self.options.clone(), &self.clock);
        drop(old_disk);
        if self.rng.chance(50) {
            let down = self.any_ttl();
            self.note(("down for", down));
            self.clock.advance(millis(down));
        }
        self.expire();
        self.store = self.home.open(self.options.clone(), &self.clock);
        self.compare_all().await;
        assert_eq!(self.store.figures().corruptions, 0, "a crash is not corruption");
    }
}

async fn run_seed(name: &'static str, seed: u64, home: Home) {
    let mut run = Run::new(name, seed, home);
    for _ in 0..OPERATIONS {
        run.step().await;
    }
    run.check_stats().await;
    run.reopen().await;
    run.check_stats().await;
    run.store.close().await.unwrap();
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable}={text} is not a number")))
}

/// The kept seeds, then the one asked for or as many random ones as asked for.
async fn check(name: &'static str, default_count: u64, home: impl Fn() -> Home) {
    if let Some(seed) = number("MAYFLY_SEED") {
        return run_seed(name, seed, home()).await;
    }
    let kept = KEPT_SEEDS.lines().filter_map(|line| line.split('#').next()?.trim().split_once(' '));
    for (_, seed) in kept.filter(|(kept, _)| *kept == name) {
        run_seed(name, seed.trim().parse().expect("a kept seed is a number"), home()).await;
    }
    use std::hash::{BuildHasher, RandomState};
    let mut seeds = Rng::new(RandomState::new().hash_one(name));
    for _ in 0..number("MAYFLY_SEEDS").unwrap_or(default_count) {
        run_seed(name, seeds.below(1 << 32), home()).await;
    }
}

#[tokio::test]
async fn memory_store_equals_the_model() {
    check("memory_store_equals_the_model", 50, || Home::Memory).await;
}

#[tokio::test]
async fn file_store_on_a_losing_disk_equals_the_model() {
    check("file_store_on_a_losing_disk_equals_the_model", 30, Home::sim).await;
}

#[tokio::test]
async fn file_store_in_a_directory_equals_the_model() {
    check("file_store_in_a_directory_equals_the_model", 8, Home::dir).await;
}
