//! What comes from outside, mutated: no panic, no escape from the given folder, bounded memory and
//! time, and never a wrong byte that counts as right.
//!
//! Each target takes sound inputs, changes them by a few mutations, and checks what must hold of
//! any input. `tests/fixtures/fuzz/TARGET/` holds inputs that were of interest once; they are
//! checked first. The order is seeded: the same build tries the same inputs.
//!
//! By hand, longer: `PROOFLINE_FUZZ_SECONDS=600 cargo test --release --test fuzz TARGET`, with
//! `PROOFLINE_FUZZ_SEED` for other inputs than last time. What fails is made small by proptest and
//! written to `target/tmp/fuzz/`.

#![expect(clippy::unwrap_used, clippy::print_stdout, clippy::disallowed_methods, reason = "a test")]

#[path = "fuzz/archives.rs"]
mod archives;
#[path = "fuzz/manifests.rs"]
mod manifests;
#[path = "fuzz/mcp.rs"]
mod mcp;
#[path = "fuzz/mutate.rs"]
mod mutate;
#[path = "fuzz/stores.rs"]
mod stores;
#[path = "fuzz/transcripts.rs"]
mod transcripts;
