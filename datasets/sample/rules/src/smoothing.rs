//! A door that is opened for a moment should not move the temperature much.

use std::collections::VecDeque;

/// The median of the last few values.
#[derive(Debug)]
pub struct MedianFilter {
    width: usize,
    recent: VecDeque<i32>,
}

impl MedianFilter {
    /// A width of zero is taken for one, which changes nothing.
    pub fn new(width: usize) -> Self {
        MedianFilter { width: width.max(1), recent: VecDeque::new() }
    }

    pub fn push(&mut self, value: i32) -> i32 {
        if self.recent.len() == self.width {
            self.recent.pop_front();
        }
        self.recent.push_back(value);
        self.middle()
    }

    fn middle(&self) -> i32 {
        let mut sorted: Vec<i32> = self.recent.iter().copied().collect();
        sorted.sort_unstable();
        let half = sorted.len() / 2;
        if sorted.len() % 2 == 1 {
            sorted[half]
        } else {
            let sum = i64::from(sorted[half - 1]) + i64::from(sorted[half]);
            (sum / 2) as i32
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_spike_disappears() {
        let mut filter = MedianFilter::new(3);
        let out: Vec<i32> = [4000, 4100, 19_000, 4200].into_iter().map(|v| filter.push(v)).collect();
        assert_eq!(out, [4000, 4050, 4100, 4200]);
    }

    #[test]
    fn width_zero_passes_everything() {
        let mut filter = MedianFilter::new(0);
        assert_eq!([filter.push(1), filter.push(9)], [1, 9]);
    }
}
