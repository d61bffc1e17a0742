//! `mayfly put`: writes a record, whatever was there or only where nothing was.

use clap::Args;
use mayfly_store::{Expiry, Key, Store, StoreExt};

use super::{Address, Verdict};
use crate::content::Content;
use crate::data::{self, Data};
use crate::exit::Exit;
use crate::expiry::{Deadline, Lifetime};
use crate::screen::Screen;

/// Write a record
///
/// Replaces value and deadline of what is there, unless --if-absent is given. One of --ttl, --at and --never must
/// be given, so that nothing lives for ever by accident. When the command ends well, the record is on disk.
#[derive(Debug, Args)]
#[command(override_usage = USAGE, after_help = EXAMPLES)]
pub(super) struct Put {
    #[command(flatten)]
    address: Address,

    #[command(flatten)]
    content: Content,

    #[command(flatten)]
    lifetime: Lifetime,

    /// Only if there is no live record; otherwise leave it as it is and exit with 1
    #[arg(long)]
    if_absent: bool,
}

const USAGE: &str = "mayfly put [OPTIONS] <KEY> <VALUE|--file PATH> <--ttl TTL|--at WHEN|--never>";

const EXAMPLES: &str = "\
Examples:
  mayfly put sessions/alice 'logged in' --ttl 15m
  mayfly put locks/report \"$HOSTNAME\" --ttl 20s --if-absent && make-report
  mayfly put offers/winter '20 %' --at 2027-02-01T00:00:00+01:00
  date | mayfly put seen/backup - --ttl 1d
  mayfly put pages/home --file home.html --ttl 1h30m
  mayfly put --hex 00000004/ff00 cafe --ttl 900
  mayfly put settings/theme dark --never

Keys are partition/sort, cut at the first slash; the sort part may be empty or missing.
Records of a partition are ordered by it. Write \\xNN for a byte that cannot be typed,
\\x2f for a slash in a partition, \\\\ for a backslash. A partition has 1 to 1,024 bytes,
a sort part 0 to 1,024, a value 0 to 262,144.

A ttl counts seconds (900), or has units w d h m s ms from long to short (1h30m, 250ms), or
is ISO 8601 (PT15M). It is at least 1 ms and at most 100 years; one that cannot be kept
exactly is refused.";

impl Put {
    pub(super) async fn run(self, data: &Data, screen: &mut Screen) -> anyhow::Result<Exit> {
        let (key, value) = (self.address.key()?, self.content.read(self.address.notation())?);
        let expiry = self.lifetime.expiry();
        let store = data.create()?;
        let written = if self.if_absent {
            store.insert_if_not_exists(&key, value, expiry).await?
        } else {
            store.put(&key, value, expiry).await?;
            true
        };
        let deadline = if written { Some(deadline_of(&*store, &key, expiry).await?) } else { None };
        store.close().await?;

        let shown = self.address.notation().show_key(&key);
        let text = match &deadline {
            Some(deadline) => format!("{shown} {deadline}"),
            None => format!("{shown} lives already and stays as it is"),
        };
        screen.answer(written, &Verdict { ok: written, key: shown, deadline }, text)
    }
}

/// The deadline that the store gave to what was just written.
pub(super) async fn deadline_of(store: &dyn Store, key: &Key, expiry: Expiry) -> anyhow::Result<Deadline> {
    let now = data::now();
    let expires_at = match (expiry, store.get(key).await?) {
        (Expiry::Never, _) => None,
        (Expiry::At(at), _) => Some(at),
        (Expiry::After(_), Some(entry)) => entry.expires_at,
        // It was so short-lived that it is gone.
        (Expiry::After(_), None) => Some(now),
    };
    Ok(Deadline::new(expires_at, now))
}
