//! Tests of the text around the headline: warnings, untested settings and formatting.

use mantissa_core::Axis;

use crate::{
    advice::{advice, first_workload, points_budget, run_with_faster_setting},
    support::{RunBuilder, cell, workload},
};

#[test]
fn untested_settings_are_listed() {
    let mut run = run_with_faster_setting();
    let undefined = cell(
        "s",
        &workload("w"),
        &[(Axis::Precision, "64-true"), (Axis::Matmul, "high")],
    );
    run.plan(&undefined, Some("not defined"));
    let gaps = first_workload(&run, &points_budget(1.0)).untested;
    // Three of the twelve valid arithmetic settings ran.
    assert!(
        gaps[0].starts_with("9 arithmetic settings: 64-true, 32-true · medium, 16-mixed · highest"),
        "{gaps:?}"
    );
    let all = gaps.join(" ");
    for gap in [
        "Other seeds",
        "batch 8",
        "A GPU",
        "Real data: the run used synthetic reviews",
        "Energy",
        "The executed precision of ",
    ] {
        assert!(all.contains(gap), "{gap}: {all}");
    }
    assert!(
        !all.contains("not defined") && !all.contains("Variation between processes"),
        "{all}"
    );
}

#[test]
fn warnings_are_above_the_advice() {
    let run = run_with_faster_setting();
    let advice = advice(&run, &points_budget(1.0));
    let titles: Vec<&str> = advice
        .warnings
        .iter()
        .map(|banner| banner.title.as_str())
        .collect();
    assert_eq!(
        titles,
        ["These are CPU times.", "This advice applies to this CPU."]
    );
    assert_eq!(advice.workloads[0].warnings[0].title, "The data is synthetic.");
    let text = advice.text(|table| table.rows.iter().map(|row| row.join("|") + "\n").collect());
    let position = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part}: {text}"));
    assert!(position("This advice applies to this CPU.") < position("Use 32-true · high"));
    assert!(position("32-true · high|recommended|") < position("Not tested:"));
    assert_eq!(
        text,
        crate::advice::advice(&run, &points_budget(1.0)).text(|table| table
            .rows
            .iter()
            .map(|row| row.join("|") + "\n")
            .collect())
    );
    let json = serde_json::to_value(&advice).unwrap();
    assert_eq!(json["schema"], 1);
    assert_eq!(json["workloads"][0]["choices"][0]["chosen"], "32-true · high");
    assert_eq!(json["workloads"][0]["cost"], "train_seconds");
    assert_eq!(json["budget"]["minimise"], "time");
}
