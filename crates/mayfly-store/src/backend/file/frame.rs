//! Frames, one per write, and the blocks they are committed in. Pure bytes; the tables are in
//! `docs/formats/segment.md`.

use crc32c::crc32c_append;

use super::super::embedded::deadline::Deadline;
use super::super::embedded::timeline::Marks;
use super::varint;
use crate::record::Key;

/// The size of a block's header, and of the copy that ends it.
pub(super) const EDGE: usize = 52;
/// A block is closed when it holds this much, so that no caller waits for too much of others.
pub(super) const BLOCK_BYTES: usize = 4 << 20;
const HEAD: &[u8; 4] = b"MFB1";
const TAIL: &[u8; 4] = b"MFE1";

/// More writes than anybody makes; a larger number is damage.
const MAX_SEQ: u64 = u64::MAX >> 1;

const DELETE: u8 = 1;
const NEVER: u8 = 1 << 1;
const ABSOLUTE: u8 = 1 << 2;
const GUARD: u8 = 1 << 3;
const GUARD_NEVER: u8 = 1 << 4;
const WRITTEN: u8 = 1 << 5;

/// One write of one key.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Frame<'a> {
    /// Its place in the order of all writes.
    pub(super) seq: u64,
    /// Whether the key is gone with this write; then there is no deadline and no value.
    pub(super) delete: bool,
    pub(super) deadline: Deadline,
    /// Until when (on both clocks; `u64::MAX` = always) this frame must stay on disk because it hides older
    /// ones of the same key that would still be alive. 0 = it hides none.
    pub(super) guard: u64,
    /// When it was written, on the line.
    pub(super) written: u64,
    pub(super) key: &'a [u8],
    pub(super) value: &'a [u8],
}

/// What every checksum of a segment starts from. It is random, so that no value can hold bytes that pass for
/// frames, should damage ever make a reader look for them there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Salt(pub(super) u32);

impl Salt {
    fn checksum(self, bytes: &[u8]) -> u32 {
        crc32c_append(self.0, bytes)
    }
}

/// What is said once per block: numbers in frames count from here.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Block {
    pub(super) salt: Salt,
    pub(super) body: u32,
    pub(super) frames: u32,
    /// The segment that the frames were moved from; 0 = they are new. It is unlinked only after this block was
    /// synced, so as long as it is there it has them too.
    pub(super) source: u32,
    pub(super) base_seq: u64,
    pub(super) base_time: u64,
    /// The latest times seen when the block was written.
    pub(super) marks: Marks,
}

/// Appends a block with all `frames`; returns the offset and length of each frame within what was appended.
pub(super) fn encode_block(
    buffer: &mut Vec<u8>,
    salt: Salt,
    source: u32,
    frames: &[Frame<'_>],
    marks: Marks,
) -> Vec<(u32, u32)> {
    let start = buffer.len();
    let times = frames.iter().flat_map(|frame| {
        let guard = Some(frame.guard).filter(|&guard| guard != 0 && guard != u64::MAX);
        let deadline = (!frame.delete && !frame.deadline.is_never()).then(|| frame.deadline.millis());
        guard.into_iter().chain(deadline)
    });
    let mut block = Block {
        salt,
        body: 0,
        frames: frames.len() as u32,
        source,
        base_seq: frames.iter().map(|frame| frame.seq).min().unwrap_or(0),
        base_time: times.min().unwrap_or(0),
        marks,
    };
    buffer.resize(start + EDGE, 0);
    let places = frames
        .iter()
        .map(|frame| {
            let at = buffer.len();
            encode_frame(buffer, frame, &block);
            ((at - start) as u32, (buffer.len() - at) as u32)
        })
        .collect();
    block.body = (buffer.len() - start - EDGE) as u32;
    buffer[start..start + EDGE].copy_from_slice(&encode_edge(&block, HEAD));
    buffer.extend_from_slice(&encode_edge(&block, TAIL));
    places
}

fn encode_edge(block: &Block, magic: &[u8; 4]) -> [u8; EDGE] {
    let mut edge = [0; EDGE];
    edge[0..4].copy_from_slice(magic);
    edge[4..8].copy_from_slice(&block.body.to_le_bytes());
    edge[8..16].copy_from_slice(&block.base_seq.to_le_bytes());
    edge[16..24].copy_from_slice(&block.base_time.to_le_bytes());
    edge[24..32].copy_from_slice(&block.marks.line.to_le_bytes());
    edge[32..40].copy_from_slice(&block.marks.wall.to_le_bytes());
    edge[40..44].copy_from_slice(&block.frames.to_le_bytes());
    edge[44..48].copy_from_slice(&block.source.to_le_bytes());
    let crc = block.salt.checksum(&edge[..48]);
    edge[48..].copy_from_slice(&crc.to_le_bytes());
    edge
}

fn decode_edge(bytes: &[u8], magic: &[u8; 4], salt: Salt) -> Option<Block> {
    let edge: &[u8; EDGE] = bytes.first_chunk()?;
    let long = |at: usize| u64::from_le_bytes(edge[at..at + 8].try_into().expect("eight bytes"));
    let short = |at: usize| u32::from_le_bytes(edge[at..at + 4].try_into().expect("four bytes"));
    (&edge[..4] == magic && short(48) == salt.checksum(&edge[..48])).then(|| Block {
        salt,
        body: short(4),
        frames: short(40),
        source: short(44),
        base_seq: long(8),
        base_time: long(16),
        marks: Marks { line: long(24), wall: long(32) },
    })
}

/// The block that begins here, if its header is sound.
pub(super) fn decode_head(bytes: &[u8], salt: Salt) -> Option<Block> {
    decode_edge(bytes, HEAD, salt)
}

/// The block that ends with the header copy that begins here.
pub(super) fn decode_tail(bytes: &[u8], salt: Salt) -> Option<Block> {
    decode_edge(bytes, TAIL, salt)
}

fn encode_frame(buffer: &mut Vec<u8>, frame: &Frame<'_>, block: &Block) {
    let at = buffer.len();
    let written = block.marks.line != frame.written;
    let mut kind = 0;
    kind |= if frame.delete { DELETE } else { 0 };
    kind |= if !frame.delete && frame.deadline.is_never() { NEVER } else { 0 };
    kind |= if !frame.delete && frame.deadline.is_absolute() { ABSOLUTE } else { 0 };
    kind |= if frame.guard != 0 { GUARD } else { 0 };
    kind |= if frame.guard == u64::MAX { GUARD_NEVER } else { 0 };
    kind |= if written { WRITTEN } else { 0 };
    let numbers = [
        Some(frame.seq - block.base_seq),
        (!frame.delete && !frame.deadline.is_never()).then(|| frame.deadline.millis() - block.base_time),
        (frame.guard != 0 && frame.guard != u64::MAX).then(|| frame.guard - block.base_time),
        written.then(|| block.marks.line.saturating_sub(frame.written)),
        Some(frame.key.len() as u64),
    ];
    let head: usize = 1 + numbers.iter().flatten().map(|&number| varint::len(number)).sum::<usize>();
    buffer.extend_from_slice(&[0; 4]);
    varint::put(buffer, (head + frame.key.len() + frame.value.len()) as u64);
    buffer.push(kind);
    numbers.into_iter().flatten().for_each(|number| varint::put(buffer, number));
    buffer.extend_from_slice(frame.key);
    buffer.extend_from_slice(frame.value);
    let crc = block.salt.checksum(&buffer[at + 4..]);
    buffer[at..at + 4].copy_from_slice(&crc.to_le_bytes());
}

/// The frame that begins here and its length, if it is whole and its checksum fits. Point reads know sequence
/// number and deadline from the index; of the block they only need the salt.
pub(super) fn decode_frame<'a>(bytes: &'a [u8], block: &Block) -> Option<(Frame<'a>, usize)> {
    let (crc, rest) = bytes.split_first_chunk::<4>()?;
    let mut after_len = rest;
    let body_len = usize::try_from(varint::take(&mut after_len)?).ok()?;
    let mut body = after_len.get(..body_len)?;
    let len = 4 + (rest.len() - after_len.len()) + body_len;
    if u32::from_le_bytes(*crc) != block.salt.checksum(&bytes[4..len]) {
        return None;
    }
    let (&kind, head) = body.split_first()?;
    body = head;
    let seq = block.base_seq.checked_add(varint::take(&mut body)?).filter(|&seq| seq <= MAX_SEQ)?;
    let deadline = match kind & (DELETE | NEVER | ABSOLUTE) {
        0 => Deadline::relative(time(block, &mut body)?),
        ABSOLUTE => Deadline::absolute(time(block, &mut body)?),
        _ => Deadline::NEVER,
    };
    let guard = match kind & (GUARD | GUARD_NEVER) {
        0 => 0,
        GUARD => time(block, &mut body)?,
        _ => u64::MAX,
    };
    let age = if kind & WRITTEN != 0 { varint::take(&mut body)? } else { 0 };
    let written = block.marks.line.saturating_sub(age);
    let key_len = usize::try_from(varint::take(&mut body)?).ok()?;
    let (key, value) = body.split_at_checked(key_len)?;
    if !Key::is_valid(key) {
        return None;
    }
    Some((Frame { seq, delete: kind & DELETE != 0, deadline, guard, written, key, value }, len))
}

/// A time counted from the block's base, within what a deadline can hold.
fn time(block: &Block, body: &mut &[u8]) -> Option<u64> {
    let time = block.base_time.checked_add(varint::take(body)?)?;
    (time <= super::super::embedded::deadline::MAX_MILLIS).then_some(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SALT: Salt = Salt(0x1234_5678);

    fn frames() -> Vec<Frame<'static>> {
        let put = Frame {
            seq: 7,
            delete: false,
            deadline: Deadline::relative(5_000),
            guard: 0,
            written: 1_000,
            key: b"\0\x01pkey",
            value: b"value",
        };
        vec![
            put,
            Frame { seq: 8, deadline: Deadline::NEVER, value: b"", ..put },
            Frame { seq: 9, deadline: Deadline::absolute(1_200), guard: 9_000, written: 900, ..put },
            Frame { seq: 10, delete: true, deadline: Deadline::NEVER, guard: u64::MAX, value: b"", ..put },
        ]
    }

    #[test]
    fn a_block_survives_the_round_trip() {
        let mut buffer = Vec::new();
        let marks = Marks { line: 1_000, wall: 2_000 };
        let places = encode_block(&mut buffer, SALT, 3, &frames(), marks);
        let block = decode_head(&buffer, SALT).unwrap();
        assert_eq!((block.frames, block.source, block.marks), (4, 3, marks));
        assert_eq!(decode_tail(&buffer[EDGE + block.body as usize..], SALT), Some(block));
        for (expected, (at, len)) in frames().iter().zip(places) {
            let (frame, read) = decode_frame(&buffer[at as usize..], &block).unwrap();
            assert_eq!((&frame, read), (expected, len as usize));
        }
    }

    #[test]
    fn a_flipped_bit_anywhere_in_a_frame_is_noticed() {
        let mut buffer = Vec::new();
        let places = encode_block(&mut buffer, SALT, 0, &frames()[..1], Marks { line: 1_000, wall: 0 });
        let block = decode_head(&buffer, SALT).unwrap();
        let (at, len) = places[0];
        for bit in at * 8..(at + len) * 8 {
            let mut damaged = buffer.clone();
            damaged[bit as usize / 8] ^= 1 << (bit % 8);
            assert_eq!(decode_frame(&damaged[at as usize..], &block), None, "bit {bit}");
        }
    }
}
