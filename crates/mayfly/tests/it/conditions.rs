//! The conditional commands: what they change, what they leave, and what they answer.

use serde_json::json;

use crate::shell::Shell;

#[test]
fn if_absent_writes_once_and_leaves_the_winner_alone() {
    let shell = Shell::new();
    shell.ok(&["put", "locks/a", "first", "--ttl", "1h", "--if-absent"]);
    let before = shell.json(&["get", "locks/a"]).0["expires_at"].clone();
    let answer = shell.run(&["put", "locks/a", "second", "--ttl", "2h", "--if-absent"]);
    assert_eq!((answer.code, answer.text().as_str()), (1, ""));
    assert_eq!(answer.errors, "locks/a lives already and stays as it is\n");
    let (after, _) = shell.json(&["get", "locks/a"]);
    assert_eq!((&after["value"], &after["expires_at"]), (&json!("first"), &before));
    let refused = shell.json(&["put", "locks/a", "second", "--ttl", "2h", "--if-absent"]);
    assert_eq!(refused, (json!({ "ok": false, "key": "locks/a" }), 1));
}

#[test]
fn cas_swaps_value_and_deadline_only_if_the_value_is_the_expected_one() {
    let shell = Shell::new();
    shell.ok(&["put", "jobs/1", "running", "--ttl", "1h"]);
    let miss = shell.run(&["cas", "jobs/1", "done", "--expect", "waiting", "--never"]);
    assert_eq!((miss.code, miss.errors.as_str()), (1, "jobs/1 is absent or has another value\n"));
    assert_eq!(shell.json(&["get", "jobs/1"]).0["value"], "running");
    assert_ne!(shell.json(&["ttl", "jobs/1"]).0["expires_at"], json!(null));
    shell.ok(&["cas", "jobs/1", "done", "--expect", "running", "--never"]);
    assert_eq!(shell.ok(&["get", "jobs/1"]).bytes, b"done");
    assert_eq!(shell.json(&["ttl", "jobs/1"]).0["expires_at"], json!(null));
}

#[test]
fn cas_of_the_same_value_renews() {
    let shell = Shell::new();
    shell.ok(&["put", "locks/a", "me", "--ttl", "1m"]);
    let (report, code) = shell.json(&["cas", "locks/a", "me", "--expect", "me", "--ttl", "1h"]);
    assert_eq!((code, &report["ok"]), (0, &json!(true)));
    assert!(report["left_ms"].as_u64().unwrap() > 3_000_000);
}

#[test]
fn cas_takes_its_values_from_files_and_one_of_them_from_standard_input() {
    let shell = Shell::new();
    let file = shell.data().with_file_name("old");
    std::fs::write(&file, b"\0old").unwrap();
    let file = file.to_str().unwrap();
    shell.ok(&["put", "a/b", "--file", file, "--ttl", "1h"]);
    let answer = shell.feed(&["cas", "a/b", "-", "--expect-file", file, "--ttl", "1h"], b"\0new");
    assert_eq!(answer.code, 0, "{answer:?}");
    assert_eq!(shell.ok(&["get", "a/b"]).bytes, b"\0new");
    let answer = shell.run(&["cas", "a/b", "-", "--expect", "-", "--ttl", "1h"]);
    assert_eq!(answer.code, 2, "{answer:?}");
}

#[test]
fn del_with_an_expectation_deletes_only_what_was_expected() {
    let shell = Shell::new();
    shell.ok(&["put", "locks/a", "me", "--ttl", "1h"]);
    let answer = shell.run(&["del", "locks/a", "--expect", "you"]);
    assert_eq!((answer.code, answer.errors.as_str()), (1, "locks/a is absent or has another value\n"));
    assert_eq!(shell.ok(&["del", "locks/a", "--expect", "me"]).text(), "locks/a deleted\n");
    assert_eq!(shell.run(&["get", "locks/a"]).code, 1);
}

#[test]
fn del_without_one_deletes_whatever_is_there() {
    let shell = Shell::new();
    shell.ok(&["put", "a", "x", "--ttl", "1h"]);
    assert_eq!(shell.json(&["del", "a"]), (json!({ "ok": true, "key": "a/" }), 0));
    assert_eq!(shell.json(&["del", "a"]).1, 1);
}
