//! A disk in memory that behaves as badly as real ones may.
//!
//! It forgets what was not synced when power is lost (content and directory entries, each by a seed, torn and
//! out of order), fails any call, gets full, and flips bits. The tests and the fuzz targets share it.

use std::any::Any;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mayfly_store::backend::file::disk::{Disk, DiskFile};

/// What a disk writes in one piece. Unsynced pieces survive a power loss one by one.
const SECTOR: usize = 512;
const EIO: i32 = 5;
const ENOSPC: i32 = 28;
/// Calls kept for the message of a failing test.
const TRACE: usize = 40;

/// How a call goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The call fails. After a failed sync, what was unsynced stays readable but will never reach the disk, as on
    /// Linux.
    Eio,
    /// The same with "no space left"; delayed allocation makes that possible even in a sync.
    Enospc,
    /// A write takes a part and says so, and the write after it fails with `ENOSPC`; a sync reaches the disk and
    /// fails all the same. Other calls fail.
    Short,
    /// Power is lost in the middle of the call: it and all later ones fail and change nothing more.
    PowerLoss,
}

/// Splitmix64: one number in, a stream of numbers out.
#[derive(Debug, Clone)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `end`, which is not 0.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// The disk. Clones are the same disk.
#[derive(Debug, Clone, Default)]
pub(crate) struct SimDisk {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Clone, Default)]
struct State {
    files: BTreeMap<u64, File>,
    next_file: u64,
    /// The directory as processes see it.
    names: BTreeMap<String, u64>,
    /// The directory as the last sync left it, and what was done to it since.
    durable_names: BTreeMap<String, u64>,
    unsynced_names: Vec<NameChange>,
    locked: bool,
    calls: u64,
    bytes_read: u64,
    plan: Option<Plan>,
    fired: bool,
    write_fails_next: bool,
    dead: bool,
    capacity: Option<u64>,
    trace: VecDeque<String>,
}

#[derive(Debug, Clone)]
struct Plan {
    at: u64,
    fault: Fault,
    sticky: bool,
}

#[derive(Debug, Clone, Default)]
struct File {
    /// What reads see.
    content: Vec<u8>,
    /// What the last sync made safe, and what was done since.
    durable: Vec<u8>,
    unsynced: Vec<Change>,
    handles: usize,
}

#[derive(Debug, Clone)]
enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    Resize(usize),
}

#[derive(Debug, Clone)]
enum NameChange {
    Link { name: String, file: u64 },
    Rename { from: String, to: String, file: u64 },
    Unlink { name: String },
}

impl Change {
    fn apply(&self, content: &mut Vec<u8>) {
        match self {
            Self::Write { offset, bytes } => {
                let end = offset + bytes.len();
                if content.len() < end {
                    content.resize(end, 0);
                }
                content[*offset..end].copy_from_slice(bytes);
            }
            Self::Resize(size) => content.resize(*size, 0),
        }
    }

    /// The same change in pieces that a disk writes whole.
    fn sectors(&self) -> Vec<Self> {
        let Self::Write { offset, bytes } = self else { return vec![self.clone()] };
        let mut pieces = Vec::new();
        let mut done = 0;
        while done < bytes.len() {
            let take = (SECTOR - (offset + done) % SECTOR).min(bytes.len() - done);
            pieces.push(Self::Write { offset: offset + done, bytes: bytes[done..done + take].to_vec() });
            done += take;
        }
        pieces
    }
}

impl NameChange {
    fn apply(&self, names: &mut BTreeMap<String, u64>) {
        match self {
            Self::Link { name, file } => _ = names.insert(name.clone(), *file),
            Self::Rename { from, to, file } => {
                names.remove(from);
                names.insert(to.clone(), *file);
            }
            Self::Unlink { name } => _ = names.remove(name),
        }
    }
}

impl File {
    /// What a power loss leaves: nothing unsynced, all of it, the beginning of it with the last piece torn, or
    /// any pieces of it.
    fn after_power_loss(&self, rng: &mut Rng) -> Vec<u8> {
        let mut content = self.durable.clone();
        let mut pieces: Vec<Change> = self.unsynced.iter().flat_map(Change::sectors).collect();
        match rng.below(4) {
            0 => pieces.clear(),
            1 => {}
            2 => {
                pieces.truncate(rng.below(pieces.len() as u64 + 1) as usize);
                if let Some(Change::Write { bytes, .. }) = pieces.last_mut() {
                    bytes.truncate(rng.below(bytes.len() as u64 + 1) as usize);
                }
            }
            _ => pieces.retain(|_| rng.chance(50)),
        }
        for piece in pieces {
            piece.apply(&mut content);
        }
        content
    }
}

impl State {
    /// Counts a call; the fault it meets, if any.
    fn call(&mut self, what: impl FnOnce() -> String) -> Result<Option<Fault>, io::Error> {
        if self.dead {
            return Err(io::Error::from_raw_os_error(EIO));
        }
        let number = self.calls;
        self.calls += 1;
        let fault = match &self.plan {
            Some(plan) if number == plan.at || (plan.sticky && number > plan.at) => Some(plan.fault),
            _ => None,
        };
        if self.trace.len() == TRACE {
            self.trace.pop_front();
        }
        let note = fault.map_or(String::new(), |fault| format!("  <- {fault:?}"));
        self.trace.push_back(format!("{number}: {}{note}", what()));
        if let Some(fault) = fault {
            self.fired = true;
            self.dead |= fault == Fault::PowerLoss;
        }
        Ok(fault)
    }

    /// A call that either works or does nothing.
    fn simple_call(&mut self, what: impl FnOnce() -> String) -> io::Result<()> {
        match self.call(what)? {
            None => Ok(()),
            Some(Fault::Enospc) => Err(io::Error::from_raw_os_error(ENOSPC)),
            Some(_) => Err(io::Error::from_raw_os_error(EIO)),
        }
    }

    fn change_names(&mut self, change: NameChange) {
        change.apply(&mut self.names);
        self.unsynced_names.push(change);
        self.forget_unreachable();
    }

    fn forget_unreachable(&mut self) {
        let (names, durable) = (&self.names, &self.durable_names);
        let unsynced = &self.unsynced_names;
        self.files.retain(|id, file| {
            file.handles > 0
                || names.values().any(|named| named == id)
                || durable.values().any(|named| named == id)
                || unsynced.iter().any(|change| match change {
                    NameChange::Link { file, .. } | NameChange::Rename { file, .. } => file == id,
                    NameChange::Unlink { .. } => false,
                })
        });
    }

    /// Bytes taken on the disk: unlinked files count while somebody has them open.
    fn used(&self) -> u64 {
        let named: std::collections::BTreeSet<_> = self.names.values().collect();
        let taken = self.files.iter().filter(|(id, file)| file.handles > 0 || named.contains(id));
        taken.map(|(_, file)| file.content.len() as u64).sum()
    }
}

impl SimDisk {
    /// An empty disk.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the call after the next `skip` ones go wrong, once.
    pub(crate) fn fail_after(&self, skip: u64, fault: Fault) {
        self.plan(skip, fault, false);
    }

    /// Lets that call and all later ones go wrong, until [`heal`](Self::heal).
    pub(crate) fn fail_from(&self, skip: u64, fault: Fault) {
        self.plan(skip, fault, true);
    }

    fn plan(&self, skip: u64, fault: Fault, sticky: bool) {
        let mut state = self.state();
        state.fired = false;
        state.plan = Some(Plan { at: state.calls + skip, fault, sticky });
    }

    /// No more planned faults, and the past ones are forgiven.
    pub(crate) fn heal(&self) {
        let mut state = self.state();
        (state.plan, state.fired, state.write_fails_next) = (None, false, false);
    }

    /// Whether the planned fault has happened.
    pub(crate) fn fired(&self) -> bool {
        self.state().fired
    }

    /// Whether power was lost.
    pub(crate) fn is_dead(&self) -> bool {
        self.state().dead
    }

    /// Calls so far.
    pub(crate) fn calls(&self) -> u64 {
        self.state().calls
    }

    /// Bytes read so far.
    pub(crate) fn bytes_read(&self) -> u64 {
        self.state().bytes_read
    }

    /// The last calls, for a message.
    pub(crate) fn trace(&self) -> String {
        self.state().trace.iter().fold(String::new(), |text, line| text + "\n  " + line)
    }

    /// Sets how many bytes fit; none = any number.
    pub(crate) fn set_capacity(&self, capacity: Option<u64>) {
        self.state().capacity = capacity;
    }

    /// Bytes taken.
    pub(crate) fn used(&self) -> u64 {
        self.state().used()
    }

    /// Every file with its content.
    pub(crate) fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let state = self.state();
        state.names.iter().map(|(name, id)| (name.clone(), state.files[id].content.clone())).collect()
    }

    /// Puts a file there, durably, replacing one of that name.
    pub(crate) fn put_file(&self, name: &str, content: Vec<u8>) {
        let mut state = self.state();
        let id = state.next_file;
        state.next_file += 1;
        state.files.insert(id, File { durable: content.clone(), content, ..File::default() });
        state.names.insert(name.to_string(), id);
        state.durable_names.insert(name.to_string(), id);
        state.forget_unreachable();
    }

    /// Flips one bit of a file, under everybody who has it open.
    pub(crate) fn flip(&self, name: &str, byte: usize, bit: u8) {
        let mut state = self.state();
        let id = state.names[name];
        let file = state.files.get_mut(&id).expect("a named file exists");
        file.content[byte] ^= 1 << bit;
        if let Some(safe) = file.durable.get_mut(byte) {
            *safe ^= 1 << bit;
        }
    }

    /// A new disk with what `kill -9` leaves: everything written, but still no safer than it was.
    pub(crate) fn after_kill(&self) -> Self {
        let mut state = self.state().clone();
        (state.locked, state.plan, state.fired, state.write_fails_next) = (false, None, false, false);
        state.files.values_mut().for_each(|file| file.handles = 0);
        state.forget_unreachable();
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// A new disk with what a power loss now, or at the planned call, leaves.
    pub(crate) fn after_power_loss(&self, seed: u64) -> Self {
        let old = self.state();
        let mut rng = Rng::new(seed);
        let mut names = old.durable_names.clone();
        let mut changes = old.unsynced_names.clone();
        match rng.below(4) {
            0 => changes.clear(),
            1 => {}
            2 => changes.truncate(rng.below(changes.len() as u64 + 1) as usize),
            _ => changes.retain(|_| rng.chance(50)),
        }
        for change in changes {
            change.apply(&mut names);
        }
        let disk = Self::new();
        for (name, id) in names {
            disk.put_file(&name, old.files[&id].after_power_loss(&mut rng));
        }
        disk.state().capacity = old.capacity;
        disk
    }

    fn handle(&self, state: &mut State, id: u64) -> Arc<dyn DiskFile> {
        state.files.get_mut(&id).expect("opened files exist").handles += 1;
        Arc::new(SimFile { disk: self.clone(), id })
    }
}

#[derive(Debug)]
struct LockGuard(SimDisk);

impl Drop for LockGuard {
    fn drop(&mut self) {
        self.0.state().locked = false;
    }
}

impl Disk for SimDisk {
    fn lock(&self) -> io::Result<Box<dyn Any + Send + Sync>> {
        let mut state = self.state();
        if state.locked {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        state.locked = true;
        Ok(Box::new(LockGuard(self.clone())))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut state = self.state();
        state.simple_call(|| "list".into())?;
        Ok(state.names.keys().cloned().collect())
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let mut state = self.state();
        state.simple_call(|| format!("create {name}"))?;
        if let Some(&id) = state.names.get(name) {
            let file = state.files.get_mut(&id).expect("a named file exists");
            file.content.clear();
            file.unsynced.push(Change::Resize(0));
            return Ok(self.handle(&mut state, id));
        }
        let id = state.next_file;
        state.next_file += 1;
        state.files.insert(id, File::default());
        state.change_names(NameChange::Link { name: name.to_string(), file: id });
        Ok(self.handle(&mut state, id))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let mut state = self.state();
        state.simple_call(|| format!("open {name}"))?;
        let id = *state.names.get(name).ok_or(io::ErrorKind::NotFound)?;
        Ok(self.handle(&mut state, id))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.state();
        state.simple_call(|| format!("rename {from} {to}"))?;
        let file = *state.names.get(from).ok_or(io::ErrorKind::NotFound)?;
        state.change_names(NameChange::Rename { from: from.to_string(), to: to.to_string(), file });
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.state();
        state.simple_call(|| format!("remove {name}"))?;
        state.names.get(name).ok_or(io::ErrorKind::NotFound)?;
        state.change_names(NameChange::Unlink { name: name.to_string() });
        Ok(())
    }

    fn sync_dir(&self) -> io::Result<()> {
        let mut state = self.state();
        let fault = state.call(|| "sync_dir".into())?;
        if matches!(fault, None | Some(Fault::Short)) {
            state.durable_names = state.names.clone();
            state.unsynced_names.clear();
            state.forget_unreachable();
        }
        fault.map_or(Ok(()), |_| Err(io::Error::from_raw_os_error(EIO)))
    }
}

#[derive(Debug)]
struct SimFile {
    disk: SimDisk,
    id: u64,
}

impl Drop for SimFile {
    fn drop(&mut self) {
        let mut state = self.disk.state();
        state.files.get_mut(&self.id).expect("opened files exist").handles -= 1;
        state.forget_unreachable();
    }
}

impl State {
    fn file(&mut self, id: u64) -> &mut File {
        self.files.get_mut(&id).expect("opened files exist")
    }

    fn describe(&self, id: u64, what: &str) -> String {
        let name = self.names.iter().find(|(_, named)| **named == id);
        format!("{what} {}", name.map_or("(unlinked)", |(name, _)| name))
    }

    fn write(&mut self, id: u64, bytes: &[u8], offset: usize) {
        let change = Change::Write { offset, bytes: bytes.to_vec() };
        let file = self.file(id);
        change.apply(&mut file.content);
        file.unsynced.push(change);
    }
}

impl DiskFile for SimFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut state = self.disk.state();
        let what = state.describe(self.id, "read");
        state.simple_call(|| format!("{what} {}+{}", offset, buffer.len()))?;
        let content = &state.file(self.id).content;
        let from = (offset as usize).min(content.len());
        let size = buffer.len().min(content.len() - from);
        buffer[..size].copy_from_slice(&content[from..from + size]);
        state.bytes_read += size as u64;
        Ok(size)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let mut state = self.disk.state();
        let what = state.describe(self.id, "write");
        let fault = state.call(|| format!("{what} {}+{}", offset, bytes.len()))?;
        let offset = offset as usize;
        if std::mem::take(&mut state.write_fails_next) {
            return Err(io::Error::from_raw_os_error(ENOSPC));
        }
        match fault {
            None => {}
            Some(Fault::Eio) => return Err(io::Error::from_raw_os_error(EIO)),
            Some(Fault::Enospc) => return Err(io::Error::from_raw_os_error(ENOSPC)),
            Some(Fault::Short) => {
                let part = bytes.len().div_ceil(2);
                state.write(self.id, &bytes[..part], offset);
                state.write_fails_next = true;
                return Ok(part);
            }
            Some(Fault::PowerLoss) => {
                state.write(self.id, bytes, offset);
                return Err(io::Error::from_raw_os_error(EIO));
            }
        }
        let mut part = bytes.len();
        if let Some(capacity) = state.capacity {
            let size = state.file(self.id).content.len();
            let free = capacity.saturating_sub(state.used()) as usize;
            part = part.min((size + free).saturating_sub(offset));
            if part == 0 && !bytes.is_empty() {
                return Err(io::Error::from_raw_os_error(ENOSPC));
            }
        }
        state.write(self.id, &bytes[..part], offset);
        Ok(part)
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.disk.state();
        let what = state.describe(self.id, "sync");
        let fault = state.call(|| what)?;
        let file = state.file(self.id);
        match fault {
            None | Some(Fault::Short) => {
                for change in std::mem::take(&mut file.unsynced) {
                    change.apply(&mut file.durable);
                }
            }
            Some(Fault::Eio | Fault::Enospc) => file.unsynced.clear(),
            Some(Fault::PowerLoss) => {}
        }
        match fault {
            None => Ok(()),
            Some(Fault::Enospc) => Err(io::Error::from_raw_os_error(ENOSPC)),
            Some(_) => Err(io::Error::from_raw_os_error(EIO)),
        }
    }

    fn size(&self) -> io::Result<u64> {
        let mut state = self.disk.state();
        let what = state.describe(self.id, "size");
        state.simple_call(|| what)?;
        Ok(state.file(self.id).content.len() as u64)
    }

    fn truncate(&self, size: u64) -> io::Result<()> {
        let mut state = self.disk.state();
        let what = state.describe(self.id, "truncate");
        state.simple_call(|| format!("{what} {size}"))?;
        let change = Change::Resize(size as usize);
        let file = state.file(self.id);
        change.apply(&mut file.content);
        file.unsynced.push(change);
        Ok(())
    }
}
