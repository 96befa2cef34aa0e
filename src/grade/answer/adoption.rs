//! How much of a session's work its server did.

use std::collections::BTreeSet;

use super::cited::Cited;
use super::cost::as_f64;
use super::tools::{Lookup, lookup};
use crate::artifact::transcript::Transcript;
use crate::manifest::scenario::Scenario;

/// Columns and their values; those about a server are left out where the arm has none, and
/// what needs a scenario's target for a question.
pub(super) fn columns(
    scenario: Option<&Scenario>,
    transcript: &Transcript,
    server: Option<&str>,
    cited: &[Cited<'_>],
    checked: bool,
) -> Vec<(&'static str, Option<f64>)> {
    let mut out = Vec::new();
    if let Some(scenario) = scenario {
        // With the corpus at hand only files that are there count.
        let files: BTreeSet<&str> =
            cited.iter().filter(|c| !checked || c.path.is_some()).map(Cited::file).collect();
        let target = scenario.target.files.map(|files| as_f64(u64::from(files)));
        out.push(("discoverability", target.map(|target| (as_f64(files.len() as u64) / target).min(1.0))));
    }
    let Some(server) = server else { return out };
    let (mut own, mut all, mut failed) = (0u64, 0u64, 0u64);
    for (_, call, reply) in transcript.exchanges() {
        let Some(kind) = lookup(call) else { continue };
        all += 1;
        if kind == Lookup::Server && call.server.as_deref() == Some(server) {
            own += 1;
            failed += u64::from(reply.is_some_and(|reply| reply.error || reply.text.trim().is_empty()));
        }
    }
    let share = |of: u64, all: u64| (all > 0).then(|| as_f64(of) / as_f64(all));
    out.push(("server_used", Some(if own > 0 { 1.0 } else { 0.0 })));
    out.push(("tool_fluency", share(own, all)));
    out.push(("server_calls", Some(as_f64(own))));
    out.push(("server_failed", share(failed, own)));
    out.push(("native_lookups", Some(as_f64(all - own))));
    out
}
