//! `mayfly get`: reads a record.

use clap::Args;
use mayfly_store::Value;
use serde::Serialize;

use super::{Address, Verdict};
use crate::address::{Notation, to_hex};
use crate::data::{self, Data};
use crate::exit::Exit;
use crate::expiry::Deadline;
use crate::screen::{Screen, Style};

/// Read a record
///
/// Into a pipe or file the value goes byte by byte as it was written, with nothing added. On a terminal it is shown
/// with escapes where bytes are not text, and its deadline below it.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Get {
    #[command(flatten)]
    address: Address,
}

const EXAMPLES: &str = "\
Examples:
  mayfly get sessions/alice
  mayfly get pages/home > home.html
  mayfly get sessions/alice --json

Exits with 1 if there is no live record. JSON has the value as \"value\" if it is UTF-8 and
otherwise, or with --hex, as \"value_hex\".";

/// A record as JSON, also one line of `scan`.
#[derive(Serialize)]
pub(super) struct Report {
    ok: bool,
    key: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value_hex: Option<String>,
    #[serde(flatten)]
    deadline: Deadline,
}

impl Report {
    pub(super) fn new(key: String, value: &Value, deadline: Deadline, notation: Notation) -> Self {
        let text = std::str::from_utf8(value).ok().filter(|_| notation == Notation::Text).map(str::to_owned);
        let value_hex = text.is_none().then(|| to_hex(value));
        Self { ok: true, key, value: text, value_hex, deadline }
    }
}

impl Get {
    pub(super) async fn run(self, data: &Data, screen: &mut Screen) -> anyhow::Result<Exit> {
        let (key, notation) = (self.address.key()?, self.address.notation());
        let store = data.open()?;
        let entry = store.get(&key).await?;
        let now = data::now();
        store.close().await?;

        let shown = notation.show_key(&key);
        let Some(entry) = entry else {
            let text = format!("no live record at {shown}");
            return screen.answer(false, &Verdict { ok: false, key: shown, deadline: None }, text);
        };
        let deadline = Deadline::new(entry.expires_at, now);
        if screen.is_for_people() || screen.is_json() || notation == Notation::Hex {
            let report = Report::new(shown, &entry.value, deadline.clone(), notation);
            screen.say(&report, notation.show_value(&entry.value))?;
        } else {
            screen.raw(&entry.value)?;
        }
        if screen.is_for_people() {
            let aside = screen.paint(Style::Aside, deadline).to_string();
            screen.say(&(), aside)?;
        }
        Ok(Exit::Success)
    }
}
