//! Pure numbers: descriptive statistics, intervals, measures of rankings.
//!
//! Functions take slices of finite numbers and return `None` where a number is
//! not estimable; they never return NaN. Sums run in the order given, so a
//! caller who wants equal results on every machine sorts its values first.
//! Only `+ - * /` and square roots are used, which IEEE 754 rounds the same
//! everywhere; what needs a logarithm uses [`log2`], and quantiles of
//! distributions are rounded to ten decimals.

mod describe;
mod interval;
mod ranking;

pub use describe::{cv, iqr, log2, mean, median, population_sd, quantile, sample_sd};
pub use interval::{Interval, mean_interval, t_quantile};
pub use ranking::{average_precision, dcg, ndcg, precision_at, recall_at, reciprocal_rank};
