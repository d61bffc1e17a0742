//! The manual is true: the quick start of the README runs as it is printed, and `docs/cli.md` knows every command.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::shell::Shell;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap()
}

/// The blocks of code of one language, in order.
fn blocks(text: &str, language: &str) -> Vec<String> {
    let fence = format!("```{language}\n");
    let blocks = text.split(&fence).skip(1);
    blocks.map(|rest| rest.split("```").next().unwrap().to_owned()).collect()
}

#[test]
fn the_quick_start_of_the_readme_runs_by_copy_and_paste() {
    let shell = Shell::new();
    let script =
        blocks(&read("README.md"), "sh").first().expect("the README begins with a quick start").clone();
    // The binary is built already; everything else runs as it stands.
    let script = script.replace("cargo run --release --", env!("CARGO_BIN_EXE_mayfly"));
    let directory = shell.data().parent().unwrap().to_owned();
    let output = Command::new("sh").args(["-euc", &script]).current_dir(&directory).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{script}\n{output:?}");
    for part in ["sessions/alice expires ", "logged in", "15m left", "What will expire when"] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    assert!(directory.join("mayfly-data").is_dir());
}

#[test]
fn every_command_of_the_manual_runs() {
    let shell = Shell::new();
    let manual = read("docs/cli.md");
    let scripts = blocks(&manual, "sh");
    assert!(scripts.len() >= 8, "one block a command at least");
    let directory = shell.data().parent().unwrap().to_owned();
    let bin = Path::new(env!("CARGO_BIN_EXE_mayfly")).parent().unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    for script in scripts {
        let mut command = Command::new("bash");
        command.args(["-euo", "pipefail", "-c", &script]).current_dir(&directory).env("PATH", &path);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{script}\n{output:?}");
    }
}

#[test]
fn the_manual_names_every_option_of_every_command() {
    let manual = read("docs/cli.md");
    let shell = Shell::new();
    for command in ["put", "get", "ttl", "cas", "del", "scan", "stats", "verify"] {
        let help = shell.ok(&[command, "--help"]).text();
        assert!(manual.contains(&format!("## `mayfly {command}`")), "{command} has no chapter");
        for word in help.split_whitespace().filter(|word| word.starts_with("--") && word.len() > 2) {
            let option = word.trim_end_matches(|letter: char| !letter.is_ascii_lowercase() && letter != '-');
            let option = option.split('=').next().unwrap();
            assert!(manual.contains(option), "{option} of {command} is not in docs/cli.md");
        }
    }
}
