//! The committer: one thread that appends what was decided to the log, syncs once for all, and makes it visible.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::super::embedded::index::{Shard, Slot};
use super::super::embedded::timeline::Now;
use super::batch::{Batch, Write};
use super::engine::{Engine, not_written};
use super::frame::{BLOCK_BYTES, Frame, encode_block};
use super::options::Sync;
use super::queue::{Request, Taken};
use super::segment::{Place, Role, Segment};
use crate::error::{Error, ErrorKind};

#[derive(Debug)]
pub(super) struct Committer {
    engine: Arc<Engine>,
    log: Option<Arc<Segment>>,
    buffer: Vec<u8>,
    /// Whether the log holds writes that were not synced.
    unsynced: bool,
    /// When it was last synced, on the line.
    synced: u64,
    /// Whether a failed write may have left bytes behind the end of the log. Nothing is written before they
    /// are gone: they could come back as records that nobody acknowledged.
    untidy: bool,
}

impl Committer {
    pub(super) fn new(engine: Arc<Engine>) -> Self {
        let log = engine.segments.unfinished_log(engine.options.segment_bytes);
        Self { engine, log, buffer: Vec::new(), unsynced: false, synced: 0, untidy: false }
    }

    /// Works until the queue is closed and empty.
    pub(super) fn run(mut self) {
        let pause = match self.engine.options.sync {
            Sync::Interval(interval) => interval,
            Sync::Always | Sync::Never => Duration::from_secs(3600),
        };
        loop {
            match self.engine.clone().queue.take(pause) {
                Taken::Requests(requests) => {
                    self.commit_all(requests);
                    if self.engine.timeline.now().line >= self.synced + pause.as_millis() as u64 {
                        self.sync_log();
                    }
                }
                Taken::Nothing => self.sync_log(),
                Taken::Closed => break,
            }
            if self.engine.rotate.swap(false, Ordering::AcqRel) {
                self.seal();
            }
        }
        self.seal();
    }

    fn commit_all(&mut self, requests: Vec<Request>) {
        let engine = self.engine.clone();
        let mut requests = requests.into_iter().peekable();
        while requests.peek().is_some() {
            let mut batch = Batch::new(&engine, engine.last_seq.load(Ordering::Relaxed));
            while batch.bytes < BLOCK_BYTES
                && let Some(request) = requests.next()
            {
                batch.add(request);
            }
            self.commit(batch);
        }
    }

    fn commit(&mut self, batch: Batch<'_>) {
        if batch.writes.is_empty() {
            return batch.succeed();
        }
        match self.append(&batch.writes, batch.now) {
            Ok(places) => {
                self.apply(&batch, &places);
                batch.succeed();
            }
            Err(error) => batch.fail(&error),
        }
        self.engine.committed.notify_waiters();
    }

    /// Writes a block to the log and syncs it as configured; returns where each frame is.
    fn append(&mut self, writes: &[Write], now: Now) -> Result<Vec<Place>, Error> {
        let frames: Vec<Frame<'_>> = writes.iter().map(|write| write.frame(now)).collect();
        let payload: usize = frames.iter().map(|frame| frame.key.len() + frame.value.len()).sum();
        let log = self.log_with_room(payload as u64).map_err(not_written)?;
        self.buffer.clear();
        let places = encode_block(&mut self.buffer, log.salt, 0, &frames, self.engine.timeline.marks(now));
        let start = log.size.load(Ordering::Relaxed);
        let sync = self.engine.options.sync == Sync::Always;
        let written = log.file.write_all_at(&self.buffer, start);
        if let Err(error) = written.and_then(|()| if sync { log.file.sync_data() } else { Ok(()) }) {
            self.untidy = true;
            return Err(self.take_back(&log, error));
        }
        self.unsynced = !sync;
        log.size.fetch_add(self.buffer.len() as u64, Ordering::Relaxed);
        self.buffer.shrink_to(BLOCK_BYTES);
        let place = |(offset, len)| Place { segment: log.id, offset: start as u32 + offset, len };
        Ok(places.into_iter().map(place).collect())
    }

    /// Cuts off what a failed write may have left. Only then is it certain that it was not applied.
    fn take_back(&mut self, log: &Segment, error: io::Error) -> Error {
        tracing::error!(%error, segment = log.id, "a write to the log failed");
        match self.tidy(log) {
            Ok(()) => not_written(error),
            Err(_) => Error::new(ErrorKind::UnknownOutcome, "the disk failed in the middle of a write")
                .with_source(error),
        }
    }

    fn tidy(&mut self, log: &Segment) -> io::Result<()> {
        log.file.truncate(log.size.load(Ordering::Relaxed))?;
        log.file.sync_data()?;
        self.untidy = false;
        Ok(())
    }

    fn log_with_room(&mut self, bytes: u64) -> io::Result<Arc<Segment>> {
        if let Some(log) = self.log.clone() {
            if self.untidy {
                self.tidy(&log)?;
            }
            if log.size.load(Ordering::Relaxed) + bytes <= self.engine.options.segment_bytes {
                self.engine.segments.forget_snapshot()?;
                return Ok(log);
            }
            self.seal();
        }
        let log = self.engine.segments.create(Role::Log)?;
        self.log = Some(log.clone());
        Ok(log)
    }

    /// Ends the open log. Nothing is appended to it any more.
    fn seal(&mut self) {
        self.sync_log();
        if self.untidy {
            return;
        }
        if let Some(log) = self.log.take() {
            log.open.store(false, Ordering::Release);
            self.engine.bell.alarm().ring();
        }
    }

    fn sync_log(&mut self) {
        if let Some(log) =
            self.log.as_ref().filter(|_| self.unsynced && self.engine.options.sync != Sync::Never)
        {
            match log.file.sync_data() {
                Ok(()) => {
                    self.unsynced = false;
                    self.synced = self.engine.timeline.now().line;
                }
                Err(error) => tracing::error!(%error, segment = log.id, "the log could not be synced"),
            }
        }
    }

    /// Makes a batch visible, the writes of one request to one partition at the same moment.
    fn apply(&mut self, batch: &Batch<'_>, places: &[Place]) {
        let engine = &self.engine;
        let log = self.log.as_ref().expect("the log was just written to");
        let mut start = 0;
        for &end in &batch.units {
            let mut unit: Vec<usize> = (start..end).collect();
            start = end;
            unit.sort_by_key(|&at| batch.writes[at].key.partition());
            for writes in
                unit.chunk_by(|&a, &b| batch.writes[a].key.partition() == batch.writes[b].key.partition())
            {
                engine.index.write(batch.writes[writes[0]].key.as_bytes(), |shard| {
                    for &at in writes {
                        apply_write(engine, log, shard, &batch.writes[at], places[at], batch.now);
                    }
                });
            }
        }
        if let Some(write) = batch.writes.last() {
            engine.last_seq.store(write.seq, Ordering::Relaxed);
        }
        let due = batch.writes.iter().map(|write| write.deadline.on_line(batch.now)).min();
        engine.bell.ring_for(due.unwrap_or(u64::MAX));
    }
}

impl Drop for Committer {
    fn drop(&mut self) {
        self.engine.queue.abandon();
    }
}

fn apply_write(
    engine: &Engine,
    log: &Segment,
    shard: &mut Shard<Place>,
    write: &Write,
    place: Place,
    now: Now,
) {
    let key = write.key.as_bytes();
    let old = match write.delete {
        true => shard.remove(key),
        false => {
            log.add_live(place.len);
            shard.insert(key, Slot { deadline: write.deadline, seq: write.seq, place }, now)
        }
    };
    log.note_frame(&write.frame(now), place.len);
    match old {
        Some(old) if old.deadline.is_pending() || !old.deadline.is_past(now) => {
            engine.segments.remove_live(old.place);
        }
        Some(old) => engine.reaper.evict(write.key.clone(), old),
        None => {}
    }
}
