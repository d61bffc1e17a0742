//! Walking over the bytes of a segment: every sound frame, every damaged place, and where a torn tail begins.
//!
//! Pure: it neither reads files nor repairs them.

use super::frame::{Block, EDGE, Frame, Salt, decode_frame, decode_head, decode_tail};

/// What a walk meets.
#[derive(Debug)]
pub(super) enum Finding<'a> {
    /// A sound frame at this offset, of this length.
    Frame { frame: Frame<'a>, block: Block, offset: usize, len: usize },
    /// Bytes that make no sense although sound ones follow, or although nothing was being written there.
    Damage { offset: usize, len: usize, reason: &'static str },
    /// From here to the end lies a block whose writing did not finish: it was never acknowledged. If it has all
    /// its bytes, or nothing tells how many it should have, it might also be an acknowledged one with damage.
    TornTail { offset: usize, doubtful: bool },
}

/// Whether the writing of the last block may have been cut off; it is asked with the block if that can be told.
pub(super) type MayBeTorn<'a> = &'a dyn Fn(Option<&Block>) -> bool;

/// For files to which nothing was being written.
pub(super) const FINISHED: MayBeTorn<'static> = &|_| false;

/// Walks over the blocks of `content`, which begin at `start`.
pub(super) fn walk<'a>(
    content: &'a [u8],
    start: usize,
    salt: Salt,
    may_be_torn: MayBeTorn<'_>,
    mut found: impl FnMut(Finding<'a>),
) {
    let mut at = start;
    while at < content.len() {
        at = match decode_head(&content[at..], salt) {
            Some(block) => walk_block(content, at, &block, may_be_torn, &mut found),
            None => walk_without_head(content, at, salt, may_be_torn, &mut found),
        };
    }
}

/// A block with a sound header. Returns where the next one begins.
fn walk_block<'a>(
    content: &'a [u8],
    at: usize,
    block: &Block,
    may_be_torn: MayBeTorn<'_>,
    found: &mut impl FnMut(Finding<'a>),
) -> usize {
    let end = at + EDGE + block.body as usize;
    let next = end + EDGE;
    let (last, cut) = (next >= content.len(), next > content.len());
    if last && (cut || !is_whole(content, at, block)) && may_be_torn(Some(block)) {
        found(Finding::TornTail { offset: at, doubtful: !cut });
        return content.len();
    }
    walk_frames(content, at + EDGE, end.min(content.len()), block, found);
    if content.get(end..).and_then(|tail| decode_tail(tail, block.salt)).is_none() {
        let offset = end.min(content.len());
        let len = next.min(content.len()) - offset;
        found(Finding::Damage { offset, len, reason: "the end of a block is damaged or cut off" });
    }
    next.min(content.len())
}

/// Whether all frames of a block are there and sound.
fn is_whole(content: &[u8], at: usize, block: &Block) -> bool {
    let Some(mut body) = content.get(at + EDGE..at + EDGE + block.body as usize) else { return false };
    for _ in 0..block.frames {
        let Some((_, len)) = decode_frame(body, block) else { return false };
        body = &body[len..];
    }
    body.is_empty()
}

fn walk_frames<'a>(
    content: &'a [u8],
    mut at: usize,
    end: usize,
    block: &Block,
    found: &mut impl FnMut(Finding<'a>),
) {
    while at < end {
        if let Some((frame, len)) = decode_frame(&content[at..end], block) {
            found(Finding::Frame { frame, block: *block, offset: at, len });
            at += len;
            continue;
        }
        let sound = (at + 1..end).find(|&next| decode_frame(&content[next..end], block).is_some());
        let resume = sound.unwrap_or(end);
        found(Finding::Damage {
            offset: at,
            len: resume - at,
            reason: "a frame does not match its checksum",
        });
        at = resume;
    }
}

/// No header here: take it from the copy at the block's end, else go on at the next block.
fn walk_without_head<'a>(
    content: &'a [u8],
    at: usize,
    salt: Salt,
    may_be_torn: MayBeTorn<'_>,
    found: &mut impl FnMut(Finding<'a>),
) -> usize {
    for next in at + 1..content.len() {
        if decode_head(&content[next..], salt).is_some() {
            found(Finding::Damage { offset: at, len: next - at, reason: "a block is damaged" });
            return next;
        }
        let tail =
            decode_tail(&content[next..], salt).filter(|block| next == at + EDGE + block.body as usize);
        if let Some(block) = tail {
            let last = next + EDGE >= content.len();
            if last && !is_whole(content, at, &block) && may_be_torn(Some(&block)) {
                found(Finding::TornTail { offset: at, doubtful: true });
                return content.len();
            }
            found(Finding::Damage { offset: at, len: EDGE, reason: "the header of a block is damaged" });
            walk_frames(content, at + EDGE, next, &block, found);
            return next + EDGE;
        }
    }
    let len = content.len() - at;
    found(match may_be_torn(None) {
        true => Finding::TornTail { offset: at, doubtful: len >= EDGE },
        false => Finding::Damage { offset: at, len, reason: "the last block is damaged" },
    });
    content.len()
}
