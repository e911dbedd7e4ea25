//! What a rolling deploy costs the clients of a service, first with its stop signal passed on at once and then held
//! back by drainit.
//!
//! ```text
//! cargo run --release --example rolling_deploy
//! ```
//!
//! Two tasks run a small HTTP service under a steady load. The client learns of its endpoints as clients of AWS Cloud
//! Map do: a task that got its stop signal stays on the list for a while. A service that closes its listener on
//! SIGTERM, as a well behaved one does, therefore turns away whoever still calls; below drainit the same service
//! serves them.
//!
//! Needs nothing but Rust and a C linker. The drainit binary is built on the way, unless `DRAINIT_BIN` names one.
//! Ends with status 0 if the deploy at once failed some requests and the one with drainit none, else with 1 and the
//! reason.

mod client;
mod deploy;
mod drainit;
mod endpoints;
mod progress;
mod report;
mod service;
mod task;

use std::env;
use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;

use progress::Progress;
use task::Init;

/// Whatever went wrong, in words for the user.
type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> ExitCode {
    let outcome = match env::args().nth(1).as_deref() {
        None => compare(),
        Some(service::SUB_COMMAND) => service::serve(),
        Some(other) => Err(format!("unexpected argument {other:?}: the example takes none").into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            // Not `eprintln!`, which would panic if nobody reads stderr any more.
            let _ = writeln!(io::stderr(), "rolling_deploy: {reason}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the two deploys and compares them.
fn compare() -> Result<()> {
    let mut progress = Progress::new()?;
    let drainit = drainit::binary(&mut progress)?;
    let at_once = deploy::roll(&mut progress, &Init::None)?;
    let drained = deploy::roll(&mut progress, &Init::Drainit(drainit))?;
    report::show(&mut progress, &at_once, &drained)?;
    report::verdict(&at_once, &drained)
}
