//! As much as the kernel lets a program be started with.

use std::ffi::CString;

use crate::harness::Test;
use crate::sandbox::{Launch, Mode, in_both_modes};

pub fn tests() -> Vec<Test> {
    [
        in_both_modes("hostile::two_megabytes_of_arguments_and_environment_arrive_unchanged", two_megabytes),
        in_both_modes("hostile::a_path_of_40_000_places", long_path),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// One string is at most 128 KiB long, terminator included: `MAX_ARG_STRLEN`, execve(2).
const LONGEST: usize = 128 * 1024 - 1;
const MEGABYTE: usize = 1 << 20;

/// Strings of all lengths and bytes, a megabyte of them.
pub fn megabyte(name: &str) -> Vec<CString> {
    let mut strings: Vec<CString> = Vec::new();
    let (mut total, mut seed) = (0, 1u32);
    for length in [LONGEST, 0, 1, 4096].into_iter().chain((0..2_000).map(|i| i % 200)).chain(std::iter::repeat(100_000))
    {
        if total >= MEGABYTE {
            break;
        }
        let mut string = format!("{name}{}=", strings.len()).into_bytes();
        while string.len() < length {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            // Any character of one byte but NUL.
            string.push((seed >> 25).max(1).try_into().expect("seven bits"));
        }
        total += string.len() + 1;
        strings.push(CString::new(string).expect("no NUL"));
    }
    strings
}

/// How many strings and bytes there are, and a checksum (FNV-1a) that also tells where each ends.
pub fn sum<S: AsRef<[u8]>>(strings: impl IntoIterator<Item = S>) -> String {
    let (mut count, mut bytes, mut hash) = (0, 0, 0xcbf2_9ce4_8422_2325_u64);
    for string in strings {
        count += 1;
        for byte in string.as_ref().iter().chain([&0]) {
            bytes += 1;
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
    format!("{count} strings, {bytes} bytes, {hash:x}")
}

fn two_megabytes(mode: Mode) {
    let ended = Launch::new(mode).through(&["with-two-megabytes"]).helper(&["sum"]).run();
    let expected = ["A", "E"].map(|name| sum(megabyte(name).iter().map(|string| string.as_bytes())));
    assert_eq!((ended.code(), ended.stdout), (0, expected.to_vec()), "{:?}", ended.stderr);
}

fn long_path(mode: Mode) {
    let own = std::env::var("PATH").expect("a PATH");
    for (last, code) in [(own.as_str(), 0), ("/x", 127)] {
        // Through env(1), so that what stands before drainit is found as ever.
        let path = format!("PATH={}{last}", "/x:".repeat(40_000));
        let ended = Launch::new(mode).through_program(&["env", &path]).args(["--", "true"]).run();
        assert_eq!(ended.code(), code, "{:?}", ended.status);
        assert_eq!(ended.stderr.len(), if code == 0 { 2 } else { 1 }, "{:?}", ended.event_names());
    }
}
