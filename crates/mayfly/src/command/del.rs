//! `mayfly del`: deletes a record.

use clap::Args;
use mayfly_store::StoreExt;

use super::{Address, Verdict};
use crate::content::Expected;
use crate::data::Data;
use crate::exit::Exit;
use crate::screen::Screen;

/// Delete a record
///
/// With --expect only if it has exactly that value, in one step that nobody can get between.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Del {
    #[command(flatten)]
    address: Address,

    #[command(flatten)]
    expected: Expected,
}

const EXAMPLES: &str = "\
Examples:
  mayfly del sessions/alice
  mayfly del locks/report --expect \"$HOSTNAME\"     gives a lock back, but only one's own

Exits with 1 if there was nothing to delete.";

impl Del {
    pub(super) async fn run(self, data: &Data, screen: &mut Screen) -> anyhow::Result<Exit> {
        let (key, notation) = (self.address.key()?, self.address.notation());
        let expected = self.expected.read(notation)?;
        let store = data.open()?;
        let deleted = match &expected {
            Some(expected) => store.compare_and_delete(&key, expected).await?,
            None => store.delete(&key).await?,
        };
        store.close().await?;

        let key = notation.show_key(&key);
        let text = match (deleted, &expected) {
            (true, _) => format!("{key} deleted"),
            (false, None) => format!("no live record at {key}"),
            (false, Some(_)) => format!("{key} is absent or has another value"),
        };
        screen.answer(deleted, &Verdict { ok: deleted, key, deadline: None }, text)
    }
}
