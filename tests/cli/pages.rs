//! Help texts, format explanations, plans and lists that the binary prints.

use crate::support::{TestDir, snapshot_text, stdout};

#[test]
fn help_lists_every_command_and_examples() {
    insta::assert_snapshot!(snapshot_text(&TestDir::new().run(&["--help"])));
}

#[test]
fn run_help_lists_every_option() {
    insta::assert_snapshot!(snapshot_text(&TestDir::new().run(&["run", "--help"])));
}

#[test]
fn explain_bf16() {
    insta::assert_snapshot!(snapshot_text(&TestDir::new().run(&["explain", "bf16"])));
}

#[test]
fn an_unknown_format_is_reported_with_a_suggestion() {
    insta::assert_snapshot!(snapshot_text(&TestDir::new().run(&["explain", "bf61"])));
}

#[test]
fn the_article_plan_lists_run_and_skipped_cells() {
    let sizes = ["-a", "batch=8", "-a", "sequence=32"];
    let arguments = [
        "plan",
        "suites/articles/distilbert-imdb.toml",
        "--backend=flex",
        "--profile=smoke",
    ];
    let output = TestDir::new().run(&[&arguments[..], &sizes[..]].concat());
    let text = stdout(&output);
    assert!(
        text.starts_with("distilbert-imdb, profile smoke: 12 to run, 6 skipped\n"),
        "{text}"
    );
    insta::assert_snapshot!(snapshot_text(&output));
}

#[test]
fn a_dry_run_prints_the_plan_and_writes_nothing() {
    let dir = TestDir::new();
    let arguments = |command, flag| {
        [
            command,
            "suites/kernels/matmul.toml",
            "--backend",
            "flex",
            flag,
            "-asize=64",
        ]
    };
    let dry = dir.run(&arguments("run", "--dry-run"));
    let plan = dir.run(&arguments("plan", "--profile=smoke"));
    assert_eq!(stdout(&dry), stdout(&plan));
    assert!(!dir.path("reports").exists());
}

#[test]
fn list_prints_every_suite_with_its_cells() {
    let text = stdout(&TestDir::new().run(&["list"]));
    for suite in [
        "suites/articles/distilbert-imdb.toml",
        "suites/articles/accumulation.toml",
        "suites/kernels/matmul.toml",
    ] {
        assert!(text.contains(suite), "{text}");
    }
    assert!(text.contains("12 cells, 6 skipped"), "{text}");
}
