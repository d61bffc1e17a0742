//! Numbers in as few bytes as they need: seven bits a byte, the lowest first.

/// Appends a number.
pub(super) fn put(buffer: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        buffer.push(number as u8 | 0x80);
        number >>= 7;
    }
    buffer.push(number as u8);
}

/// How many bytes a number takes.
pub(super) fn len(number: u64) -> usize {
    (64 - (number | 1).leading_zeros() as usize).div_ceil(7)
}

/// Takes a number off the front; none if it is cut short or does not fit.
pub(super) fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let bits = u64::from(byte & 0x7f);
        if bits << shift >> shift != bits {
            return None;
        }
        number |= bits << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_width_survives_the_round_trip() {
        for number in (0..64).flat_map(|bit| [1u64 << bit, (1 << bit) - 1]).chain([u64::MAX]) {
            let mut buffer = Vec::new();
            put(&mut buffer, number);
            assert_eq!(take(&mut &buffer[..]), Some(number));
            assert_eq!(len(number), buffer.len());
            assert_eq!(take(&mut &buffer[..buffer.len() - 1]), None, "cut short: {number}");
        }
    }

    #[test]
    fn a_number_that_does_not_fit_is_refused() {
        assert_eq!(take(&mut &[0xff; 11][..]), None);
        assert_eq!(take(&mut &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2][..]), None);
    }
}
