//! The `proofline` program.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(proofline::cli::main())
}
