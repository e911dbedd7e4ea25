//! Receiving blocked signals one by one, sigtimedwait(2), and sending them on as they came.
//!
//! Unlike a handler this keeps each instance of a real-time signal with its sender, works for a signal that was inherited as ignored (one that is
//! blocked is kept all the same), and leaves no window between fork and exec. Unlike a signalfd it takes one call for each signal, not two.

use std::fmt;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::time::TimeSpec;
use nix::unistd::Pid;

use crate::signal::{Signal, SignalSet};
use crate::sys::signals::SET_SIZE;

/// One received signal, with what the kernel told of it.
#[derive(Clone, Copy)]
pub struct Received {
    pub signal: Signal,
    info: libc::siginfo_t,
}

impl Received {
    /// Who sent it, as seen in our PID namespace; 0: the kernel, or a process outside.
    pub fn sender_pid(&self) -> i32 {
        // SAFETY: whoever sends a signal is filled in.
        if self.has_sender() { unsafe { self.info.si_pid() } } else { 0 }
    }

    /// The sender's real user id.
    pub fn sender_uid(&self) -> u32 {
        // SAFETY: as above.
        if self.has_sender() { unsafe { self.info.si_uid() } } else { 0 }
    }

    /// Whether a process sent it, kill(2), tgkill(2), sigqueue(3). For others, such as those of timers, there is something else in its place.
    fn has_sender(&self) -> bool {
        [libc::SI_USER, libc::SI_TKILL, libc::SI_QUEUE].contains(&self.info.si_code)
    }

    /// Whether it was sent by sigqueue(3), with a value for the receiver.
    fn has_value(&self) -> bool {
        self.info.si_code == libc::SI_QUEUE
    }
}

impl fmt::Debug for Received {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} from {}", self.signal, self.sender_pid())
    }
}

/// Takes one signal that is pending, the one with the lowest number among those `wanted`. Waits for it for `timeout`, or without end.
///
/// # Errors
///
/// EAGAIN when none came in time, EINTR after a pause; anything else where a sandbox refuses the call.
pub fn receive(wanted: SignalSet, timeout: Option<Duration>) -> nix::Result<Received> {
    let wanted = wanted.bits();
    let timeout = timeout.map(|timeout| *TimeSpec::from_duration(timeout).as_ref());
    let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: any bytes are a siginfo_t.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    // SAFETY: the pointers are to a set of the size given, a siginfo_t, and a timespec or none.
    let number =
        unsafe { libc::syscall(libc::SYS_rt_sigtimedwait, &raw const wanted, &raw mut info, timeout, SET_SIZE) };
    let number = Errno::result(number)?;
    let signal = i32::try_from(number).ok().and_then(Signal::new).ok_or(Errno::EINVAL)?;
    Ok(Received { signal, info })
}

/// Sends `signal` to the process `pid` in place of what was `received`.
///
/// # Errors
///
/// ESRCH where there is nobody, EPERM where that is not allowed, EAGAIN where the receiver's queue is full: it would get the signal, but not
/// each instance of it, so it has to be sent later.
pub fn send_on(pid: Pid, signal: Signal, received: &Received) -> nix::Result<()> {
    // kill(2) loses real-time signals without a word when the queue is full, and has no value to give along.
    if signal.is_real_time() || received.has_value() {
        let mut info = received.info;
        info.si_signo = signal.number();
        info.si_code = libc::SI_QUEUE;
        // SAFETY: the pointer is to a siginfo_t.
        let sent = unsafe { libc::syscall(libc::SYS_rt_sigqueueinfo, pid.as_raw(), signal.number(), &raw const info) };
        match Errno::result(sent) {
            // Where a sandbox refuses the call, the signal is more than its value.
            Err(errno) if errno != Errno::EAGAIN && errno != Errno::ESRCH => {}
            sent => return sent.map(drop),
        }
    }
    super::signals::send(pid.as_raw(), signal)
}
