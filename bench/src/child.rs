//! Child processes: this program again for the engines in Rust, the Go program for bbolt.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::engine::Name;
use crate::workload::{Job, Metrics, READY};

/// Where `bench/run` has put the bbolt program.
const BBOLT: &str = "MAYFLY_BENCH_BBOLT";

/// Runs a job in a process of its own and brings its metrics.
pub fn run(job: &Job) -> Result<Metrics> {
    let output = command(job)?.stderr(Stdio::inherit()).output()?;
    ensure!(output.status.success(), "{} {:?} failed: {}", job.engine.title(), job.workload, output.status);
    last_line(&output.stdout)
}

/// Runs a job that never ends by itself and kills it with SIGKILL, a little after it has said "ready".
pub fn run_and_kill(job: &Job) -> Result<()> {
    let mut child = command(job)?.stdout(Stdio::piped()).spawn()?;
    let stdout = child.stdout.take().context("standard output was asked for")?;
    let said = BufReader::new(stdout).lines().next().context("the child ended before it was ready")??;
    ensure!(said == READY, "the child said {said:?}");
    thread::sleep(Duration::from_millis(300));
    child.kill()?;
    child.wait()?;
    Ok(())
}

/// The metrics in the last line of a child's output.
pub fn last_line(output: &[u8]) -> Result<Metrics> {
    let text = std::str::from_utf8(output)?;
    let line = text.lines().last().context("the child printed nothing")?;
    serde_json::from_str(line).with_context(|| format!("the child printed {line:?}"))
}

fn command(job: &Job) -> Result<Command> {
    let program = match job.engine {
        Name::Bbolt => std::env::var_os(BBOLT)
            .with_context(|| format!("{BBOLT} does not name the bbolt program; start this with bench/run"))?
            .into(),
        _ => std::env::current_exe()?,
    };
    let mut command = Command::new(program);
    let workload = serde_json::to_value(job.workload)?;
    command.args(["child", "--engine", &job.engine.argument()]);
    command.args(["--workload", workload.as_str().context("a workload is a word")?]);
    command.arg("--dir").arg(&job.dir);
    command.args(["--records", &job.records.to_string(), "--seconds", &job.seconds.to_string()]);
    command.args(["--writers", &job.writers.to_string(), "--in-flight", &job.in_flight.to_string()]);
    Ok(command)
}
