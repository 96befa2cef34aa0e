//! `store verify`, `store stats`, `store gc`.

use std::path::Path;

use serde_json::json;

use super::args;
use super::context;
use super::exit::{CliError, INFRASTRUCTURE};
use super::out::Out;

pub(super) fn verify(command: &args::StoreVerify, store: Option<&Path>, out: &Out) -> Result<u8, CliError> {
    let store = context::existing(store)?;
    let report = store.verify(!command.quick)?;
    let ok = report.problems.is_empty();
    if command.json {
        let problems: Vec<_> = report
            .problems
            .iter()
            .map(|p| json!({ "kind": p.kind, "where": p.where_, "key": p.key, "repaired": p.repaired }))
            .collect();
        out.json(&json!({ "ok": ok, "problems": problems }));
    } else {
        for problem in &report.problems {
            let repaired =
                if problem.repaired { " (dropped: it is made anew when it is needed)" } else { "" };
            out.data(&format!("{}: {}{repaired}\n", problem.kind, problem.where_));
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

pub(super) fn stats(command: &args::Json, store: Option<&Path>, out: &Out) -> Result<u8, CliError> {
    let store = context::existing(store)?;
    let report = store.gc(usize::MAX, false)?;
    if command.json {
        out.json(&json!({
            "runs": report.runs, "records": report.records, "objects": report.objects, "bytes": report.bytes
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
    }
    Ok(0)
}

pub(super) fn gc(command: &args::Gc, store: Option<&Path>, out: &Out) -> Result<u8, CliError> {
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
