//! Simulations of the claims in `docs/methodology.md`, with fewer draws than its tables.

#[path = "../examples/methodology/simulation.rs"]
#[expect(dead_code, reason = "only the tables use the whole module")]
mod simulation;

use mantissa_analysis::{Cluster, cluster_interval, median_interval, wilson};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use simulation::{CONTINUOUS, LAWS, Rate};

/// Returns the standard error of a rate if the true value is `p`.
fn error(rate: Rate, p: f64) -> f64 {
    (p * (1.0 - p) / rate.of as f64).sqrt()
}

/// Returns the coverage with the stopping rule, pooled over three noise limits.
fn stopped(law: simulation::Law) -> f64 {
    let mut pooled = Rate::default();
    for n in [30.0, 100.0, 200.0] {
        let (rate, _) = simulation::stopped(law, law.noise_at(n), 1_200);
        pooled.hits += rate.hits;
        pooled.of += rate.of;
    }
    pooled.share()
}

#[test]
fn the_interval_of_the_median_covers_what_it_claims_at_any_number_of_values() {
    for law in LAWS {
        for n in [20, 21, 31] {
            let covered = simulation::fixed(law, law.median(), n, 3_000, median_interval).share();
            assert!(covered >= 0.93, "{} {n}: {covered}", law.name);
            assert!(covered <= 0.97 || law.tick > 0.0, "{} {n}: {covered}", law.name);
        }
    }
}

#[test]
fn the_interval_of_the_median_covers_what_it_claims_through_the_stopping_rule() {
    for law in &LAWS[..CONTINUOUS] {
        let covered = stopped(*law);
        assert!((0.93..=0.97).contains(&covered), "{}: {covered}", law.name);
    }
}

#[test]
fn ticks_of_the_clock_do_not_spoil_coverage_through_the_stopping_rule() {
    for law in &LAWS[CONTINUOUS..] {
        // Some noise limits cannot be reached between two ticks; loose ones can.
        let (rate, _) = simulation::stopped(*law, law.noise_at(30.0), 1_000);
        assert!(rate.share() >= 0.93, "{}: {}", law.name, rate.share());
    }
}

#[test]
fn stopping_at_the_first_narrow_interval_would_not_cover_enough() {
    let (rate, _) = simulation::stopped_at_once(LAWS[0], LAWS[0].noise_at(80.0), 700);
    assert!(
        rate.share() < 0.93,
        "the checks above could not fail: {}",
        rate.share()
    );
}

#[test]
fn five_processes_cover_what_is_claimed_however_they_differ() {
    for between in [0.0, 5.0] {
        let covered = simulation::over_processes(5, between, 300);
        // The range of five covers 93.75 %. The limit is two standard errors of 300 draws below 93 %.
        let least = 0.93 - 2.0 * error(covered, 0.93);
        assert!(covered.share() >= least, "{between}: {}", covered.share());
    }
}

#[test]
fn twenty_passages_cover_what_is_claimed_where_their_words_as_single_draws_do_not() {
    let mut random = ChaCha8Rng::seed_from_u64(6);
    let (mut by_passage, mut by_word) = (Rate::default(), Rate::default());
    for seed in 0..300 {
        // In each passage, 30 to 90 % of the tokens are correct; 60 % over all passages.
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
        let by_tokens = wilson(sum(|one| one.numerator), sum(|one| one.denominator)).unwrap();
        by_passage.count(cluster_interval(&passages, seed).unwrap().contains(0.6));
        by_word.count(by_tokens.interval.unwrap().contains(0.6));
    }
    // Two standard errors of 300 draws below 93 %, as for processes.
    let least = 0.93 - 2.0 * error(by_passage, 0.93);
    assert!(by_passage.share() >= least, "{}", by_passage.share());
    assert!(by_word.share() < 0.8, "{}", by_word.share());
}

#[test]
fn the_same_against_the_same_is_called_different_as_often_as_counting_says() {
    // Five against five: U ≤ 2 on either side, 2 · 4 of 252 deals.
    let called = simulation::false_calls(5, 1, 6_000);
    let exact = 8.0 / 252.0;
    assert!(
        (called.share() - exact).abs() <= 3.0 * error(called, exact),
        "{}",
        called.share()
    );
    assert_eq!(simulation::false_calls(3, 1, 300).hits, 0);
}

#[test]
fn a_family_is_called_different_in_at_most_one_of_twenty() {
    let called = simulation::false_calls(8, 6, 400);
    assert!(called.share() <= 0.05, "{}", called.share());
    assert!(called.hits > 0, "at least one family must have a finding");
}

#[test]
fn the_page_was_made_with_these_constants() {
    let page = include_str!("../../../docs/methodology.md");
    assert!(
        page.contains(&simulation::constants()),
        "run `cargo run --release -p mantissa-analysis --example methodology`"
    );
}

#[test]
fn the_page_still_says_what_the_code_finds() {
    // Recomputes a fast column or cell of each kind of table, with the number of draws of the page.
    const DRAWS: usize = 20_000;
    let page = include_str!("../../../docs/methodology.md");
    let percent = |rate: Rate| format!("{:.1} %", 100.0 * rate.share());
    for law in LAWS {
        let [at_20, at_21] =
            [20, 21].map(|n| percent(simulation::fixed(law, law.median(), n, DRAWS, median_interval)));
        let row = format!("| {} | {at_20} | {at_21} |", law.name);
        assert!(page.contains(&row), "not in docs/methodology.md: {row}");
    }
    let row = format!(
        "| 5 against 5 | 0.0079 | {} |",
        percent(simulation::false_calls(5, 1, DRAWS))
    );
    assert!(page.contains(&row), "not in docs/methodology.md: {row}");
}
