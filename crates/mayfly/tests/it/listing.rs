//! `scan`: order, bounds, escapes, JSON lines.

use serde_json::Value as Json;

use crate::shell::Shell;

fn keys(shell: &Shell, arguments: &[&str]) -> Vec<String> {
    let text = shell.ok(arguments).text();
    text.lines().map(|line| line.split('\t').next().unwrap().to_owned()).collect()
}

fn filled() -> Shell {
    let shell = Shell::new();
    for key in ["s/b", "s/aa", "s/ab", "s/a", "s/", "t/a", "s/c"] {
        shell.ok(&["put", key, "v", "--ttl", "1h"]);
    }
    shell
}

#[test]
fn records_of_one_partition_come_in_the_order_of_their_sort_columns() {
    assert_eq!(keys(&filled(), &["scan", "s"]), ["s/", "s/a", "s/aa", "s/ab", "s/b", "s/c"]);
}

#[test]
fn bounds_and_limits_cut_the_listing() {
    let shell = filled();
    assert_eq!(keys(&shell, &["scan", "s", "--prefix", "a"]), ["s/a", "s/aa", "s/ab"]);
    assert_eq!(keys(&shell, &["scan", "s", "--start", "aa", "--finish", "b"]), ["s/aa", "s/ab"]);
    assert_eq!(keys(&shell, &["scan", "s", "--start", "b"]), ["s/b", "s/c"]);
    assert_eq!(keys(&shell, &["scan", "s", "--finish", "a"]), ["s/"]);
    assert_eq!(keys(&shell, &["scan", "s", "--start", "c", "--finish", "a"]).len(), 0);
    assert_eq!(keys(&shell, &["scan", "s", "--limit", "2"]), ["s/", "s/a"]);
    assert_eq!(keys(&shell, &["scan", "s", "--limit", "0"]).len(), 0);
    assert_eq!(keys(&shell, &["scan", "nobody"]).len(), 0);
    assert_eq!(keys(&shell, &["scan", "--hex", "73", "--prefix", "6161"]), ["73/6161"]);
}

#[test]
fn a_record_is_one_line_whatever_it_holds() {
    let shell = Shell::new();
    shell.feed(&["put", r"s/\t\n", "-", "--never"], b"tab\tline\nescape\x1b\xff\\");
    assert_eq!(shell.ok(&["scan", "s"]).text(), "s/\\t\\n\tnever\ttab\\tline\\nescape\\x1b\\xff\\\\\n");
}

#[test]
fn json_is_one_object_a_line() {
    let answer = filled().ok(&["scan", "s", "--json"]);
    let lines: Vec<Json> = answer.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 6);
    for line in lines {
        assert_eq!((&line["ok"], &line["value"]), (&Json::Bool(true), &Json::from("v")));
        assert!(line["left_ms"].as_u64().unwrap() <= 3_600_000);
    }
}

#[test]
fn a_slash_in_a_partition_is_refused_with_advice() {
    let answer = filled().run(&["scan", "s/a"]);
    assert_eq!(answer.code, 2);
    assert!(answer.errors.contains("--prefix"), "{answer:?}");
}
