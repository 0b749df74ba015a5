//! Simulations of the claims in `docs/methodology.md`, with fewer draws than its tables.

#[path = "../examples/methodology/simulation.rs"]
#[expect(dead_code, reason = "only the tables use the whole module")]
mod simulation;

use mantissa_analysis::{Cluster, cluster_interval, median_interval, wilson};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use simulation::{CONTINUOUS, DISTRIBUTIONS, Rate};

/// Returns the standard error of an estimated rate whose true value is `p`.
fn standard_error(rate: Rate, p: f64) -> f64 {
    (p * (1.0 - p) / rate.draws as f64).sqrt()
}

/// Returns the coverage with the stopping rule, pooled over three noise limits.
fn pooled_coverage_with_stopping(distribution: simulation::TimeDistribution) -> f64 {
    let mut pooled = Rate::default();
    for n in [30.0, 100.0, 200.0] {
        let (rate, _) = simulation::coverage_with_stopping(distribution, distribution.noise_at(n), 1_200);
        pooled.hits += rate.hits;
        pooled.draws += rate.draws;
    }
    pooled.share()
}

#[test]
fn median_interval_has_its_nominal_coverage() {
    for distribution in DISTRIBUTIONS {
        for n in [20, 21, 31] {
            let covered = simulation::coverage_with_fixed_samples(
                distribution,
                distribution.median(),
                n,
                3_000,
                median_interval,
            )
            .share();
            assert!(covered >= 0.93, "{} {n}: {covered}", distribution.name);
            assert!(
                covered <= 0.97 || distribution.tick > 0.0,
                "{} {n}: {covered}",
                distribution.name
            );
        }
    }
}

#[test]
fn stopping_rule_keeps_the_nominal_coverage() {
    for distribution in &DISTRIBUTIONS[..CONTINUOUS] {
        let covered = pooled_coverage_with_stopping(*distribution);
        assert!(
            (0.93..=0.97).contains(&covered),
            "{}: {covered}",
            distribution.name
        );
    }
}

#[test]
fn stopping_rule_keeps_the_coverage_with_clock_ticks() {
    for distribution in &DISTRIBUTIONS[CONTINUOUS..] {
        // This noise limit is loose because some strict limits cannot be reached with a coarse clock.
        let (rate, _) = simulation::coverage_with_stopping(*distribution, distribution.noise_at(30.0), 1_000);
        assert!(rate.share() >= 0.93, "{}: {}", distribution.name, rate.share());
    }
}

#[test]
fn stopping_at_the_first_narrow_interval_undercovers() {
    let (rate, _) =
        simulation::coverage_at_first_narrow_interval(DISTRIBUTIONS[0], DISTRIBUTIONS[0].noise_at(80.0), 700);
    assert!(
        rate.share() < 0.93,
        "the checks above could not fail: {}",
        rate.share()
    );
}

#[test]
fn interval_over_five_processes_has_its_nominal_coverage() {
    for between in [0.0, 5.0] {
        let covered = simulation::coverage_over_processes(5, between, 300);
        // The range of five processes covers 93.75 %. The limit is 93 % minus two standard errors for 300 draws.
        let min_coverage = 0.93 - 2.0 * standard_error(covered, 0.93);
        assert!(covered.share() >= min_coverage, "{between}: {}", covered.share());
    }
}

#[test]
fn cluster_interval_covers_where_wilson_undercovers() {
    let mut random = ChaCha8Rng::seed_from_u64(6);
    let (mut by_passage, mut by_token) = (Rate::default(), Rate::default());
    for seed in 0..300 {
        // In each passage, 30 to 90 % of the tokens are correct; the mean over passages is 60 %.
        let passages: Vec<Cluster> = (0..20)
            .map(|_| {
                let tokens = random.random_range(20..60_u32);
                let share = 0.3 + 0.6 * random.random::<f64>();
                let right = (0..tokens).filter(|_| random.random::<f64>() < share).count();
                Cluster {
                    numerator: right as f64,
                    denominator: f64::from(tokens),
                }
            })
            .collect();
        let sum = |pick: fn(&Cluster) -> f64| passages.iter().map(pick).sum::<f64>() as u64;
        let wilson_estimate = wilson(sum(|one| one.numerator), sum(|one| one.denominator)).unwrap();
        by_passage.count(cluster_interval(&passages, seed).unwrap().contains(0.6));
        by_token.count(wilson_estimate.interval.unwrap().contains(0.6));
    }
    // The limit is 93 % minus two standard errors for 300 draws.
    let min_coverage = 0.93 - 2.0 * standard_error(by_passage, 0.93);
    assert!(by_passage.share() >= min_coverage, "{}", by_passage.share());
    assert!(by_token.share() < 0.8, "{}", by_token.share());
}

#[test]
fn false_positive_rate_matches_the_exact_rate() {
    // Five against five: 4 of the 252 assignments have U ≤ 2, and 4 are as extreme on the other side.
    let rate = simulation::false_positives(5, 1, 6_000);
    let exact = 8.0 / 252.0;
    assert!(
        (rate.share() - exact).abs() <= 3.0 * standard_error(rate, exact),
        "{}",
        rate.share()
    );
    assert_eq!(simulation::false_positives(3, 1, 300).hits, 0);
}

#[test]
fn false_positive_rate_of_a_family_is_at_most_5_percent() {
    let rate = simulation::false_positives(8, 6, 400);
    assert!(rate.share() <= 0.05, "{}", rate.share());
    assert!(rate.hits > 0, "at least one family must have a finding");
}

#[test]
fn methodology_page_has_the_current_constants() {
    let page = include_str!("../../../docs/methodology.md");
    assert!(
        page.contains(&simulation::constants()),
        "run `cargo run --release -p mantissa-analysis --example methodology`"
    );
}

#[test]
fn methodology_page_has_the_current_results() {
    // Recomputes one fast column or cell of each kind of table, with as many draws as on the page.
    const DRAWS: usize = 20_000;
    let page = include_str!("../../../docs/methodology.md");
    let percent = |rate: Rate| format!("{:.1} %", 100.0 * rate.share());
    for distribution in DISTRIBUTIONS {
        let [at_20, at_21] = [20, 21].map(|n| {
            percent(simulation::coverage_with_fixed_samples(
                distribution,
                distribution.median(),
                n,
                DRAWS,
                median_interval,
            ))
        });
        let row = format!("| {} | {at_20} | {at_21} |", distribution.name);
        assert!(page.contains(&row), "not in docs/methodology.md: {row}");
    }
    let row = format!(
        "| 5 against 5 | 0.0079 | {} |",
        percent(simulation::false_positives(5, 1, DRAWS))
    );
    assert!(page.contains(&row), "not in docs/methodology.md: {row}");
}
