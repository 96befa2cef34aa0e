//! Descriptive statistics.

/// Arithmetic mean, `sum(x) / n`; none for no values.
pub fn mean(values: &[f64]) -> Option<f64> {
    finite(values)?;
    Some(values.iter().sum::<f64>() / values.len() as f64)
}

/// Quantile at `p` (0 to 1) by linear interpolation between order statistics
/// at index `p (n - 1)`: type 7 of Hyndman and Fan (1996), numpy's default.
/// None for no values or a `p` outside 0 to 1.
pub fn quantile(values: &[f64], p: f64) -> Option<f64> {
    finite(values)?;
    if !(0.0..=1.0).contains(&p) {
        return None;
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = p * (sorted.len() - 1) as f64;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 <= at <= n - 1")]
    let below = at.floor() as usize;
    let above = (below + 1).min(sorted.len() - 1);
    let weight = at - below as f64;
    Some(sorted[below] + (sorted[above] - sorted[below]) * weight)
}

/// Median: the quantile at 0.5.
pub fn median(values: &[f64]) -> Option<f64> {
    quantile(values, 0.5)
}

/// Interquartile range, Q(0.75) - Q(0.25); none below two values.
pub fn iqr(values: &[f64]) -> Option<f64> {
    (values.len() >= 2).then_some(())?;
    Some(quantile(values, 0.75)? - quantile(values, 0.25)?)
}

/// Sample standard deviation, `sqrt(sum((x - mean)^2) / (n - 1))`; none below two values.
pub fn sample_sd(values: &[f64]) -> Option<f64> {
    (values.len() >= 2).then_some(())?;
    Some((squares(values)? / (values.len() - 1) as f64).sqrt())
}

/// Population standard deviation, `sqrt(sum((x - mean)^2) / n)`; none for no values.
pub fn population_sd(values: &[f64]) -> Option<f64> {
    Some((squares(values)? / values.len() as f64).sqrt())
}

/// Coefficient of variation, population sd over mean (as the rag-bench
/// comparison report); none below two values or for a mean of 0.
pub fn cv(values: &[f64]) -> Option<f64> {
    (values.len() >= 2).then_some(())?;
    let mean = mean(values)?;
    if mean == 0.0 {
        return None;
    }
    // Equal values have no spread; the mean of three equal values can be an ulp off.
    if values.iter().all(|v| v.total_cmp(&values[0]).is_eq()) {
        return Some(0.0);
    }
    Some(population_sd(values)? / mean)
}

/// Logarithm to base 2 of a positive finite number, by `ln m = 2 atanh((m - 1)
/// / (m + 1))` on the mantissa `m` in 1 to 2: exact for powers of two, within
/// two units in the last place elsewhere, and the same on every machine.
pub fn log2(x: f64) -> Option<f64> {
    if !(x.is_finite() && x > 0.0) {
        return None;
    }
    let mut exponent = 0.0;
    let mut m = x;
    while m >= 2.0 {
        m /= 2.0;
        exponent += 1.0;
    }
    while m < 1.0 {
        m *= 2.0;
        exponent -= 1.0;
    }
    let z = (m - 1.0) / (m + 1.0);
    let square = z * z;
    // z <= 1/3, so each term is less than a ninth of the one before it.
    let series = (0..20).rev().fold(0.0, |sum, k| 1.0 / f64::from(2 * k + 1) + square * sum);
    Some(exponent + 2.0 * z * series / std::f64::consts::LN_2)
}

fn squares(values: &[f64]) -> Option<f64> {
    let mean = mean(values)?;
    Some(values.iter().map(|v| (v - mean) * (v - mean)).sum())
}

/// `None` when there is nothing to describe.
fn finite(values: &[f64]) -> Option<()> {
    (!values.is_empty() && values.iter().all(|v| v.is_finite())).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn close(a: Option<f64>, b: f64) {
        let a = a.expect("estimable");
        assert!((a - b).abs() < 1e-12, "{a} is not {b}");
    }

    #[test]
    fn quantiles_are_those_of_numpy() {
        close(quantile(&[1.0, 2.0], 0.95), 1.95);
        close(quantile(&[1.0, 2.0, 3.0, 4.0, 5.0], 0.95), 4.8);
        close(iqr(&[1.0, 2.0, 3.0]), 1.0);
        close(iqr(&[1.0, 5.0]), 2.0);
        close(iqr(&[5.0, 1.0, 3.0, 2.0, 4.0]), 2.0);
        close(median(&[4.0, 1.0, 3.0, 2.0]), 2.5);
        close(quantile(&[7.0], 0.99), 7.0);
        assert_eq!(quantile(&[], 0.5), None);
        assert_eq!(quantile(&[1.0, f64::NAN], 0.5), None);
        assert_eq!(quantile(&[1.0], 1.5), None);
        assert_eq!(iqr(&[1.0]), None);
    }

    #[test]
    fn spread() {
        close(sample_sd(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]), (32.0f64 / 7.0).sqrt());
        close(population_sd(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]), 2.0);
        close(cv(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]), 0.4);
        close(cv(&[0.1, 0.1, 0.1]), 0.0);
        assert_eq!(cv(&[0.0, 0.0]), None);
        assert_eq!(cv(&[1.0]), None);
        assert_eq!(mean(&[]), None);
    }

    #[test]
    fn logarithms() {
        for (x, y) in [(1.0, 0.0), (2.0, 1.0), (1024.0, 10.0), (0.25, -2.0)] {
            assert_eq!(log2(x), Some(y));
        }
        assert_eq!(log2(0.0), None);
        assert_eq!(log2(f64::INFINITY), None);
    }

    proptest! {
        #[test]
        fn log2_agrees_with_the_platform(x in 1e-300f64..1e300) {
            let ours = log2(x).expect("positive");
            prop_assert!((ours - x.log2()).abs() <= 1e-13 * ours.abs().max(1.0));
        }

        #[test]
        fn quantiles_rise_and_stay_inside(values in prop::collection::vec(-1e6f64..1e6, 1..40), p in 0.0f64..1.0) {
            let low = quantile(&values, p * 0.5).expect("some");
            let high = quantile(&values, p).expect("some");
            let max = values.iter().copied().fold(f64::MIN, f64::max);
            prop_assert!(low <= high && high <= max);
        }
    }
}
