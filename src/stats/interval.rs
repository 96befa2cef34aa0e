//! Intervals.

use statrs::distribution::{ContinuousCDF, StudentsT};

use super::describe::{mean, sample_sd};

/// An interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// Quantile of Student's t at `p` (0 < p < 1) with `degrees` > 0 of freedom,
/// rounded to ten decimals.
pub fn t_quantile(p: f64, degrees: f64) -> Option<f64> {
    if !(p > 0.0 && p < 1.0) {
        return None;
    }
    let t = StudentsT::new(0.0, 1.0, degrees).ok()?.inverse_cdf(p);
    t.is_finite().then(|| (t * 1e10).round() / 1e10)
}

/// Interval of a mean at a level (0.95): mean ± t(n - 1) sd / sqrt(n). None
/// below two values. Descriptive: it takes the values as independent draws.
pub fn mean_interval(values: &[f64], level: f64) -> Option<Interval> {
    let middle = mean(values)?;
    let half = t_quantile(0.5 + level / 2.0, (values.len().checked_sub(1)?) as f64)? * sample_sd(values)?
        / (values.len() as f64).sqrt();
    Some(Interval { low: middle - half, high: middle + half })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_t() {
        for (p, df, want) in [(0.975, 9.0, 2.262_157_162_8), (0.975, 1.0, 12.706_204_736_4), (0.5, 3.0, 0.0)]
        {
            let t = t_quantile(p, df).expect("estimable");
            assert!((t - want).abs() < 1e-9, "{t} {want}");
        }
        assert_eq!(t_quantile(1.0, 3.0), None);
        assert_eq!(t_quantile(0.5, 0.0), None);
    }

    #[test]
    fn an_interval_needs_two_values() {
        assert_eq!(mean_interval(&[1.0], 0.95), None);
        assert_eq!(mean_interval(&[], 0.95), None);
        assert_eq!(mean_interval(&[1.0, 1.0], 0.95), Some(Interval { low: 1.0, high: 1.0 }));
    }
}
