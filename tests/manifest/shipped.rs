//! Every shipped file is sound, and its schema is current.

use proofline::cli::render;

use crate::common::{compiled, root};

#[test]
fn quickstart_compiles() {
    let (plan, warnings) = compiled(&root(), "pipelines/quickstart.toml", &[])
        .unwrap_or_else(|d| panic!("{}", render::text(&d, false)));
    assert!(warnings.is_empty(), "{}", render::text(&warnings, false));
    println!("{plan:#?}");
}
