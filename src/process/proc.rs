//! Reading `/proc`: one process at a time, absent ones are `None`.

use std::fs;
use std::io::Read;
use std::sync::OnceLock;

/// Most bytes of a process's environment that are looked at.
const ENVIRON_LIMIT: u64 = 4 << 20;

/// The part of `/proc/PID/stat` that we use.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stat {
    pub(super) pid: i32,
    pub(super) parent: i32,
    pub(super) group: i32,
    /// Ended, but not yet waited for.
    pub(super) zombie: bool,
    /// Start time; with the id it names a process for good.
    pub(super) start: u64,
    /// Processor time of itself and of the children that it waited for, in ticks.
    pub(super) ticks: u64,
    /// Resident memory in KiB, shared pages counted in full.
    pub(super) rss_kib: u64,
}

/// Page size in KiB and clock ticks per second, as the kernel told us at our start.
fn kernel_units() -> (u64, u64) {
    static UNITS: OnceLock<(u64, u64)> = OnceLock::new();
    *UNITS.get_or_init(|| {
        const PAGE_SIZE: u64 = 6;
        const CLOCK_TICKS: u64 = 17;
        let (mut page, mut ticks) = (4096, 100);
        let vector = fs::read("/proc/self/auxv").unwrap_or_default();
        for pair in vector.chunks_exact(16) {
            let word = |at: usize| pair[at..at + 8].try_into().map_or(0, u64::from_ne_bytes);
            match word(0) {
                PAGE_SIZE if word(8) > 0 => page = word(8),
                CLOCK_TICKS if word(8) > 0 => ticks = word(8),
                _ => {}
            }
        }
        (page / 1024, ticks)
    })
}

/// Ticks as milliseconds.
pub(super) fn ticks_ms(ticks: u64) -> f64 {
    ticks as f64 * 1000.0 / kernel_units().1 as f64
}

/// Ids of all processes that we can see.
pub(super) fn pids() -> Vec<i32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// One process.
pub(super) fn stat(pid: i32) -> Option<Stat> {
    let text = fs::read(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold blanks and parentheses itself.
    let close = text.iter().rposition(|b| *b == b')')?;
    let rest = std::str::from_utf8(text.get(close + 1..)?).ok()?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let number = |at: usize| fields.get(at).and_then(|f| f.parse::<u64>().ok()).unwrap_or(0);
    Some(Stat {
        pid,
        parent: fields.get(1)?.parse().ok()?,
        group: fields.get(2)?.parse().ok()?,
        zombie: matches!(*fields.first()?, "Z" | "X" | "x"),
        start: number(19),
        ticks: number(11) + number(12) + number(13) + number(14),
        rss_kib: number(21) * kernel_units().0,
    })
}

/// Memory of a process in KiB with shared pages divided among their users, so
/// that pages shared after a fork are counted once over the family.
pub(super) fn proportional_kib(pid: i32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

/// The value of a variable in the environment that the process was started with.
pub(super) fn variable(pid: i32, name: &str) -> Option<String> {
    let mut environ = Vec::new();
    let file = fs::File::open(format!("/proc/{pid}/environ")).ok()?;
    file.take(ENVIRON_LIMIT).read_to_end(&mut environ).ok()?;
    environ.split(|b| *b == 0).find_map(|have| {
        let value = have.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
        Some(String::from_utf8_lossy(value).into_owned())
    })
}

/// Does the environment that the process was started with hold this entry
/// (`NAME=value`), or with `prefix` one that begins so?
pub(super) fn has_entry(pid: i32, entry: &[u8], prefix: bool) -> bool {
    let mut environ = Vec::new();
    let Ok(file) = fs::File::open(format!("/proc/{pid}/environ")) else { return false };
    if file.take(ENVIRON_LIMIT).read_to_end(&mut environ).is_err() {
        return false;
    }
    environ.split(|b| *b == 0).any(|have| if prefix { have.starts_with(entry) } else { have == entry })
}

/// `PID PROGRAM`, for people.
pub(super) fn describe(pid: i32) -> String {
    let first = fs::read(format!("/proc/{pid}/cmdline")).ok().and_then(|line| {
        let name = line.split(|b| *b == 0).next().unwrap_or_default();
        (!name.is_empty()).then(|| String::from_utf8_lossy(name).into_owned())
    });
    let name = first.or_else(|| fs::read_to_string(format!("/proc/{pid}/comm")).ok()).unwrap_or_default();
    let name: String = name.trim().chars().filter(|c| !c.is_control()).take(120).collect();
    format!("{pid} {name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_process_is_read() {
        let me = i32::try_from(std::process::id()).unwrap();
        assert!(pids().contains(&me));
        let stat = stat(me).unwrap();
        assert!(!stat.zombie && stat.rss_kib > 500 && stat.start > 0);
        let pss = proportional_kib(me).unwrap();
        assert!(pss > 0 && pss <= stat.rss_kib * 2, "{pss} of {}", stat.rss_kib);
        assert!(describe(me).starts_with(&me.to_string()));
        assert!(kernel_units().1 >= 100);
        assert!(stat_of_none());
    }

    fn stat_of_none() -> bool {
        stat(i32::MAX).is_none() && !has_entry(i32::MAX, b"A=b", false)
    }
}
