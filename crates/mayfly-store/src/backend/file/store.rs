//! [`FileStore`]: opening and closing, and the contract on top of the engine.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};

use super::super::embedded::backlog::Backlog;
use super::super::embedded::index::Slot;
use super::super::embedded::janitor::{Bell, Janitor};
use super::super::embedded::pages::read_pages;
use super::super::embedded::reaper::Reaper;
use super::commit::Committer;
use super::disk::{Disk, RealDisk};
use super::engine::{Engine, closed, not_written};
use super::maintain::Maintainer;
use super::options::{FileOptions, Sync};
use super::queue::{Op, Outcome, Queue};
use super::recover::{Recovered, recover};
use super::regroup::Regrouper;
use super::segment::Place;
use super::segments::Segments;
use super::verify::{VerifyProgress, VerifyReport};
use super::{snapshot, subscribers};
use crate::error::{Error, ErrorKind, Result};
use crate::feed::{Expired, ExpiredFeed, FeedCursor, FeedPosition};
use crate::record::{Entry, Key, Put, Range, Record, Value};
use crate::stats::Stats;
use crate::store::{RecordStream, Store, TtlState};
use crate::time::{Clock, Expiry};

/// The most that one batch of puts may hold, in bytes of keys and values: it lies in one segment.
const MAX_BATCH: usize = 1 << 30;

/// A durable store in a directory of its own. One process opens it at a time.
///
/// Dropping it without [`close`](Store::close) loses nothing that was acknowledged; closing makes the next
/// opening fast.
pub struct FileStore {
    engine: Arc<Engine>,
    threads: Arc<Threads>,
}

struct Threads {
    engine: Arc<Engine>,
    committer: Mutex<Option<JoinHandle<()>>>,
    maintainer: Arc<Mutex<Maintainer>>,
    janitor: Janitor,
    regrouper: Janitor,
    finished: Mutex<bool>,
}

impl FileStore {
    /// Opens a directory, or makes it. Reads what is there and starts the store's threads; it blocks meanwhile.
    pub fn open(dir: impl AsRef<Path>, options: FileOptions, clock: Arc<dyn Clock>) -> Result<Self> {
        let dir = dir.as_ref();
        let disk = RealDisk::open(dir).map_err(|error| {
            Error::new(ErrorKind::Unavailable, format!("cannot open the directory {}", dir.display()))
                .with_source(error)
        })?;
        Self::open_on(Arc::new(disk), options, clock)
    }

    /// The same on any file layer.
    pub fn open_on(disk: Arc<dyn Disk>, options: FileOptions, clock: Arc<dyn Clock>) -> Result<Self> {
        check(&options)?;
        let lock = disk.lock().map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => {
                let message = "another process has this data directory open: stop it, or talk to its server";
                Error::new(ErrorKind::Locked, message)
            }
            _ => Error::new(ErrorKind::Unavailable, "cannot lock the data directory").with_source(error),
        })?;
        let Recovered {
            index,
            segments,
            next_id,
            last_seq,
            timeline,
            clock_file,
            subscribers,
            backlog,
            corruptions,
        } = recover(&*disk, clock)?;
        let engine = Arc::new(Engine {
            index,
            segments: Segments::new(disk.clone(), segments, next_id),
            timeline,
            reaper: Reaper::default(),
            backlog: Backlog::new(subscribers, backlog),
            queue: Queue::default(),
            bell: Arc::default(),
            regroup_bell: Arc::default(),
            committed: Notify::new(),
            last_seq: AtomicU64::new(last_seq),
            rotate: AtomicBool::new(false),
            corruptions: AtomicU64::new(corruptions),
            subscribers_file: Mutex::new(()),
            closed: AtomicBool::new(false),
            disk,
            options,
            lock: Mutex::new(Some(lock)),
        });
        let mut maintainer = Maintainer::new(engine.clone(), clock_file);
        maintainer.note(engine.timeline.now(), false);
        let threads = Threads::start(&engine, maintainer).map_err(|error| {
            Error::new(ErrorKind::Unavailable, "cannot start a thread").with_source(error)
        })?;
        Ok(Self { engine, threads: Arc::new(threads) })
    }

    /// The store's figures now.
    pub fn stats(&self) -> Stats {
        self.engine.stats()
    }

    /// Checks every byte of every data file; blocks meanwhile, others go on.
    pub fn verify(&self, progress: &mut dyn FnMut(VerifyProgress)) -> Result<VerifyReport> {
        self.engine.verify(progress)
    }

    /// The live record if its value is `expected`.
    async fn compare(&self, key: &Key, expected: &Value) -> Result<Option<Slot<Place>>> {
        let Some(slot) = self.engine.live(key).await? else { return Ok(None) };
        let found = self.engine.value(key, slot).await?;
        Ok(found.filter(|(value, _)| value == expected).map(|(_, slot)| slot))
    }

    /// Makes the subscribers durable. The lock keeps an older state from overwriting a newer one.
    fn save_subscribers(&self) -> Result<()> {
        let _order = self.engine.subscribers_file.lock();
        subscribers::save(&*self.engine.disk, &self.engine.backlog.cursors()).map_err(not_written)
    }
}

fn check(options: &FileOptions) -> Result<()> {
    let refuse = |message: String| Err(Error::new(ErrorKind::InvalidArgument, message));
    if !(64 << 10..=1 << 30).contains(&options.segment_bytes) {
        let bytes = options.segment_bytes;
        return refuse(format!("segment_bytes is {bytes}; it must be from 65,536 to 1,073,741,824"));
    }
    if options.sync == Sync::Interval(Duration::ZERO) {
        return refuse("a sync interval of zero is not an interval: use Sync::Always".into());
    }
    Ok(())
}

impl fmt::Debug for FileStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FileStore({:?})", self.engine.disk)
    }
}

impl Threads {
    fn start(engine: &Arc<Engine>, maintainer: Maintainer) -> io::Result<Self> {
        engine.timeline.ring_when_moved(engine.bell.alarm());
        engine.timeline.ring_when_moved(engine.regroup_bell.alarm());
        let committer = Committer::new(engine.clone());
        let committer = std::thread::Builder::new().name("mayfly-commit".into()).spawn(|| committer.run())?;
        let maintainer = Arc::new(Mutex::new(maintainer));
        let theirs = maintainer.clone();
        let bell: Arc<Bell> = engine.bell.clone();
        let janitor = Janitor::start("mayfly-janitor", bell, move || theirs.lock().round())?;
        let mut regrouper = Regrouper::new(engine.clone());
        let regrouper =
            Janitor::start("mayfly-regroup", engine.regroup_bell.clone(), move || regrouper.round())?;
        Ok(Self {
            engine: engine.clone(),
            committer: Mutex::new(Some(committer)),
            maintainer,
            janitor,
            regrouper,
            finished: Mutex::new(false),
        })
    }

    /// Commits what was accepted and ends all threads.
    fn stop(&self) {
        self.engine.closed.store(true, Ordering::Release);
        self.engine.queue.close();
        self.engine.backlog.wake();
        if let Some(committer) = self.committer.lock().take() {
            // A panic in there has been reported by the panic hook; its callers got `Closed`.
            let _ = committer.join();
        }
        self.engine.committed.notify_waiters();
        self.regrouper.stop();
        self.janitor.stop();
    }

    /// Stops, and writes the snapshot that makes the next opening fast.
    fn close(&self) -> Result<()> {
        let mut finished = self.finished.lock();
        if *finished {
            return Ok(());
        }
        self.stop();
        let engine = &*self.engine;
        let mut maintainer = self.maintainer.lock();
        maintainer.round();
        let segments = engine.segments.all();
        if segments.iter().all(|segment| !segment.damaged.load(Ordering::Relaxed)) {
            let backlog = engine.backlog.items();
            let last_seq = engine.last_seq.load(Ordering::Relaxed);
            let next_id = engine.segments.next_id();
            let saved = snapshot::save(&*engine.disk, &engine.index, &segments, &backlog, last_seq, next_id);
            if let Err(error) = saved {
                tracing::warn!(%error, "the index could not be saved: the next opening will read everything");
            }
        }
        maintainer.note(engine.timeline.now(), true);
        *self.engine.lock.lock() = None;
        *finished = true;
        Ok(())
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.stop();
    }
}

#[async_trait]
impl Store for FileStore {
    async fn get(&self, key: &Key) -> Result<Option<Entry>> {
        self.engine.entry(key).await
    }

    async fn get_batch(&self, keys: &[Key]) -> Result<Vec<Option<Entry>>> {
        let now = self.engine.open()?;
        let mut entries = Vec::with_capacity(keys.len());
        for (key, slot) in keys.iter().zip(self.engine.index.get_many(keys)) {
            let live = match slot {
                Some(slot) => self.engine.if_live(key, slot, now).await?,
                None => None,
            };
            entries.push(match live {
                Some(slot) => self.engine.entry_of(key, slot).await?,
                None => None,
            });
        }
        Ok(entries)
    }

    async fn put_batch(&self, puts: Vec<Put>) -> Result<()> {
        let bytes: usize = puts.iter().map(|put| put.key.as_bytes().len() + put.value.len()).sum();
        if bytes > MAX_BATCH {
            let message = format!("the batch has {bytes} bytes; at most {MAX_BATCH} can be written at once");
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
        self.engine.queue.submit(Op::Puts(puts)).await.map(drop)
    }

    async fn insert_if_not_exists(&self, key: &Key, value: Value, expiry: Expiry) -> Result<bool> {
        let outcome = self.engine.queue.submit(Op::Insert(Put::new(key, value, expiry))).await?;
        Ok(outcome == Outcome::Applied)
    }

    async fn compare_and_swap(
        &self,
        key: &Key,
        expected: &Value,
        new: Value,
        expiry: Expiry,
    ) -> Result<bool> {
        self.engine.timeline.deadline(expiry, self.engine.open()?)?;
        loop {
            let Some(slot) = self.compare(key, expected).await? else { return Ok(false) };
            let put = Put::new(key, new.clone(), expiry);
            if self.engine.queue.submit(Op::Swap { put, seq: slot.seq }).await? == Outcome::Applied {
                return Ok(true);
            }
        }
    }

    async fn compare_and_delete(&self, key: &Key, expected: &Value) -> Result<bool> {
        loop {
            let Some(slot) = self.compare(key, expected).await? else { return Ok(false) };
            let delete = Op::Delete { key: key.clone(), seq: slot.seq };
            if self.engine.queue.submit(delete).await? == Outcome::Applied {
                return Ok(true);
            }
        }
    }

    fn read(&self, range: Range) -> RecordStream {
        let next_page = move |engine: &Engine, after: Option<&Key>, limit| {
            engine.open().map(|_| engine.index.page(&range, after, limit))
        };
        read_pages(self.engine.clone(), next_page, Engine::resolve)
    }

    async fn query_ttl(&self, key: &Key) -> Result<TtlState> {
        let slot = self.engine.live(key).await?;
        let now = self.engine.timeline.now();
        Ok(slot.map_or(TtlState::Absent, |slot| TtlState::of_live(slot.deadline.remaining(now))))
    }

    async fn close(&self) -> Result<()> {
        let threads = self.threads.clone();
        let (done, wait) = oneshot::channel();
        std::thread::spawn(move || done.send(threads.close()));
        wait.await.unwrap_or_else(|_| Err(closed()))
    }
}

#[async_trait]
impl ExpiredFeed for FileStore {
    async fn subscribe(&self, name: &str) -> Result<()> {
        let now = self.engine.open()?;
        if !self.engine.backlog.subscribe(name, FeedCursor::at(now))? {
            return Ok(());
        }
        self.save_subscribers().inspect_err(|_| drop(self.engine.backlog.unsubscribe(name)))
    }

    async fn unsubscribe(&self, name: &str) -> Result<bool> {
        self.engine.open()?;
        let (known, unwanted) = self.engine.backlog.unsubscribe(name);
        if known {
            self.save_subscribers()?;
            self.engine.segments.unpin(&unwanted);
            self.engine.bell.alarm().ring();
        }
        Ok(known)
    }

    async fn next_expired(&self, name: &str, limit: usize) -> Result<Vec<Expired>> {
        let items = self.engine.backlog.next(name, limit, || self.engine.open().map(drop)).await?;
        let mut expired = Vec::with_capacity(items.len());
        for (key, slot, position) in items {
            // Acknowledged by another consumer of the same name meanwhile, if its segment is gone.
            let Some(value) = self.engine.value_at(&key, slot.place)? else { continue };
            let expires_at = self.engine.timeline.expires_at(slot.deadline);
            expired.push(Expired { record: Record { key, value, expires_at }, position });
        }
        Ok(expired)
    }

    async fn acknowledge(&self, name: &str, position: FeedPosition) -> Result<()> {
        self.engine.open()?;
        let unwanted = self.engine.backlog.acknowledge(name, position)?;
        self.save_subscribers()?;
        self.engine.segments.unpin(&unwanted);
        self.engine.bell.alarm().ring();
        Ok(())
    }
}
