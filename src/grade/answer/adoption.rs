//! How much of a session's work its server did.

use std::collections::BTreeSet;

use super::Inputs;
use super::cited::Cited;
use super::cost::as_f64;
use super::tools::lookup;
use crate::artifact::transcript::Call;
use crate::manifest::pipeline::Profile;
use crate::manifest::scenario::Scenario;

/// What names of a server's tools begin with.
const MCP: &str = "mcp__";

/// Columns and their values; those about a server are left out where the arm has none, and
/// what needs a scenario's target for a question.
///
/// Profile `rag-bench` counts calls of any server; whether one was used is told by a row's own count
/// of them, where it has one.
pub(super) fn columns(
    scenario: Option<&Scenario>,
    inputs: &Inputs<'_>,
    cited: &[Cited<'_>],
    checked: bool,
    profile: Profile,
) -> Vec<(&'static str, Option<f64>)> {
    let mut out = Vec::new();
    if let Some(scenario) = scenario {
        // With the corpus at hand only files that are there count.
        let files: BTreeSet<&str> =
            cited.iter().filter(|c| !checked || c.path.is_some()).map(Cited::file).collect();
        let target = scenario.target.files.map(|files| as_f64(u64::from(files)));
        out.push(("discoverability", target.map(|target| (as_f64(files.len() as u64) / target).min(1.0))));
    }
    let Some(server) = inputs.server else { return out };
    let rag = profile == Profile::RagBench;
    let is_own = |call: &Call| match &call.server {
        Some(name) => rag || name == server,
        None => rag && call.name.starts_with(MCP),
    };
    let (mut own, mut native, mut failed) = (0u64, 0u64, 0u64);
    for (_, call, reply) in inputs.transcript.exchanges() {
        match lookup(call) {
            _ if is_own(call) => {
                own += 1;
                failed += u64::from(reply.is_some_and(|reply| reply.error || reply.text.trim().is_empty()));
            }
            Some(_) => native += 1,
            None => {}
        }
    }
    let share = |of: u64, all: u64| (all > 0).then(|| as_f64(of) / as_f64(all));
    // Of calls that can't be read nobody knows whose they were.
    let lacks = |field: &str| inputs.claims.is_some_and(|claims| claims.lacks(field));
    let known = !lacks("tool_calls");
    let told = inputs.claims.and_then(|claims| claims.mcp_calls).filter(|_| rag);
    let used = match told {
        Some(calls) => Some(calls > 0),
        None if own > 0 => Some(true),
        None => (known && !(rag && lacks("mcp_calls"))).then_some(false),
    };
    out.push(("server_used", used.map(|used| if used { 1.0 } else { 0.0 })));
    out.push(("tool_fluency", share(own, own + native).filter(|_| known)));
    out.push(("server_calls", Some(as_f64(own)).filter(|_| known)));
    out.push(("server_failed", share(failed, own).filter(|_| known)));
    out.push(("native_lookups", Some(as_f64(native)).filter(|_| known)));
    out
}
