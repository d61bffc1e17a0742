//! The lower bound of a leaf: short keys lie inline, so that a search compares without following pointers.

use std::cmp::Ordering;

const INLINE: usize = 30;

#[derive(Debug, Clone)]
pub(super) enum Separator {
    Inline(u8, [u8; INLINE]),
    Heap(Box<[u8]>),
}

impl Separator {
    pub(super) fn new(key: &[u8]) -> Self {
        if key.len() > INLINE {
            return Self::Heap(key.into());
        }
        let mut inline = [0; INLINE];
        inline[..key.len()].copy_from_slice(key);
        Self::Inline(key.len() as u8, inline)
    }
}

impl std::borrow::Borrow<[u8]> for Separator {
    fn borrow(&self) -> &[u8] {
        match self {
            Self::Inline(len, bytes) => &bytes[..*len as usize],
            Self::Heap(bytes) => bytes,
        }
    }
}

impl PartialEq for Separator {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Separator {}

impl PartialOrd for Separator {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Separator {
    fn cmp(&self, other: &Self) -> Ordering {
        let (a, b): (&[u8], &[u8]) = (std::borrow::Borrow::borrow(self), std::borrow::Borrow::borrow(other));
        a.cmp(b)
    }
}
