//! What an init costs: drainit beside its peers and beside no init at all, as the real PID 1 of a fresh PID namespace.
//!
//! `cargo bench --bench peers` measures all of it, `cargo bench --bench peers -- --quick` less of it, and names of quantities (`start`, `memory`,
//! `wake-ups`, `latency`, `orphans`, `size`) only those. The inits take turns in one run, in an order that changes every round, so that what disturbs one
//! disturbs all. A goal that is missed is reported and is no failure; what could not be measured is one.

// A bench fails by a panic; the lints that keep panics out of the binary do not concern it.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)]

mod command;
mod inits;
mod namespace;
mod quantities;
mod report;
mod stats;

use inits::Init;
use report::Report;

/// How much to measure.
#[derive(Clone, Copy, Debug)]
struct Effort {
    starts: usize,
    memory_samples: usize,
    idle_seconds: u64,
    signals: usize,
    orphan_rounds: usize,
    orphans: usize,
}

const FULL: Effort =
    Effort { starts: 600, memory_samples: 15, idle_seconds: 10, signals: 6_000, orphan_rounds: 7, orphans: 10_000 };
const QUICK: Effort =
    Effort { starts: 20, memory_samples: 2, idle_seconds: 2, signals: 200, orphan_rounds: 1, orphans: 1_000 };

type Quantity = fn(&[Init], Effort, &mut Report);

const QUANTITIES: [(&str, Quantity); 6] = [
    ("start", quantities::start),
    ("memory", quantities::memory),
    ("wake-ups", quantities::wake_ups),
    ("latency", quantities::latency),
    ("orphans", quantities::orphans),
    ("size", quantities::size),
];

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.first().is_some_and(|word| word == "command") {
        command::run(&words[1..]);
    }
    namespace::become_root();
    let effort = if words.iter().any(|word| word == "--quick") { QUICK } else { FULL };
    let wanted: Vec<&str> = words.iter().map(String::as_str).filter(|word| !word.starts_with("--")).collect();
    if let Some(unknown) = wanted.iter().find(|word| QUANTITIES.iter().all(|(name, _)| name != *word)) {
        panic!("there is no quantity {unknown}; there are {:?}", QUANTITIES.map(|(name, _)| name));
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let inits = inits::installed(folder.path());
    let mut report = Report::default();
    for (name, measure) in QUANTITIES {
        if wanted.is_empty() || wanted.contains(&name) {
            measure(&inits, effort, &mut report);
        }
    }
    report.print_goals();
}
