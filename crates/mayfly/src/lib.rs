//! The command line of Mayfly: arguments → one call of the store → print. Nothing else belongs here.
//!
//! | file | what |
//! | --- | --- |
//! | `command/` | one file a command: its arguments with their help, its call, its output |
//! | `address.rs` | how keys are written |
//! | `content.rs` | where values come from |
//! | `expiry.rs` | how deadlines are asked for and shown |
//! | `data.rs` | where the records are |
//! | `screen.rs` | text for people, JSON for programs |
//! | `chart.rs` | the expiry horizon as bars |
//! | `exit.rs` | exit codes |

mod address;
mod chart;
mod command;
mod content;
mod data;
mod exit;
mod expiry;
mod screen;

use std::process::ExitCode;

use clap::Parser;

/// Runs the command line of this process and says how it ended.
pub fn run() -> ExitCode {
    let arguments = command::Arguments::parse();
    let mut screen = screen::Screen::new(arguments.json);
    let outcome = command::run(arguments, &mut screen);
    screen.conclude(outcome).into()
}

/// The examples of the README, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
