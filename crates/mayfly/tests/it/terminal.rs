//! What a person sees: `script` lends the binary a terminal.

use std::process::{Command, Stdio};

use crate::shell::Shell;

/// Runs a command line of the shell on a terminal of 80 columns.
fn on_terminal(shell: &Shell, line: &str, no_color: bool) -> String {
    let line = line.replace("mayfly", env!("CARGO_BIN_EXE_mayfly"));
    let mut command = Command::new("script");
    command.args(["--quiet", "--return", "--command", &line, "/dev/null"]).stdin(Stdio::null());
    command.env("MAYFLY_DATA", shell.data()).env("TERM", "xterm").env("TZ", "UTC").env("COLUMNS", "80");
    command.env_remove("NO_COLOR");
    if no_color {
        command.env("NO_COLOR", "1");
    }
    let output = command.output().expect("script, of util-linux, is installed");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn get_shows_the_deadline_below_the_value() {
    let shell = Shell::new();
    shell.ok(&["put", "a/b", "first\nsecond", "--ttl", "1h"]);
    let text = on_terminal(&shell, "mayfly get a/b", true);
    assert!(text.starts_with("first\r\nsecond\r\nexpires 20"), "{text:?}");
    shell.ok(&["put", "a/b", "\x1b]0;title\x07", "--never"]);
    assert_eq!(on_terminal(&shell, "mayfly get a/b", true), "\\x1b]0;title\\x07\r\nnever expires\r\n");
}

#[test]
fn a_listing_fits_the_width() {
    let shell = Shell::new();
    shell.ok(&["put", "a/b", &"long ".repeat(100), "--ttl", "1h"]);
    let text = on_terminal(&shell, "mayfly scan a", true);
    assert_eq!(text.trim_end().chars().count(), 80, "{text:?}");
    assert!(text.trim_end().ends_with('…'), "{text:?}");
}

#[test]
fn colours_are_for_terminals_that_want_them() {
    let shell = Shell::new();
    shell.ok(&["put", "a/b", "x", "--ttl", "1h"]);
    assert!(on_terminal(&shell, "mayfly stats", false).contains("\x1b[33m█"));
    for (line, no_color) in [
        ("mayfly stats", true),
        ("TERM=dumb mayfly stats", false),
        ("mayfly stats --json", false),
        ("mayfly stats | cat", false),
    ] {
        assert!(!on_terminal(&shell, line, no_color).contains('\x1b'), "{line}");
    }
}

#[test]
fn verify_draws_its_progress_on_a_terminal_only() {
    let shell = Shell::new();
    shell.ok(&["put", "a/b", "x", "--ttl", "1h"]);
    let seen = on_terminal(&shell, "mayfly verify", false);
    assert!(seen.contains('█') && seen.trim_end().ends_with(": no damage"), "{seen:?}");
    assert_eq!(shell.ok(&["verify"]).errors, "");
    let json = on_terminal(&shell, "mayfly verify --json", false);
    assert!(json.starts_with('{') && json.trim_end().ends_with('}'), "{json:?}");
}
