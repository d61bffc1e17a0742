//! Reads: from the index to the bytes on disk, without ever holding up a writer.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;

use super::super::embedded::index::Slot;
use super::super::embedded::timeline::Now;
use super::engine::Engine;
use super::frame::{Block, decode_frame};
use super::segment::{Place, name_of};
use crate::error::{Error, ErrorKind, Result};
use crate::record::{Entry, Key, Record, Value};

/// Frames up to this size are read without an allocation of their own.
const SMALL: usize = 512;

impl Engine {
    /// The live slot of a key.
    pub(super) async fn live(&self, key: &Key) -> Result<Option<Slot<Place>>> {
        let now = self.open()?;
        match self.index.get(key.as_bytes()) {
            Some(slot) => self.if_live(key, slot, now).await,
            None => Ok(None),
        }
    }

    /// The slot, if it lives. A dead one with a write under way is asked for again when that is over: the write
    /// was decided while the record lived, so whoever reads after the deadline must see what came of it.
    pub(super) async fn if_live(
        &self,
        key: &Key,
        slot: Slot<Place>,
        now: Now,
    ) -> Result<Option<Slot<Place>>> {
        let (mut slot, mut now) = (slot, now);
        while slot.deadline.is_past(now) {
            if !slot.deadline.is_pending() {
                if slot.deadline.is_absolute() {
                    self.evict(key, now);
                }
                return Ok(None);
            }
            let committed = self.committed.notified();
            tokio::pin!(committed);
            committed.as_mut().enable();
            let again = self.index.get(key.as_bytes());
            if again.as_ref().is_some_and(|slot| slot.deadline.is_pending()) {
                committed.await;
            }
            now = self.open()?;
            match self.index.get(key.as_bytes()) {
                Some(again) => slot = again,
                None => return Ok(None),
            }
        }
        Ok(Some(slot))
    }

    /// The value of a record that was live, wherever it has been moved since. None if it is gone by now.
    pub(super) async fn value(
        &self,
        key: &Key,
        mut slot: Slot<Place>,
    ) -> Result<Option<(Value, Slot<Place>)>> {
        loop {
            if let Some(value) = self.value_at(key, slot.place)? {
                return Ok(Some((value, slot)));
            }
            match self.live(key).await? {
                Some(again) if again.place != slot.place => slot = again,
                Some(_) => return Err(self.corrupt(slot.place, "its file is missing")),
                None => return Ok(None),
            }
        }
    }

    /// The value at a place. None if the segment is gone, because the record was moved or has expired.
    pub(super) fn value_at(&self, key: &Key, place: Place) -> Result<Option<Value>> {
        let Some(segment) = self.segments.get(place.segment) else { return Ok(None) };
        let mut small = [0; SMALL];
        let mut large;
        let bytes = match small.get_mut(..place.len as usize) {
            Some(small) => small,
            None => {
                large = vec![0; place.len as usize];
                &mut large[..]
            }
        };
        segment.file.read_exact_at(bytes, place.offset.into()).map_err(|error| {
            Error::new(ErrorKind::Unavailable, format!("cannot read {}", name_of(place.segment)))
                .with_source(error)
        })?;
        match decode_frame(bytes, &Block { salt: segment.salt, ..Block::default() })
            .filter(|(frame, _)| frame.key == key.as_bytes())
        {
            Some((frame, _)) => Ok(Some(Value::new(Bytes::copy_from_slice(frame.value))?)),
            None => Err(self.corrupt(place, "the bytes do not match their checksum")),
        }
    }

    fn corrupt(&self, place: Place, what: &str) -> Error {
        self.corruptions.fetch_add(1, Ordering::Relaxed);
        let (name, offset) = (name_of(place.segment), place.offset);
        tracing::error!(file = name, offset, what, "a record is damaged");
        Error::new(ErrorKind::Corrupt, format!("a record in {name} at {offset} is damaged: {what}"))
    }

    pub(super) async fn entry(&self, key: &Key) -> Result<Option<Entry>> {
        match self.live(key).await? {
            Some(slot) => self.entry_of(key, slot).await,
            None => Ok(None),
        }
    }

    pub(super) async fn entry_of(&self, key: &Key, slot: Slot<Place>) -> Result<Option<Entry>> {
        let found = self.value(key, slot).await?;
        Ok(found.map(|(value, slot)| Entry { value, expires_at: self.timeline.expires_at(slot.deadline) }))
    }

    /// The record of a slot that a range read has met, if it lives or has been renewed by now.
    pub(super) async fn resolve(self: Arc<Self>, key: Key, slot: Slot<Place>) -> Result<Option<Record>> {
        let now = self.open()?;
        let entry = match slot.deadline.is_past(now) {
            true => self.entry(&key).await?,
            false => self.entry_of(&key, slot).await?,
        };
        Ok(entry.map(|Entry { value, expires_at }| Record { key, value, expires_at }))
    }
}
