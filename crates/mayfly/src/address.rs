//! How keys and other bytes are written on the command line, and back: what is printed can be typed again.
//!
//! A key is `partition/sort`, cut at the first slash; without a slash the sort columns are empty. Bytes that
//! cannot be typed are written `\xNN`, a slash inside a partition `\x2f`. With `--hex` all of it is hexadecimal.

use std::ffi::OsStr;
use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;

use mayfly_store::Key;

use crate::exit::Misuse;

/// How bytes are written: as text with escapes, or in hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Notation {
    Text,
    Hex,
}

impl Notation {
    /// Reads a key.
    pub(crate) fn key(self, text: &OsStr) -> anyhow::Result<Key> {
        let text = text.as_bytes();
        let (partition, sort) = match text.iter().position(|byte| *byte == b'/') {
            Some(slash) => (&text[..slash], &text[slash + 1..]),
            None => (text, &[][..]),
        };
        Ok(Key::new(self.decode(partition)?, self.decode(sort)?)?)
    }

    /// Reads a partition that stands alone.
    pub(crate) fn partition(self, text: &OsStr) -> anyhow::Result<Vec<u8>> {
        if text.as_bytes().contains(&b'/') {
            let message =
                "a partition has no slash: write --prefix for what follows it, or \\x2f for the slash itself";
            return Err(Misuse::new(message).into());
        }
        self.bytes(text)
    }

    /// Reads sort columns or a part of them.
    pub(crate) fn bytes(self, text: &OsStr) -> anyhow::Result<Vec<u8>> {
        self.decode(text.as_bytes())
    }

    /// Writes a key the way [`key`](Self::key) reads it.
    pub(crate) fn show_key(self, key: &Key) -> String {
        match self {
            Self::Text => format!("{}/{}", escape(key.partition(), true), escape(key.sort(), false)),
            Self::Hex => format!("{}/{}", to_hex(key.partition()), to_hex(key.sort())),
        }
    }

    /// Writes a value on one line.
    pub(crate) fn show(self, bytes: &[u8]) -> String {
        match self {
            Self::Text => escape(bytes, false),
            Self::Hex => to_hex(bytes),
        }
    }

    /// Writes a value the way it looks best: text with its lines as they are, everything else on one line.
    pub(crate) fn show_value(self, bytes: &[u8]) -> String {
        let plain = |text: &&str| text.chars().all(|letter| is_safe(letter) || matches!(letter, '\n' | '\t'));
        match std::str::from_utf8(bytes).ok().filter(plain) {
            Some(text) if self == Self::Text => text.to_owned(),
            _ => self.show(bytes),
        }
    }

    fn decode(self, text: &[u8]) -> anyhow::Result<Vec<u8>> {
        match self {
            Self::Text => unescape(text),
            Self::Hex => from_hex(text),
        }
    }
}

fn unescape(text: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        if first != b'\\' {
            bytes.push(first);
            continue;
        }
        let (byte, length) = match rest {
            [b'x', digits @ ..] if digits.len() >= 2 => (from_hex(&digits[..2])?[0], 3),
            [b'\\', ..] => (b'\\', 1),
            [b'n', ..] => (b'\n', 1),
            [b'r', ..] => (b'\r', 1),
            [b't', ..] => (b'\t', 1),
            _ => return Err(bad_escape(text).into()),
        };
        bytes.push(byte);
        rest = &rest[length..];
    }
    Ok(bytes)
}

fn bad_escape(text: &[u8]) -> Misuse {
    Misuse::new(format!(
        "\"{}\" has a backslash that begins no escape: write \\xNN, \\n, \\r, \\t, or \\\\ for the backslash itself",
        text.escape_ascii()
    ))
}

fn escape(bytes: &[u8], with_slash: bool) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for letter in chunk.valid().chars() {
            match letter {
                '\\' => text.push_str("\\\\"),
                '\n' => text.push_str("\\n"),
                '\r' => text.push_str("\\r"),
                '\t' => text.push_str("\\t"),
                letter if is_safe(letter) && !(with_slash && letter == '/') => text.push(letter),
                letter => push_escaped(&mut text, letter.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        push_escaped(&mut text, chunk.invalid());
    }
    text
}

/// Whether a terminal shows the letter as it is. Control letters move the cursor, and letters without a width
/// or of changing direction make one key look like another.
fn is_safe(letter: char) -> bool {
    !letter.is_control()
        && !matches!(letter, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

fn push_escaped(text: &mut String, bytes: &[u8]) {
    for byte in bytes {
        write!(text, "\\x{byte:02x}").expect("a String takes everything");
    }
}

/// Two lower-case digits a byte.
pub(crate) fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a String takes everything");
        text
    })
}

/// The bytes of an even number of hexadecimal digits.
pub(crate) fn from_hex(text: &[u8]) -> anyhow::Result<Vec<u8>> {
    let digit = |byte: u8| (byte as char).to_digit(16).map(|digit| digit as u8);
    let pairs = text.chunks(2).map(|pair| match pair {
        [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
        _ => None,
    });
    pairs.collect::<Option<Vec<u8>>>().ok_or_else(|| {
        let message = format!("\"{}\" is not a row of pairs of hexadecimal digits", text.escape_ascii());
        Misuse::new(message).into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(notation: Notation, text: &[u8], partition: &[u8], sort: &[u8]) {
        let key = notation.key(OsStr::from_bytes(text)).unwrap();
        assert_eq!((key.partition(), key.sort()), (partition, sort));
    }

    #[test]
    fn a_key_is_cut_at_its_first_slash() {
        check(Notation::Text, b"sessions/alice", b"sessions", b"alice");
        check(Notation::Text, b"sessions/a/b", b"sessions", b"a/b");
        check(Notation::Text, b"sessions/", b"sessions", b"");
        check(Notation::Text, b"sessions", b"sessions", b"");
        check(Notation::Text, br"a\x2fb\\/\x00\xfF\n", b"a/b\\", b"\0\xff\n");
        check(Notation::Text, b"\xff/\xfe", b"\xff", b"\xfe");
        check(Notation::Hex, b"00000004/0aFF", b"\0\0\0\x04", b"\x0a\xff");
    }

    #[test]
    fn a_key_that_is_no_key_is_misuse() {
        for (notation, text) in [
            (Notation::Text, r"a\q"),
            (Notation::Text, r"a\"),
            (Notation::Text, r"a\x1"),
            (Notation::Text, r"a\xg0"),
            (Notation::Hex, "abc"),
            (Notation::Hex, "zz"),
            (Notation::Hex, "+1"),
        ] {
            let error = notation.key(OsStr::new(text)).unwrap_err();
            assert!(error.is::<Misuse>(), "{text}: {error}");
        }
    }

    #[test]
    fn text_is_shown_in_lines_and_what_could_move_the_cursor_is_not() {
        assert_eq!(Notation::Text.show_value(b"a\\b\n\tc"), "a\\b\n\tc");
        assert_eq!(Notation::Text.show_value(b"a\n\x1b[2J"), r"a\n\x1b[2J");
        assert_eq!(Notation::Text.show_value(b"a\xff"), r"a\xff");
        assert_eq!(Notation::Hex.show_value(b"a\n"), "610a");
    }

    #[test]
    fn what_is_printed_can_be_typed_again() {
        for partition in [&b"plain"[..], b"with/slash", b"\0\xff\\", "Grüße/\u{202e}".as_bytes(), b"\x1b[31m"]
        {
            for sort in [&b""[..], b"/", b"\n\t\r", b"\xc3", "日本".as_bytes()] {
                let key = Key::new(partition, sort).unwrap();
                for notation in [Notation::Text, Notation::Hex] {
                    let text = notation.show_key(&key);
                    assert_eq!(notation.key(OsStr::new(&text)).unwrap(), key, "{text}");
                    assert!(!text.chars().any(char::is_control), "{text:?}");
                }
            }
        }
    }
}
