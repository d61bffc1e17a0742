//! `mayfly ttl`: how long a record still lives.

use clap::Args;
use mayfly_store::{Store, Timestamp, TtlState};
use serde::Serialize;

use super::Address;
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

#[derive(Serialize)]
struct Report {
    ok: bool,
    key: String,
    #[serde(flatten)]
    deadline: Option<Deadline>,
}

impl QueryTtl {
    pub(super) async fn run(self, data: &Data, screen: &mut Screen) -> anyhow::Result<Exit> {
        let key = self.address.key()?;
        let store = data.open()?;
        let state = store.query_ttl(&key).await?;
        let now = data::now();
        store.close().await?;

        let key = self.address.notation().show_key(&key);
        let deadline = match state {
            TtlState::Absent => {
                let text = format!("no live record at {key}");
                screen.say_no(&Report { ok: false, key, deadline: None }, text)?;
                return Ok(Exit::Condition);
            }
            TtlState::Forever => Deadline::new(None, now),
            TtlState::Left(left) => {
                let expires_at = now.as_millis().saturating_add(left.as_millis());
                Deadline::new(Some(Timestamp::from_millis(expires_at)), now)
            }
        };
        let text = format!("{key} {deadline}");
        screen.say(&Report { ok: true, key, deadline: Some(deadline) }, text)?;
        Ok(Exit::Success)
    }
}
