//! Where values come from: an argument, standard input or a file, and never more than a record can hold.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use mayfly_store::{MAX_VALUE, Value};

use crate::address::{Notation, from_hex};
use crate::exit::Misuse;

/// The value to write.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Content {
    /// The value, at most 262,144 bytes; `-` reads it from standard input
    #[arg(allow_negative_numbers = true)]
    value: Option<OsString>,

    /// Read the value from a file
    #[arg(long, value_name = "PATH")]
    file: Option<PathBuf>,
}

/// The value that must be there.
#[derive(Debug, Args)]
#[group(multiple = false)]
pub(crate) struct Expected {
    /// Only if the record lives and has exactly this value; `-` reads it from standard input
    #[arg(long, value_name = "VALUE", allow_negative_numbers = true)]
    expect: Option<OsString>,

    /// The same, with the expected value in a file
    #[arg(long, value_name = "PATH")]
    expect_file: Option<PathBuf>,
}

impl Content {
    pub(crate) fn read(&self, notation: Notation) -> anyhow::Result<Value> {
        let value = read(self.value.as_deref(), self.file.as_deref(), notation)?;
        value.ok_or_else(|| Misuse::new("a value is missing").into())
    }

    /// Whether standard input is needed for it.
    pub(crate) fn is_stdin(&self) -> bool {
        self.value.as_deref() == Some(OsStr::new("-"))
    }
}

impl Expected {
    /// None if nothing is expected.
    pub(crate) fn read(&self, notation: Notation) -> anyhow::Result<Option<Value>> {
        read(self.expect.as_deref(), self.expect_file.as_deref(), notation)
    }

    /// Whether standard input is needed for it.
    pub(crate) fn is_stdin(&self) -> bool {
        self.expect.as_deref() == Some(OsStr::new("-"))
    }
}

/// An argument is taken as it stands, or as hexadecimal digits; files and standard input are always raw bytes.
fn read(text: Option<&OsStr>, file: Option<&Path>, notation: Notation) -> anyhow::Result<Option<Value>> {
    let value = match (text, file) {
        (_, Some(path)) => {
            let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
            at_most_a_value(file, &path.display().to_string())?
        }
        (Some(text), None) if text == "-" => at_most_a_value(io::stdin().lock(), "standard input")?,
        (Some(text), None) if notation == Notation::Hex => Value::new(from_hex(text.as_bytes())?)?,
        (Some(text), None) => Value::new(text.as_bytes().to_vec())?,
        (None, None) => return Ok(None),
    };
    Ok(Some(value))
}

/// Stops reading one byte beyond the limit, so that an endless input is refused and not collected.
fn at_most_a_value(input: impl Read, name: &str) -> anyhow::Result<Value> {
    let mut bytes = Vec::new();
    input
        .take(MAX_VALUE as u64 + 1)
        .read_to_end(&mut bytes)
        .with_context(|| format!("cannot read {name}"))?;
    if bytes.len() > MAX_VALUE {
        let message = format!("{name} has more than {MAX_VALUE} bytes, the most that a value can have");
        return Err(Misuse::new(message).into());
    }
    Ok(Value::new(bytes)?)
}
