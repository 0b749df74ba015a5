//! Tests of the trend page with invented histories.

use mantissa_core::MetricName;
use mantissa_report::{Direction, TrendChangePoint, TrendLine, TrendRun, Trends};

/// Creates runs of about 1 s that take 10 % longer from the eleventh on.
pub fn line(runs: usize, name: &str) -> TrendLine {
    let slower = |index: usize| if index < 10 { 1.0 } else { 1.1 };
    let run = |index: usize| TrendRun {
        run: format!("run-{:03}{name}", index + 1),
        started: format!("2026-01-{:02}T00:00:00Z", 1 + index % 28),
        revision: Some(format!("{index:012}{name}")),
        value: slower(index) * (1.0 + 0.002 * (index % 5) as f64),
    };
    let turn = TrendChangePoint {
        first: 10,
        before: 1.0,
        after: 1.1,
        p: 0.001,
        towards: Direction::Worse,
    };
    TrendLine {
        machine: format!("machine{name}"),
        suite: format!("suite{name}"),
        workload: format!("workload{name}"),
        setting: format!("setting{name}"),
        metric: MetricName::StepSeconds,
        runs: (0..runs).map(run).collect(),
        fence: Some(0.01),
        floor: 0.03,
        difference: false,
        turns: if runs > 10 { vec![turn] } else { vec![] },
        stayed: (runs > 10).then_some(0),
    }
}

pub fn trends(runs: usize, lines: Vec<TrendLine>) -> Trends {
    Trends {
        name: "history.jsonl".into(),
        runs,
        span: Some(("2026-01-01T00:00:00Z".into(), "2026-02-01T00:00:00Z".into())),
        lines,
    }
}

#[test]
fn hostile_names_are_escaped() {
    const HOSTILE: &str = "\"><img src=x onerror=alert(1)></script><script>alert(2)</script>&\u{1b}[2J'";
    let mut trends = trends(20, vec![line(20, HOSTILE), line(20, "")]);
    trends.name = HOSTILE.into();
    let page = trends.html().unwrap();
    assert!(!page.contains("<img"), "a name added an element");
    assert_eq!(page.matches("<script").count(), 1);
    assert_eq!(page.matches("</script>").count(), 1);
    assert!(page.contains("&lt;img src=x onerror=alert(1)&gt;"));
    let table = trends.table();
    let mut texts = table.rows.iter().flatten().chain([&table.title]);
    assert!(texts.all(|text| !text.contains('\u{1b}')));
}

#[test]
fn absent_and_infinite_values_are_dashes() {
    let mut odd = line(20, "");
    odd.runs[3].value = f64::NAN;
    odd.runs[19].value = f64::INFINITY;
    odd.runs[4].revision = None;
    odd.fence = None;
    odd.turns[0].before = 0.0;
    let mut lost = line(20, "-lost");
    lost.turns[0].first = 99;
    lost.stayed = Some(7);
    let page = trends(20, vec![odd, lost, line(0, "-empty")]).html().unwrap();
    for word in ["NaN", "inf<", ">inf", "inf "] {
        assert!(!page.contains(word), "{word}");
    }
}

#[test]
fn every_kind_of_value_has_an_axis() {
    let levels = [
        (MetricName::StepSeconds, 3e-6, 9e-6),
        (MetricName::RelativeError, 3e-7, 3.3e-7),
        (MetricName::RelativeError, 3e-7, 3e-3),
        (MetricName::TestAccuracy, 0.92, 0.89),
        (MetricName::FlopsPerSecond, 2e14, 1.8e14),
        (MetricName::HostPeakBytes, 5e9, 6e9),
        (MetricName::FinalLoss, -0.1, 0.3),
        (MetricName::MaxUlp, 0.0, 12.0),
    ];
    for (metric, before, after) in levels {
        let mut line = line(20, "");
        line.metric = metric;
        line.difference = matches!(metric, MetricName::TestAccuracy | MetricName::FinalLoss);
        for (index, run) in line.runs.iter_mut().enumerate() {
            run.value = if index < 10 { before } else { after };
        }
        (line.turns[0].before, line.turns[0].after) = (before, after);
        let page = trends(20, vec![line]).html().unwrap();
        let svg = page.split("<svg").nth(1).unwrap().split("</svg>").next().unwrap();
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{metric}");
        assert!(svg.matches("<text").count() > 8, "{metric}");
    }
}

#[test]
fn runs_on_several_machines_are_distinguished() {
    let mut other = line(20, "");
    other.machine = "another".into();
    let page = trends(20, vec![line(20, ""), other]).html().unwrap();
    assert!(page.contains("<button type=\"button\">machine</button>"));
    assert!(page.contains("on another: workload setting") && page.contains("on machine: workload setting"));
}

#[test]
fn a_page_of_10_000_trends_is_below_8_mb() {
    let lines = (0..10_000).map(|index| line(100, &format!("-{index}"))).collect();
    let page = trends(100, lines).html().unwrap();
    assert_eq!(page.matches("<figure").count(), 40);
    assert!(page.contains("10,000 trends have change points. The figures show the 40 most severe"));
    assert!(page.len() < 8_000_000, "{} bytes", page.len());
}

#[test]
fn a_long_history_is_drawn_with_few_points() {
    let page = trends(5_000, vec![line(5_000, "")]).html().unwrap();
    let svg = page.split("<svg").nth(1).unwrap().split("</svg>").next().unwrap();
    assert!(svg.len() < 60_000, "{} bytes", svg.len());
}

#[test]
fn hover_texts_name_the_run_and_its_value() {
    let page = trends(20, vec![line(20, "")]).html().unwrap();
    // The eleventh run takes 1.1 s.
    assert!(page.contains("<title>workload setting, run run-011: 1.10 s</title>"));
    assert_eq!(page.matches("<g><title>").count(), 20);
}
