//! Hostile surroundings: whatever drainit is given, it starts, passes on signals and stops in time, or says in one line why it cannot.
//!
//! (What belongs to one part of drainit alone, such as a pipe that nobody reads, is tested with that part.)

mod calls;
mod checks;
mod clock;
mod descriptors;
mod files;
mod privileges;
pub mod programs;
mod signals;
mod size;
mod storm;
mod terminal;
// (It knows the registers of no other architecture.)
#[cfg(target_arch = "x86_64")]
mod tracer;
mod tree;

use crate::harness::Test;

pub fn tests() -> Vec<Test> {
    [
        calls::tests(),
        storm::tests(),
        tree::tests(),
        clock::tests(),
        descriptors::tests(),
        files::tests(),
        privileges::tests(),
        signals::tests(),
        size::tests(),
        terminal::tests(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
