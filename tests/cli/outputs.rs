//! Standard output: its contents, and the exit code when it cannot be written.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader},
    process::Stdio,
};

use serde_json::json;

use crate::{
    gate::{edited, kernels},
    support::{Place, fixture, stderr, stdout},
};

/// Returns the exit code of a command whose standard output is a full disk.
fn on_a_full_disk(place: &Place, arguments: &[&str]) -> (Option<i32>, String) {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let mut command = place.command(arguments);
    let output = command
        .stdout(full)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
        .wait_with_output()
        .unwrap();
    (output.status.code(), stderr(&output))
}

/// Returns the exit code of a command whose reader closes the pipe after the first line.
fn after_one_line(place: &Place, arguments: &[&str]) -> Option<i32> {
    let mut command = place.command(arguments);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut first = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut first)
        .unwrap();
    assert!(!first.is_empty());
    child.wait().unwrap().code()
}

#[test]
fn the_verdict_of_the_gate_does_not_depend_on_its_output() {
    let place = Place::new();
    kernels(&place, "a", &["--repeats", "5"]);
    edited(&place, "a", "b", |record| {
        record["executed"]["operand_bits"] = json!(11);
    });
    let gate = ["gate", "b", "--baseline", "a"];
    assert_eq!(place.run(&gate).status.code(), Some(1));
    for (run, expected) in [("b", 1), ("a", 4)] {
        let output = place.run(&["gate", run, "--baseline", "a", "--write", "json=/dev/full"]);
        assert_eq!(output.status.code(), Some(expected), "{}", stderr(&output));
        assert!(
            stderr(&output).contains("cannot write `/dev/full`"),
            "{}",
            stderr(&output)
        );
    }
    let (code, error) = on_a_full_disk(&place, &gate);
    assert_eq!(code, Some(1), "{error}");
    assert!(
        error.contains("error: cannot write to standard output"),
        "{error}"
    );
    assert_eq!(after_one_line(&place, &gate), Some(1));
    // Without a regression, the error of the output determines the exit code.
    assert_eq!(
        on_a_full_disk(&place, &["gate", "a", "--baseline", "a"]).0,
        Some(4)
    );
}

#[test]
fn a_run_whose_reader_is_gone_goes_on() {
    let place = Place::new();
    let suite = fixture("kernels");
    let run = [
        "run",
        &suite,
        "--backend=flex",
        "--repeats=3",
        "--json",
        "--out=run",
    ];
    assert_eq!(after_one_line(&place, &run), Some(0));
    assert_eq!(place.records("run").len(), 6);
    assert!(place.path("run/report.html").is_file());
    let suite = fixture("strict");
    let broken = ["run", &suite, "--backend=flex", "--out=broken"];
    let (code, error) = on_a_full_disk(&place, &broken);
    assert_eq!(
        code,
        place.run(&["run", "--resume", "broken"]).status.code(),
        "{error}"
    );
    assert_eq!(code, Some(3), "{error}");
    assert_eq!(on_a_full_disk(&place, &["plan", &fixture("kernels")]).0, Some(4));
}

#[test]
fn control_characters_do_not_reach_the_terminal() {
    const HOSTILE: &str = "\u{1b}]0;owned\u{7}\u{202e}\u{85}\u{1b}[31m";
    let place = Place::new();
    let suite = fs::read_to_string(place.path(&fixture("kernels"))).unwrap();
    let in_toml: String = HOSTILE
        .chars()
        .map(|letter| format!("\\u{:04x}", u32::from(letter)))
        .collect();
    let titled = suite.replace("Small matrix products", &in_toml);
    fs::create_dir_all(place.path("suites/own")).unwrap();
    fs::write(place.path("suites/own/hostile.toml"), &titled).unwrap();
    fs::write(
        place.path("bad.toml"),
        titled.replace("min_samples", &format!("\"{in_toml}\"")),
    )
    .unwrap();
    place.run(&[
        "run",
        "suites/own/hostile.toml",
        "--backend=flex",
        "--repeats=5",
        "--out=a",
    ]);
    edited(&place, "a", "b", |record| {
        record["reason"] = json!(HOSTILE);
        record["status"] = json!("failed");
    });
    let hostile_axis = format!("{HOSTILE}=3");
    let commands: [&[&str]; 14] = [
        &["list"],
        &["plan", "suites/own/hostile.toml"],
        &["plan", "suites/own/hostile.toml", "-a", &hostile_axis],
        &["plan", "suites/own/hostile.toml", "--filter", HOSTILE],
        &["plan", "bad.toml"],
        &["plan", HOSTILE],
        &[HOSTILE],
        &["run", "suites/own/hostile.toml", "--data", HOSTILE],
        &["report", "b", "--out", "c"],
        &["compare", "a", "b"],
        &["gate", "b", "--baseline", "a", "--write", "markdown=-"],
        &["export", "b", "--format", "csv"],
        &["export", "b", "--format", "markdown"],
        &["advise", "b"],
    ];
    let mut shown = 0;
    for command in commands {
        let output = place.run(command);
        let text = stdout(&output) + &stderr(&output);
        assert!(!text.is_empty(), "{command:?}");
        let raw = text
            .chars()
            .find(|letter| letter.is_control() && !"\n\t".contains(*letter) || *letter == '\u{202e}');
        assert_eq!(raw, None, "{command:?}: {text:?}");
        shown += usize::from(text.contains("\\u001b"));
    }
    // Some commands do not print the hostile text.
    assert!(shown >= 8, "{shown}");
}
