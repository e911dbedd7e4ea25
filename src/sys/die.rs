//! Ending of the same signal as the command, so that a parent sees no difference.

use crate::signal::{Signal, SignalSet};
use crate::sys::signals;

/// Ends this process by `signal`. Returns if that does not end it: as PID 1, or for a signal that is ignored by default.
pub fn of(signal: Signal) {
    // The command has left its core dump; one of drainit would only hide it.
    // SAFETY: this option takes a number and no pointer.
    unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) };
    let _ = signals::set_default(signal);
    let _ = signals::send(nix::unistd::getpid().as_raw(), signal);
    // Pending until here, it is delivered now.
    let _ = signals::set_mask(SignalSet::ALL.without(signal));
}
