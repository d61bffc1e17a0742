//! Writing and reading single records.

use serde_json::{Value as Json, json};

use crate::shell::Shell;

#[test]
fn what_was_put_is_got_byte_by_byte() {
    let shell = Shell::new();
    shell.ok(&["put", "sessions/alice", "logged in", "--ttl", "15m"]);
    assert_eq!(shell.ok(&["get", "sessions/alice"]).bytes, b"logged in");
    shell.ok(&["put", "sessions/alice", "", "--ttl", "15m"]);
    assert_eq!(shell.ok(&["get", "sessions/alice"]).bytes, b"");
}

#[test]
fn an_absent_record_is_exit_code_1_and_prints_no_value() {
    let shell = Shell::new();
    shell.ok(&["put", "a/b", "x", "--never"]);
    for command in ["get", "ttl", "del"] {
        let answer = shell.run(&[command, "a/c"]);
        assert_eq!((answer.code, answer.text().as_str()), (1, ""));
        assert_eq!(answer.errors, "no live record at a/c\n");
        assert_eq!(shell.json(&[command, "a/c"]), (json!({ "ok": false, "key": "a/c" }), 1));
    }
}

#[test]
fn an_expired_record_is_absent_to_every_command() {
    let shell = Shell::new();
    shell.ok(&["put", "a/b", "x", "--ttl", "1ms"]);
    assert_eq!(shell.run(&["get", "a/b"]).code, 1);
    assert_eq!(shell.run(&["ttl", "a/b"]).code, 1);
    assert_eq!(shell.run(&["cas", "a/b", "y", "--expect", "x", "--ttl", "1h"]).code, 1);
    assert_eq!(shell.run(&["del", "a/b"]).code, 1);
    assert_eq!(shell.ok(&["scan", "a"]).text(), "");
    assert_eq!(shell.ok(&["put", "a/b", "y", "--ttl", "1h", "--if-absent"]).code, 0);
}

#[test]
fn ttl_says_the_deadline_and_the_time_left() {
    let shell = Shell::new();
    shell.ok(&["put", "a/b", "x", "--ttl", "15m"]);
    let text = shell.ok(&["ttl", "a/b"]).text();
    assert!(
        text.starts_with("a/b expires 20") && text.ends_with(" left\n") && text.contains(" UTC, 1"),
        "{text}"
    );
    let (report, _) = shell.json(&["ttl", "a/b"]);
    let left = report["left_ms"].as_u64().unwrap();
    assert!((800_000..=900_000).contains(&left), "{report}");
}

#[test]
fn put_reports_the_deadline_that_get_sees() {
    let shell = Shell::new();
    let (put, _) = shell.json(&["put", "a/b", "x", "--ttl", "1h"]);
    let (get, _) = shell.json(&["get", "a/b"]);
    assert_eq!(put["expires_at"], get["expires_at"]);
    assert_eq!(put["expires"], get["expires"]);
    assert_eq!(get["value"], "x");
}

#[test]
fn a_deadline_does_not_move_however_often_the_store_is_opened() {
    let shell = Shell::new();
    let (put, _) = shell.json(&["put", "a/b", "x", "--ttl", "1h"]);
    for _ in 0..20 {
        assert_eq!(shell.json(&["get", "a/b"]).0["expires_at"], put["expires_at"]);
    }
}

#[test]
fn an_absolute_deadline_is_kept_to_the_millisecond() {
    let shell = Shell::new();
    for (when, expires) in [
        ("2086-01-01T00:00:00.125+01:00", "2085-12-31T23:00:00.125Z"),
        ("@3660681600125", "2086-01-01T00:00:00.125Z"),
    ] {
        shell.ok(&["put", "a/b", "x", "--at", when]);
        assert_eq!(shell.json(&["get", "a/b"]).0["expires"], expires);
    }
}

#[test]
fn never_has_no_deadline() {
    let shell = Shell::new();
    assert_eq!(shell.ok(&["put", "a/b", "x", "--never"]).text(), "a/b never expires\n");
    let never = json!({ "ok": true, "key": "a/b", "expires_at": null, "expires": null, "left_ms": null });
    assert_eq!(shell.json(&["ttl", "a/b"]), (never, 0));
}

#[test]
fn a_put_replaces_value_and_deadline() {
    let shell = Shell::new();
    shell.ok(&["put", "a/b", "x", "--ttl", "1h"]);
    shell.ok(&["put", "a/b", "y", "--never"]);
    let (report, _) = shell.json(&["get", "a/b"]);
    assert_eq!((&report["value"], &report["expires_at"]), (&json!("y"), &Json::Null));
}

#[test]
fn binary_keys_and_values_go_in_and_out() {
    let shell = Shell::new();
    shell.ok(&["put", r"bin\x2f\x00/\xff\n", "text", "--never"]);
    assert_eq!(shell.ok(&["get", r"bin\x2f\x00/\xff\n"]).bytes, b"text");
    assert_eq!(shell.ok(&["get", "--hex", "62696e2f00/ff0a"]).text(), "74657874\n");
    shell.ok(&["put", "--hex", "00000004/ff00", "00ff0a", "--never"]);
    assert_eq!(shell.ok(&["get", r"\x00\x00\x00\x04/\xff\x00"]).bytes, b"\0\xff\n");
    let (report, _) = shell.json(&["get", r"\x00\x00\x00\x04/\xff\x00"]);
    assert_eq!(
        (&report["key"], &report["value_hex"]),
        (&json!(r"\x00\x00\x00\x04/\xff\x00"), &json!("00ff0a"))
    );
    assert_eq!(report.get("value"), None);
    assert_eq!(shell.json(&["get", "--hex", "00000004/ff00"]).0["key"], "00000004/ff00");
}

#[test]
fn a_key_without_a_slash_has_empty_sort_columns() {
    let shell = Shell::new();
    shell.ok(&["put", "leader", "me", "--ttl", "1h"]);
    assert_eq!(shell.ok(&["get", "leader/"]).bytes, b"me");
    assert_eq!(shell.run(&["get", r"leader/\x00"]).code, 1);
}
