//! As much of an ELF file's header as tells which machine it is for and whether it is static.

use std::path::Path;

/// What an executable is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Elf {
    /// `e_machine`.
    pub machine: u16,
    /// It names no dynamic linker.
    pub is_static: bool,
}

pub const X86_64: u16 = 62;
pub const AARCH64: u16 = 183;

/// Reads the header of the 64-bit little-endian ELF file at `path`.
pub fn read(path: &Path) -> Elf {
    const PT_INTERP: u64 = 3;
    let file = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    assert_eq!(file[..6], *b"\x7fELF\x02\x01", "{} is no 64-bit little-endian ELF file", path.display());
    let number =
        |at: usize, bytes: usize| file[at..at + bytes].iter().rev().fold(0, |n, byte| n << 8 | u64::from(*byte));
    let (table, entry, count) = (number(32, 8), number(54, 2), number(56, 2));
    let is_static = (0..count).all(|i| number(usize::try_from(table + i * entry).expect("in memory"), 4) != PT_INTERP);
    Elf { machine: u16::try_from(number(18, 2)).expect("two bytes"), is_static }
}
