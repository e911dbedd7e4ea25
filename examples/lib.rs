//! The examples of drainit; each is a program of its own.
//!
//! ```text
//! cargo run --release --example rolling_deploy
//! ```
