//! Comparison of statistics with SciPy. `peers/estimates.py` writes the reference values.

use mantissa_analysis::{
    Sample, WelchTerms, bca_interval, change_points, equivalence, hodges_lehmann_ratio, holm, mann_whitney,
    mcnemar, median, median_absolute_deviation, paired, serial_dependence, welch, welch_ratio, wilson,
};
use serde_json::Value;

fn golden() -> Value {
    serde_json::from_str(include_str!("golden/statistics.json")).unwrap()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(number).collect()
}

fn rows<'a>(golden: &'a Value, table: &str) -> &'a [Value] {
    let rows = golden[table].as_array().unwrap();
    assert!(!rows.is_empty(), "{table} is empty");
    rows
}

/// Returns the sample whose name is `row[key]`.
fn sample_for(golden: &Value, row: &Value, key: &str) -> Vec<f64> {
    numbers(&golden["samples"][row[key].as_str().unwrap()])
}

/// Asserts equality within a tolerance, which is relative for expected values above 1 and absolute below.
fn assert_close(actual: f64, expected: &Value, tolerance: f64, row: &Value) {
    let expected = number(expected);
    let allowed = tolerance * expected.abs().max(1.0);
    assert!((actual - expected).abs() <= allowed, "{actual} {expected} {row}");
}

/// Asserts that p-values are equal within a relative tolerance of 1e-9, because small p-values matter.
fn assert_p(actual: f64, expected: &Value, row: &Value) {
    let expected = number(expected);
    assert!(
        (actual / expected - 1.0).abs() <= 1e-9,
        "{actual} {expected} {row}"
    );
}

#[test]
fn deviations_and_quantiles_match_scipy() {
    let golden = golden();
    for (name, expected) in golden["mad"].as_object().unwrap() {
        let sample = Sample::new(numbers(&golden["samples"][name])).unwrap();
        assert_close(median_absolute_deviation(&sample, 0.0), expected, 1e-12, expected);
    }
    for row in rows(&golden, "quantile") {
        let sample = Sample::new(sample_for(&golden, row, "of")).unwrap();
        assert_close(sample.quantile(number(&row["at"])), &row["is"], 1e-12, row);
    }
}

#[test]
fn wilson_intervals_match_scipy() {
    let golden = golden();
    for row in rows(&golden, "wilson") {
        let count = |key: &str| row[key].as_u64().unwrap();
        let interval = wilson(count("hits"), count("n")).unwrap().interval.unwrap();
        assert_close(interval.low, &row["low"], 1e-12, row);
        assert_close(interval.high, &row["high"], 1e-12, row);
    }
}

#[test]
fn mann_whitney_tests_match_scipy() {
    let golden = golden();
    for row in rows(&golden, "mann_whitney") {
        let test = mann_whitney(
            &sample_for(&golden, row, "first"),
            &sample_for(&golden, row, "second"),
        )
        .unwrap();
        assert_eq!(test.u, number(&row["u"]), "{row}");
        assert_p(test.p, &row["p"], row);
    }
}

#[test]
fn signed_rank_tests_match_scipy() {
    let golden = golden();
    for row in rows(&golden, "signed_rank") {
        let n = row["n"].as_u64().unwrap() as usize;
        let cut = |key| sample_for(&golden, row, key)[..n].to_vec();
        assert_p(paired(&cut("first"), &cut("second")).unwrap().p, &row["p"], row);
    }
}

#[test]
fn hodges_lehmann_intervals_invert_the_test_of_scipy() {
    let golden = golden();
    for row in rows(&golden, "hodges_lehmann") {
        let found = hodges_lehmann_ratio(
            &sample_for(&golden, row, "first"),
            &sample_for(&golden, row, "second"),
        )
        .unwrap();
        let interval = found.interval.unwrap();
        assert_close(found.value, &row["ratio"], 1e-12, row);
        // The tolerance is 2e-9 because the script tests factors at a relative offset of 1e-9 on either side of each quotient.
        assert_close(interval.low, &row["low"], 2e-9, row);
        assert_close(interval.high, &row["high"], 2e-9, row);
    }
}

#[test]
fn mcnemar_tests_match_scipy() {
    let golden = golden();
    for row in rows(&golden, "mcnemar") {
        let count = |key: &str| row[key].as_u64().unwrap();
        assert_p(mcnemar(count("first"), count("second")), &row["p"], row);
    }
}

#[test]
fn holm_matches_its_definition() {
    let golden = golden();
    let adjusted = holm(&numbers(&golden["holm"]["p"]));
    for (actual, expected) in adjusted
        .iter()
        .zip(golden["holm"]["adjusted"].as_array().unwrap())
    {
        assert_p(*actual, expected, &golden["holm"]);
    }
}

#[test]
fn bca_interval_matches_exhaustive_resampling() {
    let golden = golden();
    let row = &golden["bca_mean"];
    let values = sample_for(&golden, row, "of");
    let mean = |values: &mut [f64]| values.iter().sum::<f64>() / values.len() as f64;
    let spread =
        values.iter().copied().fold(f64::MIN, f64::max) - values.iter().copied().fold(f64::MAX, f64::min);
    let sample = Sample::new(values).unwrap();
    // With 2 000 resamples, the standard error of a 2.5 % tail is 0.35 percentage points. This error moves the ends by a fiftieth of the
    // range.
    for seed in 0..5 {
        let interval = bca_interval(&sample, seed, mean).unwrap();
        let near = |actual: f64, key: &str| (actual - number(&row[key])).abs() < spread / 50.0;
        assert!(
            near(interval.low, "low") && near(interval.high, "high"),
            "{interval:?} {row}"
        );
    }
}

#[test]
fn equivalence_tests_match_scipy() {
    let golden = golden();
    for row in rows(&golden, "tost") {
        let (first, second) = (
            sample_for(&golden, row, "first"),
            sample_for(&golden, row, "second"),
        );
        let found = equivalence(&first, &second, number(&row["margin"])).unwrap();
        assert_p(found.p, &row["p"], row);
        assert_close(found.interval.low, &row["low"], 1e-9, row);
        assert_close(found.interval.high, &row["high"], 1e-9, row);
    }
}

#[test]
fn welch_tests_match_scipy() {
    let golden = golden();
    let terms = WelchTerms::default();
    for row in rows(&golden, "welch") {
        let found = welch(
            &sample_for(&golden, row, "baseline"),
            &sample_for(&golden, row, "candidate"),
            &terms,
        )
        .unwrap();
        assert_p(found.p, &row["p"], row);
        assert_close(found.value, &row["value"], 1e-9, row);
        assert_close(found.interval.low, &row["low"], 1e-9, row);
        assert_close(found.interval.high, &row["high"], 1e-9, row);
        assert_close(found.freedom, &row["freedom"], 1e-9, row);
    }
    for row in rows(&golden, "welch_of_logarithms") {
        let found = welch_ratio(
            &sample_for(&golden, row, "baseline"),
            &sample_for(&golden, row, "candidate"),
            &terms,
        )
        .unwrap();
        assert_p(found.p, &row["p"], row);
        assert_close(found.value.ln(), &row["value"], 1e-9, row);
        assert_close(found.interval.low.ln(), &row["low"], 1e-9, row);
        assert_close(found.interval.high.ln(), &row["high"], 1e-9, row);
    }
}

#[test]
fn change_points_match_mongodbs_e_divisive() {
    let golden: Value = serde_json::from_str(include_str!("golden/change_points.json")).unwrap();
    for row in rows(&golden, "histories") {
        let found = change_points(&numbers(&row["values"]), 1);
        let firsts: Vec<f64> = found.iter().map(|point| point.first as f64).collect();
        assert_eq!(firsts, numbers(&row["firsts"]), "{}", row["name"]);
    }
}

#[test]
fn trend_test_matches_scipy() {
    let golden = golden();
    for (name, expected) in golden["trend_p"].as_object().unwrap() {
        let found = serial_dependence(&numbers(&golden["samples"][name])).unwrap();
        assert_p(found.drift_p, expected, expected);
    }
}

#[test]
fn wider_median_interval_matches_scipy() {
    let golden = golden();
    for row in rows(&golden, "median_order_statistics") {
        let (n, within) = (row["n"].as_u64().unwrap(), number(&row["within"]));
        assert!(number(&row["covers"]) >= 0.95, "{row}");
        // The values are 1, 2, …, n with a tie in the middle, which requires the wider interval.
        let values = (1..=n).map(|i| if i == n / 2 + 1 { n / 2 } else { i } as f64);
        let interval = median(values).unwrap().interval.unwrap();
        assert_eq!(
            (interval.low, interval.high),
            (within, n as f64 + 1.0 - within),
            "{row}"
        );
    }
}
