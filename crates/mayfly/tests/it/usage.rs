//! Wrong usage is exit code 2 with a reason, and changes nothing; help teaches.

use crate::shell::Shell;

fn check_refused(arguments: &[&str], reason: &str) {
    let shell = Shell::new();
    let answer = shell.run(arguments);
    assert_eq!((answer.code, answer.text().as_str()), (2, ""), "{arguments:?}: {answer:?}");
    assert!(answer.errors.contains(reason), "{arguments:?}: {answer:?}");
    assert!(!shell.data().exists(), "{arguments:?} made a directory");
}

#[test]
fn a_ttl_that_cannot_be_kept_is_refused() {
    for (ttl, reason) in [
        ("0", "at least 1 ms"),
        ("0s", "at least 1 ms"),
        ("36526d", "at most 100 years"),
        ("99999999999999999999", "100 years"),
        ("15x", "units"),
        ("1.5h", "whole number"),
        ("1M", "units"),
        ("P1Y", "ISO 8601"),
        ("", "empty"),
    ] {
        check_refused(&["put", "a/b", "x", "--ttl", ttl], reason);
    }
    check_refused(&["put", "a/b", "x", "--ttl=-5"], "units");
}

#[test]
fn an_expiry_must_be_spelled_out_and_only_once() {
    check_refused(&["put", "a/b", "x"], "--ttl");
    check_refused(&["put", "a/b", "x", "--ttl", "1m", "--never"], "cannot be used with");
    check_refused(&["put", "a/b", "x", "--at", "tomorrow"], "zone");
    check_refused(&["put", "a/b", "x", "--at", "2026-12-31T23:59:59"], "zone");
    check_refused(&["cas", "a/b", "x", "--expect", "y"], "--ttl");
}

#[test]
fn a_deadline_that_has_passed_is_refused() {
    let shell = Shell::new();
    for when in ["2020-01-01T00:00:00Z", "@1000", "2999-01-01T00:00:00Z"] {
        let answer = shell.run(&["put", "a/b", "x", "--at", when]);
        assert_eq!(answer.code, 2, "{answer:?}");
        assert_eq!(shell.run(&["get", "a/b"]).code, 1);
    }
}

#[test]
fn a_key_or_value_that_is_none_is_refused() {
    let long = "x".repeat(1025);
    check_refused(&["put", "", "x", "--never"], "partition is empty");
    check_refused(&["put", "/b", "x", "--never"], "partition is empty");
    check_refused(&["put", &long, "x", "--never"], "1024");
    check_refused(&["put", &format!("a/{long}"), "x", "--never"], "1024");
    check_refused(&["put", r"a\q", "x", "--never"], "escape");
    check_refused(&["put", "--hex", "abc", "00", "--never"], "hexadecimal");
    check_refused(&["put", "--hex", "ab", "0", "--never"], "hexadecimal");
    check_refused(&["put", "a/b", "--never"], "VALUE");
    check_refused(&["put", "a/b", "x", "--file", "f", "--never"], "cannot be used with");
    check_refused(&["cas", "a/b", "x", "--never"], "--expect");
}

#[test]
fn an_unknown_command_is_refused() {
    check_refused(&["putt", "a/b"], "putt");
    check_refused(&[], "Usage");
}

#[test]
fn a_file_that_cannot_be_read_is_exit_code_3() {
    let answer = Shell::new().run(&["put", "a/b", "--file", "nowhere", "--never"]);
    assert_eq!(answer.code, 3);
    assert!(answer.errors.contains("cannot read nowhere"), "{answer:?}");
}

#[test]
fn every_help_page_teaches_by_example() {
    let shell = Shell::new();
    for command in ["put", "get", "ttl", "cas", "del", "scan", "stats", "verify"] {
        let text = shell.ok(&[command, "--help"]).text();
        assert!(text.contains(&format!("Examples:\n  mayfly {command}")), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
    }
    let text = shell.ok(&["--help"]).text();
    assert!(text.contains("Exit codes: 0 done"), "{text}");
    assert_eq!(shell.ok(&["--version"]).text(), format!("mayfly {}\n", env!("CARGO_PKG_VERSION")));
}
