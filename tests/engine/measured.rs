//! What is measured is what it says.

use serde_json::Value;

use crate::env::{Env, of_stages, questions};

fn metric(env: &Env, name: &str) -> f64 {
    let report = env.run(&["report", "--json"]).ok().json();
    let value = &report["result"]["arms"][0]["metrics"][name]["value"];
    value.as_f64().unwrap_or_else(|| panic!("{name}: {value}"))
}

#[test]
fn slow_first_calls_are_not_in_the_latency() {
    let env = Env::new();
    env.server("good", &["--slow-first", "5:400"], "");
    env.write("datasets/questions/tiny.toml", &questions(&["alpha", "beta", "gamma"], 5));
    env.executed(&["pipelines/servers.toml"]);
    let first: Value =
        serde_json::from_str(&env.run(&["show", "warm.read", "--part", "warmup"]).ok().stdout).unwrap();
    assert!(first["cold_ms"].as_f64().unwrap() >= 400.0, "the fake is slow at first: {first}");
    assert!(metric(&env, "latency_p95_ms") < 200.0);
    // The index is reused, the warmth is not: the new server is slow at first as well.
    let added = env.executed(&["pipelines/servers.toml", "--set", "replicates=2"]);
    assert!(of_stages(&added, &["index", "warm"]).is_empty(), "{added:?}");
    assert!(metric(&env, "latency_p95_ms") < 200.0);
    let rows = env.rows();
    assert_eq!(rows.len(), 6);
    for row in rows {
        assert!(row["latency_ms"].as_f64().unwrap() < 200.0, "{row}");
    }
}

#[test]
fn the_memory_of_grandchildren_counts() {
    let env = Env::new();
    env.server("good", &["--grandchild-mb", "200", "--slow-index", "300"], "");
    env.executed(&["pipelines/servers.toml"]);
    let mib = metric(&env, "rss_mib");
    assert!((180.0..=220.0).contains(&mib), "{mib} MiB of 200");
}

#[test]
fn identical_replicates_say_so() {
    let env = Env::new();
    env.server("good", &[], "");
    env.executed(&["pipelines/servers.toml", "--set", "replicates=2"]);
    let report = env.run(&["report", "--json"]).ok().json();
    let arm = &report["result"]["arms"][0];
    assert_eq!(arm["identical"], true, "{arm}");
    assert!(arm["notes"].to_string().contains("identical"), "{arm}");
    assert!(env.run(&["report"]).ok().stdout.contains("identical"));
}
