//! Paid commands: bought once, whatever happens; what can't be known is asked.

use nix::sys::signal::{Signal, kill, killpg};
use serde_json::Value;

use crate::env::{Env, pid, supervisors, until, wait};
use crate::shop::Shop;

/// Three nodes that buy, wait, and write what they got and a bill.
fn pipeline(shop: &Shop, seconds: &str, extra: &str) -> String {
    format!(
        r#"
format = 1
name   = "buying"
{extra}
[params]
word = {{ default = "plain" }}
[axes]
n = ["1", "2", "3"]
[stage.buy]
kind    = "command"
over    = ["n"]
effect  = "paid"
network = true
cost    = "bill"
limits  = {{ usd = 0.5, time = "20s" }}
run     = ["bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/{}; echo {{{{ n }}}} >&3; read -r got <&3; sleep {seconds}; echo $got {{{{ params.word }}}} > got.txt; echo '{{\"usd\": 0.125}}' > bill.json"]
outputs = {{ got = {{ path = "got.txt" }}, bill = {{ path = "bill.json" }} }}
[stage.all]
kind    = "command"
needs   = ["buy"]
over    = []
run     = ["sh", "-c", "cat in/buy/*/got > all.txt"]
outputs = {{ text = {{ path = "all.txt" }} }}
"#,
        shop.port
    )
}

fn project(shop: &Shop, seconds: &str, extra: &str) -> Env {
    let env = Env::new();
    env.write("pipelines/buying.toml", &pipeline(shop, seconds, extra));
    env
}

const RUN: [&str; 6] = ["run", "pipelines/buying.toml", "--trust", "--json", "--jobs", "2"];

fn states(env: &Env) -> Vec<String> {
    let spend = env.run(&["spend", "--json"]).ok().json();
    let attempts = spend["attempts"].as_array().unwrap();
    attempts.iter().map(|a| a["state"].as_str().unwrap().to_owned()).collect()
}

fn once_each(shop: &Shop) -> bool {
    shop.sold() == ["1", "2", "3"].map(|n| (n.to_owned(), 1)).into()
}

#[test]
fn what_was_paid_for_is_in_the_ledger_and_not_bought_again() {
    let shop = Shop::open();
    let env = project(&shop, "0", "");
    assert_eq!(env.go(&RUN[1..2])["nodes"]["executed"], 4);
    let spend = env.run(&["spend", "--json"]).ok().json();
    assert_eq!(spend["usd"], "0.375", "{spend}");
    assert_eq!(states(&env), ["settled"; 3]);
    assert_eq!(env.go(&RUN[1..2])["nodes"]["executed"], 0);
    assert!(once_each(&shop), "{:?}", shop.sold());
    // The ledger is in the packs: it outlives the index.
    for file in ["index.sqlite", "index.sqlite-wal", "index.sqlite-shm"] {
        let _ = std::fs::remove_file(env.path(".proofline").join(file));
    }
    assert_eq!(env.run(&["spend", "--json"]).ok().json(), spend);
    let record = env.run(&["show", "buy[n=1]", "--json"]).ok().json();
    assert_eq!(record["record"]["usd"], "0.125", "{record}");
}

#[test]
fn a_paid_command_outlives_its_killed_engine_and_its_result_is_taken() {
    let shop = Shop::open();
    let env = project(&shop, "1.5", "");
    let first = env.spawn(&RUN);
    until(20, "two are bought", || (shop.sold().len() == 2).then_some(()));
    killpg(pid(&first), Signal::SIGKILL).unwrap();
    wait(first);
    assert_eq!(states(&env), ["started"; 2]);
    let second = env.run(&RUN).ok().json();
    assert_eq!(second["nodes"]["executed"], 4, "{second}");
    assert!(once_each(&shop), "{:?}", shop.sold());
    assert_eq!(states(&env), ["settled"; 3]);
    assert_eq!(std::fs::read_dir(env.path(".proofline/attempts")).unwrap().count(), 0);
}

#[test]
fn a_lost_attempt_is_unknown_until_somebody_decides() {
    let shop = Shop::open();
    let env = project(&shop, "5", "");
    let first = env.spawn(&RUN);
    until(20, "two are bought", || (shop.sold().len() == 2).then_some(()));
    let lost: Vec<String> = shop.sold().into_keys().collect();
    killpg(pid(&first), Signal::SIGKILL).unwrap();
    for supervisor in supervisors(&env) {
        kill(supervisor, Signal::SIGKILL).unwrap();
    }
    wait(first);
    env.edit("pipelines/buying.toml", "sleep 5", "sleep 5");
    let second = env.run(&RUN);
    assert_eq!(second.code, 4, "{} {}", second.stdout, second.stderr);
    assert_eq!(second.stderr.matches("held: buy").count(), 2, "{}", second.stderr);
    assert!(second.stderr.contains("proofline settle"), "{}", second.stderr);
    // The third went on.
    assert_eq!(shop.sold().len(), 3);
    let mut now = states(&env);
    now.sort();
    assert_eq!(now, ["settled", "unknown", "unknown"]);
    for n in &lost {
        env.run(&["settle", &format!("buy[n={n}]"), "respend", "--why", "a test"]).ok();
    }
    assert_eq!(env.run(&RUN).ok().json()["nodes"]["executed"], 3);
    assert_eq!(shop.sold().values().sum::<usize>(), 5);
    let none = env.run(&["settle", "buy[n=1]", "respend"]);
    assert!(none.code == 1 && none.stderr.contains("was lost"), "{}", none.stderr);
}

#[test]
fn nothing_is_begun_that_could_pass_the_budget() {
    let shop = Shop::open();
    let env = project(&shop, "0", "[budget]\nusd = 0.7\n");
    let held = env.run(&RUN);
    // One is reserved at 0.5 and settles at 0.125; a second fits beside it, a third doesn't.
    assert_eq!(held.code, 4, "{} {}", held.stdout, held.stderr);
    assert!(held.stderr.contains("more than the budget leaves"), "{}", held.stderr);
    let bought = shop.sold().len();
    assert!((1..3).contains(&bought), "{:?}", shop.sold());
    env.edit("pipelines/buying.toml", "usd = 0.7", "usd = 7");
    let mut most = RUN.to_vec();
    most.extend(["--max-usd", "0.1"]);
    assert_eq!(env.run(&most).code, 4);
    assert_eq!(shop.sold().len(), bought);
    assert_eq!(env.run(&RUN).ok().json()["state"], "complete");
    assert!(once_each(&shop), "{:?}", shop.sold());
}

#[test]
fn a_failed_attempt_is_spent_and_one_that_never_began_is_not() {
    let shop = Shop::open();
    let env = project(&shop, "0", "");
    env.edit("pipelines/buying.toml", "sleep 0;", "exit 3;");
    assert_eq!(env.run(&RUN).code, 3);
    let spend: Value = env.run(&["spend", "--json"]).ok().json();
    let attempts = spend["attempts"].as_array().unwrap();
    assert!(attempts.iter().all(|a| a["state"] == "settled" && a["usd"] == "0.5"), "{spend}");
    let env = project(&shop, "0", "");
    env.edit("pipelines/buying.toml", "[\"bash\"", "[\"no-such-program\"");
    assert_eq!(env.run(&RUN).code, 3);
    assert!(states(&env).iter().all(|state| state == "void"), "{:?}", states(&env));
}

#[test]
fn an_answer_from_another_recipe_is_not_bought_again_by_accident() {
    let shop = Shop::open();
    let env = project(&shop, "0", "");
    assert_eq!(env.go(&RUN[1..2])["nodes"]["executed"], 4);
    let set = ["pipelines/buying.toml", "--set", "word=other"];
    let mut run = vec!["run"];
    run.extend(set);
    run.extend(["--trust", "--json"]);
    let planned = env.run(&["plan", "pipelines/buying.toml", "--set", "word=other", "--json"]).ok().json();
    let buying = planned["nodes"].as_array().unwrap().iter().find(|n| n["id"] == "buy[n=1]").unwrap();
    assert_eq!(buying["usd"], serde_json::json!({ "low": 0, "high": 0.5, "respend": true }), "{buying}");
    let refused = env.run(&run);
    assert_eq!(refused.code, 4, "{} {}", refused.stdout, refused.stderr);
    assert!(
        refused.stderr.contains("cost 0.125 USD") && refused.stderr.contains("run.2"),
        "{}",
        refused.stderr
    );
    assert!(once_each(&shop), "{:?}", shop.sold());
    // One is bought again, the others are kept.
    let mut buy = run.clone();
    buy.extend(["--respend", "buy[n=2]", "--accept", "buy[n=1]", "--accept", "buy[n=3]"]);
    assert_eq!(env.run(&buy).code, 1);
    buy.extend(["--why", "the word is shown only"]);
    let bought = env.run(&buy).ok().json();
    assert_eq!(bought["nodes"]["executed"], 2, "{bought}");
    assert_eq!(shop.sold()["2"], 2);
    assert_eq!(shop.sold()["1"], 1);
    let record = env.run(&["show", "buy[n=1]", "--json"]).ok().json();
    assert_eq!(record["record"]["blessed"], "the word is shown only", "{record}");
    assert_eq!(env.run(&run).ok().json()["nodes"]["executed"], 0);
}
