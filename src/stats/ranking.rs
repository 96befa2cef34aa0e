//! Measures of one ranked list against what is relevant.
//!
//! `relevant[i]` says whether the result at rank `i + 1` is relevant; `total`
//! is how many relevant documents there are. Lists hold each document once:
//! the caller has broken ties and removed duplicates.

use super::describe::log2;

/// 1 / rank of the first relevant result; 0 without one.
pub fn reciprocal_rank(relevant: &[bool]) -> f64 {
    relevant.iter().position(|r| *r).map_or(0.0, |i| 1.0 / (i + 1) as f64)
}

/// Precision at K: relevant results among the first `k`, over `k` (also when
/// the list is shorter, as `trec_eval` does). None for `k` = 0.
pub fn precision_at(relevant: &[bool], k: usize) -> Option<f64> {
    (k > 0).then(|| first(relevant, k) / k as f64)
}

/// Recall at K: relevant results among the first `k`, over all that are
/// relevant. None when nothing is.
pub fn recall_at(relevant: &[bool], k: usize, total: usize) -> Option<f64> {
    (total > 0).then(|| first(relevant, k) / total as f64)
}

/// Average precision over the whole list: the sum of precision at each
/// relevant rank, over all that are relevant (`map` of `trec_eval` for one
/// query). None when nothing is relevant.
pub fn average_precision(relevant: &[bool], total: usize) -> Option<f64> {
    (total > 0).then_some(())?;
    let mut seen = 0.0;
    let mut sum = 0.0;
    for (i, hit) in relevant.iter().enumerate() {
        if *hit {
            seen += 1.0;
            sum += seen / (i + 1) as f64;
        }
    }
    Some(sum / total as f64)
}

/// Discounted cumulative gain at K with linear gain: `sum(gain / log2(rank + 1))`
/// (Järvelin and Kekäläinen 2002; `trec_eval`).
pub fn dcg(gains: &[f64], k: usize) -> f64 {
    let discount = |rank: usize| log2((rank + 1) as f64).unwrap_or(1.0);
    gains.iter().take(k).enumerate().map(|(i, gain)| gain / discount(i + 1)).sum()
}

/// Normalised DCG at K: [`dcg`] of the list over that of the best order of all
/// `judged` gains. None when no judged gain is positive.
pub fn ndcg(gains: &[f64], judged: &[f64], k: usize) -> Option<f64> {
    let mut ideal: Vec<f64> = judged.iter().copied().filter(|g| *g > 0.0).collect();
    ideal.sort_by(|a, b| b.total_cmp(a));
    let best = dcg(&ideal, k);
    (best > 0.0).then(|| dcg(gains, k) / best)
}

fn first(relevant: &[bool], k: usize) -> f64 {
    relevant.iter().take(k).filter(|r| **r).count() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measures_of_a_short_list() {
        let list = [false, true, false, true];
        assert!((reciprocal_rank(&list) - 0.5).abs() < 1e-15);
        assert_eq!(precision_at(&list, 10), Some(0.2));
        assert_eq!(recall_at(&list, 2, 4), Some(0.25));
        assert_eq!(average_precision(&list, 4), Some(0.25));
        assert_eq!(average_precision(&[], 2), Some(0.0));
        assert_eq!(recall_at(&list, 2, 0), None);
        assert_eq!(precision_at(&list, 0), None);
        assert_eq!(ndcg(&[1.0], &[0.0], 10), None);
        assert_eq!(ndcg(&[1.0, 1.0], &[1.0, 1.0], 10), Some(1.0));
        assert_eq!(ndcg(&[], &[1.0], 10), Some(0.0));
    }
}
