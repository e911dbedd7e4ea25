//! The integration tests: the real binary, as PID 1 of a PID namespace and below another init, and the real things around it.

// A test fails by a panic; the lints that keep panics out of the binary do not concern it.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    unreachable_pub,
    missing_docs
)]

mod docker;
mod harness;
mod helper;
mod hostile;
mod init;
mod jobs;
mod load;
mod nginx;
mod peers;
mod plan;
mod port;
mod pty;
mod sandbox;
mod settings;
mod signals;
mod stderr;
mod stop;
mod terminal;

use harness::Test;
use libtest_mimic::{Arguments, Trial};

fn main() {
    let words: Vec<String> = std::env::args().collect();
    if words.get(1).is_some_and(|word| word == "helper") {
        helper::run(&words[2..]);
    }
    let args = Arguments::from_args();
    let run_all = std::env::var_os("DRAINIT_TEST_ALL").is_some_and(|v| !v.is_empty());
    let tests: [Vec<Test>; 12] = [
        init::tests(),
        signals::tests(),
        stop::tests(),
        stderr::tests(),
        terminal::tests(),
        jobs::tests(),
        settings::tests(),
        plan::tests(),
        hostile::tests(),
        peers::tests(),
        nginx::tests(),
        docker::tests(),
    ];
    let trials = tests.into_iter().flatten().map(|test| trial(test, run_all, args.list)).collect();
    libtest_mimic::run(&args, trials).exit();
}

/// Turns `test` into a trial, ignored with a loud word where the machine lacks what it needs.
fn trial(test: Test, run_all: bool, listing: bool) -> Trial {
    let missing = if run_all || listing { None } else { test.needs.iter().find_map(|need| need.missing()) };
    if let Some(reason) = missing {
        eprintln!("IGNORED: {}: {reason}", test.name);
    }
    let run = test.run;
    Trial::test(test.name, move || {
        run();
        Ok(())
    })
    .with_ignored_flag(missing.is_some())
}
