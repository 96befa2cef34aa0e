//! The machine on which something was measured.

/// Processor model and number of processors, e.g. `Xeon E5 x 8`: timings of
/// different machines are not put together.
#[must_use]
pub fn machine() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':').map(|(_, model)| model.trim().to_owned()))
        .unwrap_or_else(|| std::env::consts::ARCH.to_owned());
    let count = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    format!("{model} x {count}")
}
