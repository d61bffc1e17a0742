//! Mayfly and its peers under the same workload, in one run. `bench/run --help` says what there is.

mod args;
mod child;
mod clients;
mod compare;
mod engine;
mod meter;
mod own;
mod record;
mod report;
mod workload;

use anyhow::Result;
use clap::Parser;

use args::{Arguments, Command};

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    match &arguments.command {
        None => compare::run(&arguments.compare, &arguments.output),
        Some(Command::Child(job)) => {
            let metrics = runtime()?.block_on(job.run())?;
            println!("{}", serde_json::to_string(&metrics)?);
            Ok(())
        }
        Some(Command::NothingBlocks(options)) => {
            own::report(own::Bench::NothingBlocks, &arguments.output, |dir| {
                runtime()?.block_on(options.run(dir))
            })
        }
        Some(Command::Big(options)) => {
            own::report(own::Bench::Big, &arguments.output, |dir| options.run(dir))
        }
        Some(Command::BigChild(options)) => {
            println!("{}", serde_json::to_string(&runtime()?.block_on(options.run())?)?);
            Ok(())
        }
        Some(Command::Lateness(options)) => {
            own::report(own::Bench::Lateness, &arguments.output, |dir| runtime()?.block_on(options.run(dir)))
        }
    }
}

/// The clients of every engine run on two worker threads.
fn runtime() -> Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build()?)
}
