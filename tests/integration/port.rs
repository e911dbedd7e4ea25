//! Free TCP ports on loopback.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};

/// A TCP port of 127.0.0.1 that nobody listens on, and that no other test of this process gets.
///
/// It lies below the range that outgoing connections take their ports from: one out of that range may be taken, by the load on
/// another server, between this look at it and the server's bind.
pub fn free() -> u16 {
    static TRIED: AtomicU16 = AtomicU16::new(0);
    const FIRST: u16 = 10_000;
    const COUNT: u16 = 20_000;
    // Test processes that run side by side start at different places.
    let start = std::process::id().wrapping_mul(101) % u32::from(COUNT);
    for _ in 0..COUNT {
        let tried = TRIED.fetch_add(1, Ordering::Relaxed);
        let offset = (start + u32::from(tried)) % u32::from(COUNT);
        let port = FIRST + u16::try_from(offset).expect("less than COUNT");
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
    panic!("no port of 127.0.0.1 between {FIRST} and {} is free", FIRST + COUNT);
}
