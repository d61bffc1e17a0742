//! Standard input, the limit of a value, and readers that stop reading.

use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

use mayfly_store::{Expiry, MAX_VALUE};

use crate::shell::Shell;

#[test]
fn the_longest_value_goes_through_and_one_byte_more_is_refused_with_the_limit() {
    let shell = Shell::new();
    let value: Vec<u8> = (0..=MAX_VALUE).map(|number| (number % 251) as u8).collect();
    let answer = shell.feed(&["put", "a/b", "-", "--ttl", "1h"], &value[..MAX_VALUE]);
    assert_eq!(answer.code, 0, "{answer:?}");
    assert_eq!(shell.ok(&["get", "a/b"]).bytes, &value[..MAX_VALUE]);

    let file = shell.data().with_file_name("big");
    std::fs::write(&file, &value).unwrap();
    let by_file = shell.run(&["put", "a/b", "--file", file.to_str().unwrap(), "--ttl", "1h"]);
    for answer in [shell.feed(&["put", "a/b", "-", "--ttl", "1h"], &value), by_file] {
        assert_eq!(answer.code, 2);
        assert!(answer.errors.contains("262144"), "{answer:?}");
    }
    assert_eq!(shell.ok(&["get", "a/b"]).bytes, &value[..MAX_VALUE]);
}

#[test]
fn an_endless_input_is_refused_before_it_is_read() {
    let shell = Shell::new();
    let mut command = shell.command(&["put", "a/b", "-", "--ttl", "1h"]);
    let output = command.stdin(std::fs::File::open("/dev/zero").unwrap()).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(!shell.data().exists(), "a refused value leaves no directory behind");
}

#[tokio::test]
async fn a_reader_that_has_seen_enough_is_no_failure() {
    let shell = Shell::new();
    // Far more than a pipe holds.
    shell.fill("s", 2000, &[b'x'; 1000], Expiry::Never).await;
    for arguments in [&["scan", "s"][..], &["scan", "s", "--json"]] {
        let mut command = shell.command(arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::with_capacity(64, child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("s/00000000"), "{line}");
        let mut errors = String::new();
        child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
        assert_eq!((child.wait().unwrap().code(), errors.as_str()), (Some(0), ""));
    }
    assert_eq!(shell.ok(&["scan", "s"]).text().lines().count(), 2000);
}
