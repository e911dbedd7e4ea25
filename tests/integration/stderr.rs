//! Standard error that takes no more: the stop goes on in exactly its time.

use std::io::{Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use crate::harness::Test;
use crate::sandbox::{Launch, Mode, in_both_modes};

pub fn tests() -> Vec<Test> {
    [
        in_both_modes("stderr::a_full_pipe_it_takes_exactly_its_time", full_pipe),
        in_both_modes("stderr::the_reading_end_of_a_pipe_does_not_become_writable", reading_end),
        in_both_modes("stderr::a_pipe_that_nobody_reads_takes_more_lines_than_it_has_buffers", unread_pipe),
        in_both_modes("stderr::closed_or_unread_it_takes_exactly_its_time", closed_pipe),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// A pipe that is full, with its ends.
pub fn full() -> (OwnedFd, std::io::PipeWriter) {
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    // SAFETY: the call takes numbers only.
    let size = unsafe { libc::fcntl(writer.as_raw_fd(), libc::F_GETPIPE_SZ) };
    writer.write_all(&vec![b'.'; usize::try_from(size).expect("a size")]).expect("it fits");
    (reader.into(), writer)
}

/// A drainit for each way to write to a pipe: opened again; by splice where there is no `/proc`; when poll says so where splice is refused too.
fn ways_to_write(mode: Mode) -> Vec<Launch> {
    let without_proc = || Launch::new(mode).through(&["without-proc"]);
    let mut ways = vec![Launch::new(mode)];
    // Only a mount namespace of its own can be without one.
    if mode == Mode::Pid1 {
        ways.push(without_proc());
        ways.push(without_proc().through(&["without-call", &libc::SYS_splice.to_string()]));
    }
    ways
}

fn full_pipe(mode: Mode) {
    ways_to_write(mode).into_iter().for_each(stops_at_a_full_pipe);
}

fn stops_at_a_full_pipe(launch: Launch) {
    let (reader, writer) = full();
    let running = launch
        .env("DRAINIT_DELAY", "300ms")
        .env("DRAINIT_STOP_TIMEOUT", "10")
        .stderr(writer)
        .helper(&["report", "1"])
        .start();
    running.expect_line("ready");
    let signalled = Instant::now();
    running.signal(libc::SIGTERM);
    let ended = running.wait();
    let took = signalled.elapsed();
    assert_eq!((ended.code(), ended.stdout.last().map(String::as_str)), (0, Some("got 15")), "{ended:?}");
    assert!(took >= Duration::from_millis(300) && took < Duration::from_secs(2), "{took:?}");
    let mut left = String::new();
    std::fs::File::from(reader).read_to_string(&mut left).expect("text");
    assert!(left.bytes().all(|b| b == b'.'), "a line that does not fit is dropped whole");
}

fn reading_end(mode: Mode) {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    let mut ours = reader.try_clone().expect("a descriptor");
    let ended = Launch::new(mode).env("DRAINIT_UNKNOWN", "x").stderr(reader).script("exit 0").run();
    drop(writer);
    let mut written = String::new();
    ours.read_to_string(&mut written).expect("text");
    assert_eq!((ended.code(), written), (0, String::new()), "nothing is written where it could only be read");
}

fn unread_pipe(mode: Mode) {
    const WARNINGS: usize = 50;
    let (mut reader, writer) = std::io::pipe().expect("a pipe");
    let launch = (0..WARNINGS).fold(Launch::new(mode), |launch, n| launch.env(format!("DRAINIT_UNKNOWN_{n}"), "x"));
    let ended = launch.stderr(writer).script("exit 0").run();
    assert_eq!(ended.code(), 0);
    let mut log = String::new();
    reader.read_to_string(&mut log).expect("text");
    assert_eq!(log.lines().filter(|line| line.contains("\"warning\"")).count(), WARNINGS, "{log}");
}

fn closed_pipe(mode: Mode) {
    let stop = |launch: Launch| {
        let running = launch.env("DRAINIT_DELAY", "200ms").helper(&["report", "2"]).start();
        running.expect_line("ready");
        running.signal(libc::SIGPIPE);
        running.expect_line("got 13");
        running.signal(libc::SIGTERM);
        let ended = running.wait();
        assert_eq!((ended.code(), ended.stdout.last().map(String::as_str)), (0, Some("got 15")), "{ended:?}");
    };
    for launch in ways_to_write(mode) {
        let (_, writer) = std::io::pipe().expect("a pipe");
        stop(launch.stderr(writer));
    }
    stop(Launch::new(mode).through(&["with-closed", "2"]));
    stop(Launch::new(mode).stderr(std::fs::File::options().write(true).open("/dev/full").expect("/dev/full")));
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().expect("sockets");
    drop(ours);
    stop(Launch::new(mode).stderr(OwnedFd::from(theirs)));
}
