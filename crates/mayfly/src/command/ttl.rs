//! `mayfly ttl`: how long a record still lives.

use clap::Args;
use mayfly_store::{Timestamp, TtlState};

use super::{Address, Verdict};
use crate::data::{self, Data};
use crate::exit::Exit;
use crate::expiry::Deadline;
use crate::screen::Screen;

/// Tell how long a record still lives
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct QueryTtl {
    #[command(flatten)]
    address: Address,
}

const EXAMPLES: &str = "\
Examples:
  mayfly ttl sessions/alice
  mayfly ttl sessions/alice --json     \"left_ms\" and \"expires_at\" are null if it never expires

Exits with 1 if there is no live record. Times are rounded up to seconds: what lives never
shows 0s.";

impl QueryTtl {
    pub(super) async fn run(self, data: &Data, screen: &mut Screen) -> anyhow::Result<Exit> {
        let key = self.address.key()?;
        let store = data.open()?;
        let state = store.query_ttl(&key).await?;
        let now = data::now();
        store.close().await?;

        let key = self.address.notation().show_key(&key);
        let deadline = match state {
            TtlState::Absent => None,
            TtlState::Forever => Some(Deadline::new(None, now)),
            TtlState::Left(left) => {
                let expires_at = now.as_millis().saturating_add(left.as_millis());
                Some(Deadline::new(Some(Timestamp::from_millis(expires_at)), now))
            }
        };
        let text = match &deadline {
            Some(deadline) => format!("{key} {deadline}"),
            None => format!("no live record at {key}"),
        };
        let lives = deadline.is_some();
        screen.answer(lives, &Verdict { ok: lives, key, deadline }, text)
    }
}
