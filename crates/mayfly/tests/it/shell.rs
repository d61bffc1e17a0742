//! A data directory of its own and the binary to use it with.

use std::ffi::OsStr;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use mayfly_store::{Expiry, FileOptions, FileStore, Key, Put, Store, SystemClock, Value};
use serde_json::Value as Json;
use tempfile::TempDir;

pub(crate) struct Shell {
    dir: TempDir,
}

/// What a command printed, and its exit code.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: i32,
    pub(crate) bytes: Vec<u8>,
    pub(crate) errors: String,
}

impl Shell {
    pub(crate) fn new() -> Self {
        Self { dir: TempDir::new().unwrap() }
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// The command, ready to run: the data directory is set, and the surroundings are the same everywhere.
    pub(crate) fn command(&self, arguments: &[impl AsRef<OsStr>]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mayfly"));
        command.args(arguments).current_dir(self.dir.path()).stdin(Stdio::null());
        command.env("MAYFLY_DATA", self.data()).env("TZ", "UTC").env_remove("COLUMNS").env_remove("NO_COLOR");
        command
    }

    pub(crate) fn run(&self, arguments: &[impl AsRef<OsStr>]) -> Answer {
        self.command(arguments).output().unwrap().into()
    }

    /// The same, with something on standard input.
    pub(crate) fn feed(&self, arguments: &[impl AsRef<OsStr>], input: &[u8]) -> Answer {
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // The command may refuse before it has read everything.
        let _ = child.stdin.take().unwrap().write_all(input);
        child.wait_with_output().unwrap().into()
    }

    /// Runs a command that must end well.
    pub(crate) fn ok(&self, arguments: &[impl AsRef<OsStr>]) -> Answer {
        let answer = self.run(arguments);
        assert_eq!((answer.code, answer.errors.as_str()), (0, ""), "{answer:?}");
        answer
    }

    /// Runs a command with `--json` and gives its one line and its code.
    pub(crate) fn json(&self, arguments: &[&str]) -> (Json, i32) {
        let answer = self.run(&[arguments, &["--json"]].concat());
        assert_eq!(answer.text().lines().count(), 1, "{answer:?}");
        (serde_json::from_str(&answer.text()).unwrap(), answer.code)
    }

    /// Opens the same directory in this process.
    pub(crate) fn open(&self) -> FileStore {
        FileStore::open(self.data(), FileOptions::default(), Arc::new(SystemClock)).unwrap()
    }

    /// Writes `number` records `partition/00000000…` and closes the store.
    pub(crate) async fn fill(&self, partition: &str, number: usize, value: &[u8], expiry: Expiry) {
        let store = self.open();
        let put = |number| Put {
            key: Key::new(partition, format!("{number:08}")).unwrap(),
            value: Value::new(value.to_vec()).unwrap(),
            expiry,
        };
        // A batch is one unit on disk, so a single one would not look like what a store usually holds.
        for first in (0..number).step_by(10) {
            store.put_batch((first..number.min(first + 10)).map(put).collect()).await.unwrap();
        }
        store.close().await.unwrap();
    }
}

impl Answer {
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.bytes.clone()).unwrap()
    }
}

impl From<Output> for Answer {
    fn from(output: Output) -> Self {
        let errors = String::from_utf8(output.stderr).unwrap();
        Self { code: output.status.code().expect("no signal ends a command"), bytes: output.stdout, errors }
    }
}
