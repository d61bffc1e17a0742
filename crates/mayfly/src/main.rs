//! The `mayfly` binary. Everything is in the library beside it, so that the manual can be tested.

use std::process::ExitCode;

fn main() -> ExitCode {
    mayfly::run()
}
