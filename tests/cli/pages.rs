//! Help texts, format explanations, plans and lists that the binary prints.

use crate::support::{Place, shown, stdout};

#[test]
fn help_names_every_command_and_the_usual_examples() {
    insta::assert_snapshot!(shown(&Place::new().run(&["--help"])));
}

#[test]
fn help_of_run_names_every_flag() {
    insta::assert_snapshot!(shown(&Place::new().run(&["run", "--help"])));
}

#[test]
fn bf16_is_explained() {
    insta::assert_snapshot!(shown(&Place::new().run(&["explain", "bf16"])));
}

#[test]
fn an_unknown_format_is_answered_with_the_nearest_one() {
    insta::assert_snapshot!(shown(&Place::new().run(&["explain", "bf61"])));
}

#[test]
fn the_plan_of_the_article_has_its_twelve_cells_and_says_why_six_are_skipped() {
    let sizes = ["-a", "batch=8", "-a", "sequence=32"];
    let arguments = [
        "plan",
        "suites/articles/distilbert-imdb.toml",
        "--backend=flex",
        "--profile=smoke",
    ];
    let output = Place::new().run(&[&arguments[..], &sizes[..]].concat());
    let text = stdout(&output);
    assert!(
        text.starts_with("distilbert-imdb, profile smoke: 12 to run, 6 skipped\n"),
        "{text}"
    );
    insta::assert_snapshot!(shown(&output));
}

#[test]
fn a_dry_run_prints_the_plan_and_leaves_nothing_behind() {
    let place = Place::new();
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
    let dry = place.run(&arguments("run", "--dry-run"));
    let plan = place.run(&arguments("plan", "--profile=smoke"));
    assert_eq!(stdout(&dry), stdout(&plan));
    assert!(!place.path("reports").exists());
}

#[test]
fn the_list_names_every_suite_with_its_cells() {
    let text = stdout(&Place::new().run(&["list"]));
    for suite in [
        "suites/articles/distilbert-imdb.toml",
        "suites/articles/accumulation.toml",
        "suites/kernels/matmul.toml",
    ] {
        assert!(text.contains(suite), "{text}");
    }
    assert!(text.contains("12 cells, 6 skipped"), "{text}");
}
