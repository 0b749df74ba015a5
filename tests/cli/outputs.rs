//! Standard output: its contents, and the exit code when it cannot be written.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader},
    process::Stdio,
};

use serde_json::json;

use crate::{
    gate::{copy_run_with, run_kernels},
    support::{TestDir, fixture, stderr, stdout},
};

/// Returns the exit code of a command whose standard output is a full disk.
fn run_on_full_disk(dir: &TestDir, arguments: &[&str]) -> (Option<i32>, String) {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let mut command = dir.command(arguments);
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
fn run_with_closed_pipe(dir: &TestDir, arguments: &[&str]) -> Option<i32> {
    let mut command = dir.command(arguments);
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
fn output_errors_do_not_hide_a_regression() {
    let dir = TestDir::new();
    run_kernels(&dir, "a", &["--repeats", "5"]);
    copy_run_with(&dir, "a", "b", |record| {
        record["executed"]["operand_bits"] = json!(11);
    });
    let gate = ["gate", "b", "--baseline", "a"];
    assert_eq!(dir.run(&gate).status.code(), Some(1));
    for (run, expected) in [("b", 1), ("a", 4)] {
        let output = dir.run(&["gate", run, "--baseline", "a", "--write", "json=/dev/full"]);
        assert_eq!(output.status.code(), Some(expected), "{}", stderr(&output));
        assert!(
            stderr(&output).contains("cannot write `/dev/full`"),
            "{}",
            stderr(&output)
        );
    }
    let (code, error) = run_on_full_disk(&dir, &gate);
    assert_eq!(code, Some(1), "{error}");
    assert!(
        error.contains("error: cannot write to standard output"),
        "{error}"
    );
    assert_eq!(run_with_closed_pipe(&dir, &gate), Some(1));
    // Without a regression, the error of the output determines the exit code.
    assert_eq!(
        run_on_full_disk(&dir, &["gate", "a", "--baseline", "a"]).0,
        Some(4)
    );
}

#[test]
fn a_run_continues_after_its_reader_closes_the_pipe() {
    let dir = TestDir::new();
    let suite = fixture("kernels");
    let run = [
        "run",
        &suite,
        "--backend=flex",
        "--repeats=3",
        "--json",
        "--out=run",
    ];
    assert_eq!(run_with_closed_pipe(&dir, &run), Some(0));
    assert_eq!(dir.records("run").len(), 6);
    assert!(dir.path("run/report.html").is_file());
    let suite = fixture("strict");
    let broken = ["run", &suite, "--backend=flex", "--out=broken"];
    let (code, error) = run_on_full_disk(&dir, &broken);
    assert_eq!(
        code,
        dir.run(&["run", "--resume", "broken"]).status.code(),
        "{error}"
    );
    assert_eq!(code, Some(3), "{error}");
    assert_eq!(run_on_full_disk(&dir, &["plan", &fixture("kernels")]).0, Some(4));
}

#[test]
fn control_characters_do_not_reach_the_terminal() {
    const HOSTILE: &str = "\u{1b}]0;owned\u{7}\u{202e}\u{85}\u{1b}[31m";
    let dir = TestDir::new();
    let suite = fs::read_to_string(dir.path(&fixture("kernels"))).unwrap();
    let escaped: String = HOSTILE
        .chars()
        .map(|letter| format!("\\u{:04x}", u32::from(letter)))
        .collect();
    let titled = suite.replace("Small matrix products", &escaped);
    fs::create_dir_all(dir.path("suites/own")).unwrap();
    fs::write(dir.path("suites/own/hostile.toml"), &titled).unwrap();
    fs::write(
        dir.path("bad.toml"),
        titled.replace("min_samples", &format!("\"{escaped}\"")),
    )
    .unwrap();
    dir.run(&[
        "run",
        "suites/own/hostile.toml",
        "--backend=flex",
        "--repeats=5",
        "--out=a",
    ]);
    copy_run_with(&dir, "a", "b", |record| {
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
    let mut escaped_outputs = 0;
    for command in commands {
        let output = dir.run(command);
        let text = stdout(&output) + &stderr(&output);
        assert!(!text.is_empty(), "{command:?}");
        let raw = text
            .chars()
            .find(|letter| letter.is_control() && !"\n\t".contains(*letter) || *letter == '\u{202e}');
        assert_eq!(raw, None, "{command:?}: {text:?}");
        escaped_outputs += usize::from(text.contains("\\u001b"));
    }
    // Some commands do not print the hostile text.
    assert!(escaped_outputs >= 8, "{escaped_outputs}");
}
