//! Whose turn it is among the signals.
//!
//! The kernel always gives the pending signal with the lowest number, so a storm of SIGHUP would keep SIGTERM and SIGCHLD waiting for as long as it lasts.

use crate::signal::{Signal, SignalSet};

/// Every how many signals the next one in turn comes first.
const IN_A_ROW: u32 = 16;

/// The signals received so far.
#[derive(Clone, Copy, Default, Debug)]
pub struct Turns {
    received: u32,
    /// Whose turn was the last one.
    last: Option<Signal>,
}

impl Turns {
    /// Those among the `wanted` signals to ask for first, before all of them; `None` most of the time.
    pub fn first(&self, wanted: SignalSet) -> Option<SignalSet> {
        self.last.filter(|_| self.is_due()).map(|last| wanted.above(last))
    }

    /// Counts a signal that was received. When nobody above the last one was there, the turn has gone round.
    pub fn took(&mut self, signal: Signal) {
        if self.is_due() {
            self.last = Some(signal);
        }
        self.received = self.received.wrapping_add(1);
    }

    fn is_due(&self) -> bool {
        self.received.is_multiple_of(IN_A_ROW)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What the kernel gives when these signals are pending all the time.
    fn receive(turns: &mut Turns, pending: SignalSet) -> Signal {
        let first = turns.first(SignalSet::ALL).map(|first| SignalSet::from_bits(first.bits() & pending.bits()));
        let signal = first.and_then(|first| first.iter().next()).or(pending.iter().next()).unwrap();
        turns.took(signal);
        signal
    }

    proptest! {
        #[test]
        fn a_storm_keeps_no_signal_waiting_for_ever(storm in 1u64..) {
            let pending = SignalSet::from_bits(storm);
            let mut turns = Turns::default();
            let enough = usize::try_from(IN_A_ROW).unwrap() * 64;
            let received: SignalSet = (0..enough).map(|_| receive(&mut turns, pending)).collect();
            prop_assert_eq!(received, pending);
        }
    }
}
