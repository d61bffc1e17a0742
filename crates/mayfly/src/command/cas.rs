//! `mayfly cas`: compares and swaps.

use clap::Args;

use super::put::deadline_of;
use super::{Address, Verdict};
use crate::content::{Content, Expected};
use crate::data::Data;
use crate::exit::{Exit, Misuse};
use crate::expiry::Lifetime;
use crate::screen::Screen;

/// Replace a record if its value is the expected one
///
/// Value and deadline are replaced together, in one step that nobody can get between. If the record is absent or has
/// another value, everything stays as it was and the command exits with 1. Writing the same value again renews a
/// lease.
#[derive(Debug, Args)]
#[command(override_usage = USAGE, after_help = EXAMPLES)]
pub(super) struct Cas {
    #[command(flatten)]
    address: Address,

    #[command(flatten)]
    content: Content,

    #[command(flatten)]
    expected: Expected,

    #[command(flatten)]
    lifetime: Lifetime,
}

const USAGE: &str = "mayfly cas [OPTIONS] <KEY> <VALUE|--file PATH> <--expect VALUE|--expect-file PATH> <--ttl TTL|--at WHEN|--never>";

const EXAMPLES: &str = "\
Examples:
  mayfly cas jobs/17 done --expect running --ttl 1d
  mayfly cas locks/report \"$HOSTNAME\" --expect \"$HOSTNAME\" --ttl 20s   renews a lease
  mayfly cas pages/home --expect-file old.html --file new.html --ttl 1h";

impl Cas {
    pub(super) async fn run(self, data: &Data, screen: &mut Screen) -> anyhow::Result<Exit> {
        if self.content.is_stdin() && self.expected.is_stdin() {
            return Err(Misuse::new("only one of the two values can come from standard input").into());
        }
        let (key, notation) = (self.address.key()?, self.address.notation());
        let Some(expected) = self.expected.read(notation)? else {
            return Err(Misuse::new("cas needs --expect or --expect-file").into());
        };
        let new = self.content.read(notation)?;
        let expiry = self.lifetime.expiry();
        let store = data.open()?;
        let swapped = store.compare_and_swap(&key, &expected, new, expiry).await?;
        let deadline = if swapped { Some(deadline_of(&*store, &key, expiry).await?) } else { None };
        store.close().await?;

        let key = notation.show_key(&key);
        let text = match &deadline {
            Some(deadline) => format!("{key} {deadline}"),
            None => format!("{key} is absent or has another value"),
        };
        screen.answer(swapped, &Verdict { ok: swapped, key, deadline }, text)
    }
}
