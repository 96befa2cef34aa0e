//! Two engines at once on one store.

use crate::env::{Env, over_servers, wait};

#[test]
fn two_runs_at_once_end_well_with_one_report() {
    let env = Env::new();
    env.server("good", &[], "");
    env.server("other", &["--slow", "20"], "");
    env.write("pipelines/servers.toml", &over_servers("good,other"));
    let args = ["run", "pipelines/servers.toml", "--trust", "--json"];
    let (one, two) = (env.spawn(&args), env.spawn(&args));
    let mut runs = Vec::new();
    for child in [one, two] {
        let said = wait(child);
        let object = said.json();
        assert_eq!((&object["state"], said.code), (&"complete".into(), 0), "{object} {}", said.stderr);
        let nodes = &object["nodes"];
        assert_eq!(nodes["executed"].as_u64().unwrap() + nodes["reused"].as_u64().unwrap(), 15, "{object}");
        runs.push(object["run"].as_str().unwrap().to_owned());
    }
    let result = |run: &str| env.run(&["report", run, "--json"]).ok().json()["result"].clone();
    assert_eq!(result(&runs[0]), result(&runs[1]));
    assert_eq!(env.run(&["store", "verify", "--json"]).ok().json()["ok"], true);
    assert!(env.executed(&["pipelines/servers.toml"]).is_empty());
    assert_eq!(result("latest"), result(&runs[0]));
}
