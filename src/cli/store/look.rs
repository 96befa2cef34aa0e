//! `store verify`, `store stats`, `store gc`.

use std::path::Path;

use serde_json::json;

use super::keep;
use crate::cli::args;
use crate::cli::context;
use crate::cli::exit::{CliError, INFRASTRUCTURE};
use crate::cli::out::Out;

pub(in crate::cli) fn verify(
    command: &args::StoreVerify,
    store: Option<&Path>,
    out: &Out,
) -> Result<u8, CliError> {
    let store = context::existing(store)?;
    let report = store.verify(!command.quick)?;
    let ok = report.problems.is_empty();
    if command.json {
        let problems: Vec<_> = report
            .problems
            .iter()
            .map(|p| json!({ "kind": p.kind, "where": p.where_, "key": p.key, "repaired": p.repaired }))
            .collect();
        let quarantined = keep::listed(&store)?;
        let mut object = json!({ "ok": ok, "problems": problems });
        if !quarantined.is_empty() {
            object["quarantined"] = json!(quarantined);
        }
        out.json(&object);
    } else {
        for problem in &report.problems {
            let repaired =
                if problem.repaired { " (dropped: it is made anew when it is needed)" } else { "" };
            out.data(&format!("{}: {}{repaired}\n", problem.kind, problem.where_));
        }
        for one in store.quarantined()? {
            out.data(&keep::quarantine_text(&one));
        }
        out.data(&format!(
            "{} objects, {} records: {}\n",
            report.objects,
            report.records,
            if ok { "all sound".to_owned() } else { format!("{} problem(s)", report.problems.len()) }
        ));
    }
    Ok(if ok { 0 } else { INFRASTRUCTURE })
}

pub(in crate::cli) fn stats(command: &args::Json, store: Option<&Path>, out: &Out) -> Result<u8, CliError> {
    let store = context::existing(store)?;
    let report = store.gc(usize::MAX, false)?;
    let (untrusted, pins) = (store.untrusted()?.len(), store.pins()?.len());
    let quarantined = store.quarantined()?.len();
    if command.json {
        out.json(&json!({
            "runs": report.runs, "records": report.records, "objects": report.objects, "bytes": report.bytes,
            "untrusted": untrusted, "pins": pins, "quarantined": quarantined, "origin": store.origin()
        }));
    } else {
        out.data(&format!(
            "{}: {} runs, {} records, {} objects, {} bytes\n",
            store.root().display(),
            report.runs,
            report.records,
            report.objects,
            report.bytes
        ));
        for (count, words) in [
            (untrusted, "record(s) from elsewhere are not used; see `proofline store untrusted`"),
            (quarantined, "key(s) are in quarantine; see `proofline store quarantine`"),
            (pins, "pin(s) hold what gc would delete; see `proofline store pin`"),
        ] {
            if count > 0 {
                out.data(&format!("{count} {words}\n"));
            }
        }
    }
    Ok(0)
}

pub(in crate::cli) fn gc(command: &args::Gc, store: Option<&Path>, out: &Out) -> Result<u8, CliError> {
    let store = context::existing(store)?;
    let report = store.gc(command.keep, command.delete)?;
    if command.json {
        out.json(&json!({
            "deleted": command.delete, "records": report.dead_records, "objects": report.dead_objects,
            "bytes": report.freed, "leftovers": report.leftovers
        }));
    } else {
        let word = if command.delete { "deleted" } else { "would delete" };
        out.data(&format!(
            "{word} {} records, {} objects, {} left-over folders: {} bytes\n",
            report.dead_records, report.dead_objects, report.leftovers, report.freed
        ));
        if !command.delete {
            out.say("nothing was deleted; --delete does it");
        }
    }
    Ok(0)
}
