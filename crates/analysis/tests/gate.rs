//! Simulations of the claims about the gate in `docs/methodology.md`, with fewer draws than its tables.

#[path = "../examples/gate/noise.rs"]
#[expect(dead_code, reason = "only the tables use the whole module")]
mod noise;
#[path = "../examples/gate/simulation.rs"]
mod simulation;

use std::path::Path;

use mantissa_core::MetricName;
use noise::{Noise, Recorded};
use simulation::{Scenario, simulate_suites};

fn recorded() -> Recorded {
    let table = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/gate/noise.csv");
    Recorded::read(&table).unwrap()
}

#[test]
fn recorded_noise_rarely_causes_a_false_regression() {
    for noise in [Noise::Interleaved(recorded()), Noise::Consecutive(recorded())] {
        // If the true rate of false alarms is 1 %, the probability of more than four in 150 suites is 2 %.
        let (false_alarms, _) = simulate_suites(&noise, Scenario::unchanged(5), 150);
        assert!(
            false_alarms <= 4,
            "{false_alarms} false alarms, interleaved: {}",
            noise.is_interleaved()
        );
    }
}

#[test]
fn machine_drift_of_two_percent_is_not_a_regression() {
    let scenario = Scenario {
        drift: 0.02,
        ..Scenario::unchanged(5)
    };
    let (false_alarms, _) = simulate_suites(&Noise::Normal(0.01), scenario, 100);
    assert!(false_alarms <= 3, "{false_alarms}");
}

#[test]
fn few_noisy_cells_are_not_regressions() {
    // If the true rate of false alarms is 0.2 %, the probability of more than two in 150 suites is 0.4 %.
    let (false_alarms, _) = simulate_suites(&Noise::Few(0.005, 0.1), Scenario::unchanged(5), 150);
    assert!(false_alarms <= 2, "{false_alarms}");
}

#[test]
fn slowdown_of_five_percent_is_detected() {
    let scenario = Scenario {
        injected: Some((MetricName::StepSeconds, 0.05)),
        ..Scenario::unchanged(5)
    };
    let (_, detected) = simulate_suites(&Noise::Normal(0.01), scenario, 100);
    assert!(detected >= 93, "{detected}");
}

#[test]
fn methodology_page_has_the_current_detection_rate() {
    // Recomputes one cell of the table of detection rates, with as many draws as on the page.
    let scenario = Scenario {
        injected: Some((MetricName::StepSeconds, 0.02)),
        ..Scenario::unchanged(5)
    };
    let (_, detected) = simulate_suites(&Noise::Normal(0.005), scenario, 400);
    let row = format!("| log-normal 0.5 % | 5 | {:.1} % |", detected as f64 / 4.0);
    assert!(
        include_str!("../../../docs/methodology.md").contains(&row),
        "not in docs/methodology.md: {row}"
    );
}
