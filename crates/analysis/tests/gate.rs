//! Simulations of the claims about the gate in `docs/methodology.md`, with fewer draws than its tables.

#[path = "../examples/gate/noise.rs"]
#[expect(dead_code, reason = "only the tables use the whole module")]
mod noise;
#[path = "../examples/gate/simulation.rs"]
mod simulation;

use std::path::Path;

use mantissa_core::MetricName;
use noise::{Noise, Recorded};
use simulation::{Scene, suites};

fn recorded() -> Recorded {
    let table = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/gate/noise.csv");
    Recorded::read(&table).unwrap()
}

#[test]
fn recorded_noise_raises_no_false_regression_in_one_suite_of_a_hundred() {
    for noise in [Noise::Turns(recorded()), Noise::Runs(recorded())] {
        // If the true rate is 1 %, more than four of 150 have a probability of 2 %.
        let (false_alarms, _) = suites(&noise, Scene::same(5), 150);
        assert!(
            false_alarms <= 4,
            "{false_alarms} false alarms, interleaved: {}",
            noise.in_turns()
        );
    }
}

#[test]
fn a_machine_that_drifts_by_two_percent_is_not_taken_for_the_program() {
    let scene = Scene {
        drift: 0.02,
        ..Scene::same(5)
    };
    let (false_alarms, _) = suites(&Noise::Normal(0.01), scene, 100);
    assert!(false_alarms <= 3, "{false_alarms}");
}

#[test]
fn a_few_noisy_cells_among_quiet_ones_are_not_taken_for_worse() {
    // If the true rate is 0.2 %, more than two of 150 have a probability of 0.4 %.
    let (false_alarms, _) = suites(&Noise::Few(0.005, 0.1), Scene::same(5), 150);
    assert!(false_alarms <= 2, "{false_alarms}");
}

#[test]
fn a_slowdown_of_five_percent_is_found_among_noise_of_one() {
    let scene = Scene {
        injected: Some((MetricName::StepSeconds, 0.05)),
        ..Scene::same(5)
    };
    let (_, caught) = suites(&Noise::Normal(0.01), scene, 100);
    assert!(caught >= 93, "{caught}");
}

#[test]
fn the_page_still_says_what_the_gate_finds() {
    // Recomputes one cell of the table of detection rates, with the number of draws of the page.
    let scene = Scene {
        injected: Some((MetricName::StepSeconds, 0.02)),
        ..Scene::same(5)
    };
    let (_, caught) = suites(&Noise::Normal(0.005), scene, 400);
    let row = format!("| log-normal 0.5 % | 5 | {:.1} % |", caught as f64 / 4.0);
    assert!(
        include_str!("../../../docs/methodology.md").contains(&row),
        "not in docs/methodology.md: {row}"
    );
}
