//! Directories that are in use, missing, or no directories.

use mayfly_store::Store;
use serde_json::Value as Json;

use crate::shell::Shell;

#[tokio::test]
async fn a_directory_in_use_is_exit_code_3_and_works_again_once_it_is_free() {
    let shell = Shell::new();
    shell.ok(&["put", "a/b", "x", "--never"]);
    let other = shell.open();
    for command in [&["put", "a/b", "y", "--never"][..], &["get", "a/b"], &["stats"], &["verify"]] {
        let answer = shell.run(command);
        assert_eq!((answer.code, answer.text().as_str()), (3, ""), "{answer:?}");
        assert!(answer.errors.starts_with("mayfly: "), "{answer:?}");
    }
    let answer = shell.run(&["get", "a/b", "--json"]);
    let report: Json = serde_json::from_str(&answer.errors).unwrap();
    assert_eq!((&report["ok"], &report["error"]["kind"]), (&Json::Bool(false), &Json::from("Locked")));
    other.close().await.unwrap();
    drop(other);
    assert_eq!(shell.ok(&["get", "a/b"]).bytes, b"x");
}

#[test]
fn only_put_makes_a_directory() {
    let shell = Shell::new();
    for command in [
        &["get", "a/b"][..],
        &["ttl", "a/b"],
        &["cas", "a/b", "y", "--expect", "x", "--never"],
        &["del", "a/b"],
        &["scan", "a"],
        &["stats"],
        &["verify"],
    ] {
        let answer = shell.run(command);
        assert_eq!(answer.code, 3, "{answer:?}");
        assert!(answer.errors.contains("no data directory"), "{answer:?}");
    }
    assert!(!shell.data().exists());
    shell.ok(&["put", "a/b", "x", "--never"]);
    assert!(shell.data().is_dir());
}

#[test]
fn the_flag_wins_over_the_environment() {
    let shell = Shell::new();
    shell.ok(&["put", "a/b", "here", "--never"]);
    shell.ok(&["--data", "elsewhere", "put", "a/b", "there", "--never"]);
    assert_eq!(shell.ok(&["get", "a/b"]).bytes, b"here");
    assert_eq!(shell.ok(&["get", "a/b", "--data", "elsewhere"]).bytes, b"there");
}

#[test]
fn an_address_is_not_taken_for_a_directory() {
    let shell = Shell::new();
    for command in [&["get", "a"][..], &["put", "a", "x", "--never"]] {
        let answer = shell.run(&[command, &["--data", "http://127.0.0.1:8743"]].concat());
        assert_eq!(answer.code, 2, "{answer:?}");
        assert!(answer.errors.contains("directories only"), "{answer:?}");
    }
}

#[test]
fn a_file_in_the_place_of_the_directory_is_an_error() {
    let shell = Shell::new();
    std::fs::write(shell.data(), b"").unwrap();
    assert_eq!(shell.run(&["put", "a/b", "x", "--never"]).code, 3);
}
