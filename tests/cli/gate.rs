//! `mantissa gate`, `compare`, `baseline` and `bisect` with runs recorded by the binary.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::{Value, json};

use crate::support::{TestDir, fixture, run_to_exit, stderr, stdout};

/// Returns the path of `tests/worsened.rs`, which is built next to the binary.
pub fn worsened_program() -> PathBuf {
    let binary = PathBuf::from(env!("CARGO_BIN_EXE_mantissa"));
    binary.with_file_name("examples").join("worsened")
}

/// Runs `fixtures/gated.toml` in five processes per cell, with this regression of `tests/worsened.rs`, or without one if empty.
fn measure(dir: &TestDir, worsened: &str, out: &str) -> Output {
    let mut command = command_in(dir, &worsened_program());
    command
        .args([
            "run",
            &fixture("gated"),
            "--profile",
            "smoke",
            "--backend",
            "flex",
            "--repeats",
            "5",
            "--out",
            out,
        ])
        .env("WORSENED", worsened);
    run_to_exit(command)
}

/// Returns a command of another program in the same folder and with the same environment as `mantissa`.
pub fn command_in(dir: &TestDir, program: &Path) -> Command {
    let mut command = Command::new(program);
    let template = dir.command(&[]);
    for (name, _) in template.get_envs().filter(|(_, value)| value.is_none()) {
        command.env_remove(name);
    }
    command.current_dir(dir.path(""));
    command
}

/// Runs small matmuls into a folder, with more arguments.
pub fn run_kernels(dir: &TestDir, out: &str, more: &[&str]) {
    let suite = fixture("kernels");
    let mut arguments = vec![
        "run",
        &suite,
        "--profile",
        "smoke",
        "--backend",
        "flex",
        "--out",
        out,
    ];
    arguments.extend(more);
    let output = dir.run(&arguments);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
}

/// Returns the exit code and the JSON of the gate for a run against the baseline `main`.
fn gate(dir: &TestDir, run: &str, more: &[&str]) -> (Option<i32>, Value) {
    let mut arguments = vec!["gate", run, "--baseline", "main", "--json"];
    arguments.extend(more);
    let output = dir.run(&arguments);
    let text = stdout(&output);
    let json = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}{}", stderr(&output)));
    (output.status.code(), json)
}

fn failure_texts(report: &Value) -> String {
    let failures = report["failures"].as_array().unwrap();
    failures
        .iter()
        .map(|failure| format!("{}\n", failure["text"].as_str().unwrap()))
        .collect()
}

#[test]
fn tf32_instead_of_f32_is_a_regression() {
    let dir = TestDir::new();
    let measure = |matmul: &str, out: &str| {
        let axis = format!("matmul={matmul}");
        run_kernels(&dir, out, &["--repeats", "5", "-a", &axis]);
    };
    measure("highest", "runs/f32");
    measure("high", "runs/tf32");
    // Simulate a library whose default has changed: the values are those of TF32, under the name of f32.
    let id_pairs: Vec<(String, String)> = dir
        .records("runs/tf32")
        .iter()
        .zip(dir.records("runs/f32"))
        .map(|(tf32, f32)| {
            let id = |record: &Value| record["cell"]["id"].as_str().unwrap().to_owned();
            (id(tf32), id(&f32))
        })
        .collect();
    let path = dir.path("runs/tf32/records.jsonl");
    let mut text = fs::read_to_string(&path)
        .unwrap()
        .replace("\"matmul\":\"high\"", "\"matmul\":\"highest\"");
    for (tf32, f32) in id_pairs {
        text = text.replace(&tf32, &f32);
    }
    fs::write(&path, text).unwrap();
    let output = dir.run(&["gate", "runs/tf32", "--baseline", "runs/f32", "--json"]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let texts = failure_texts(&serde_json::from_str(&stdout(&output)).unwrap());
    assert!(texts.contains("executed 11 significand bits"), "{texts}");
    assert!(texts.contains("relative_error"), "{texts}");
}

/// Copies a run with modified records.
pub fn copy_run_with(dir: &TestDir, from: &str, to: &str, edit: impl Fn(&mut Value)) {
    fs::create_dir_all(dir.path(to)).unwrap();
    for file in ["environment.json", "plan.json"] {
        fs::copy(dir.path(from).join(file), dir.path(to).join(file)).unwrap();
    }
    let records = dir.records(from).into_iter().map(|mut record| {
        edit(&mut record);
        format!("{record}\n")
    });
    fs::write(dir.path(to).join("records.jsonl"), records.collect::<String>()).unwrap();
}

#[test]
fn options_and_policy_determine_the_exit_code_of_the_gate() {
    let dir = TestDir::new();
    run_kernels(&dir, "runs/one", &["--repeats", "5"]);
    let first = dir.records("runs/one")[0]["cell"]["id"].clone();
    let run_gate = |run: &str, more: &[&str]| {
        let output = dir.run(&[&["gate", run, "--baseline", "runs/one"], more].concat());
        (output.status.code(), stdout(&output) + &stderr(&output))
    };

    // The error of one cell is no longer measured, so the comparison is inconclusive.
    copy_run_with(&dir, "runs/one", "runs/lost", |record| {
        if record["cell"]["id"] == first {
            record["metrics"]["relative_error"]["value"] = Value::Null;
        }
    });
    let (code, text) = run_gate("runs/lost", &[]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("no longer measured"), "{text}");
    let (code, text) = run_gate("runs/lost", &["--strict"]);
    assert_eq!(code, Some(5), "{text}");

    // Change the machine of the records.
    copy_run_with(&dir, "runs/one", "runs/elsewhere", |record| {
        record["fingerprint"]["cpu"] = "Another".into();
    });
    let (code, text) = run_gate("runs/elsewhere", &[]);
    assert_eq!(code, Some(2), "{text}");
    assert!(
        text.contains("against Another") && text.contains("--allow-mismatch"),
        "{text}"
    );
    assert_eq!(
        run_gate("runs/elsewhere", &["--allow-mismatch", "gpu"]).0,
        Some(2)
    );
    let (code, text) = run_gate("runs/elsewhere", &["--allow-mismatch", "cpu"]);
    assert_eq!(code, Some(0), "{text}");

    // Multiply the error by ten. The policy allows this until a date.
    copy_run_with(&dir, "runs/one", "runs/wrong", |record| {
        let error = &mut record["metrics"]["relative_error"]["value"];
        *error = (10.0 * error.as_f64().unwrap()).into();
    });
    let (code, text) = run_gate("runs/wrong", &[]);
    assert_eq!(code, Some(1), "{text}");
    for (day, expected) in [("2999-12-31", 0), ("2000-01-01", 1)] {
        let policy =
            format!("[[allow]]\nmetric = \"relative_error\"\nuntil = {day}\nreason = \"a new order\"\n");
        fs::write(dir.path("policy.toml"), policy).unwrap();
        let (code, text) = run_gate("runs/wrong", &["--policy", "policy.toml"]);
        assert_eq!(code, Some(expected), "{day}: {text}");
        assert_eq!(text.contains("a new order"), expected == 0, "{day}: {text}");
    }

    // The file of `--history` has to exist. If one output cannot be written, none is written.
    let (code, text) = run_gate("runs/lost", &["--history", "histori.jsonl"]);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("history `histori.jsonl` does not exist"), "{text}");
    let compared = dir.run(&["compare", "runs/one", "runs/lost", "--history", "histori.jsonl"]);
    assert_eq!(compared.status.code(), Some(2), "{}", stderr(&compared));
    let environment = fs::read_to_string(dir.path("runs/lost/environment.json")).unwrap();
    let mut environment: Value = serde_json::from_str(&environment).unwrap();
    environment["started"] = "once".into();
    fs::write(dir.path("runs/lost/environment.json"), environment.to_string()).unwrap();
    let (code, text) = run_gate(
        "runs/lost",
        &["--write", "markdown=out.md", "--write", "mlperf=out.log"],
    );
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("once"), "{text}");
    assert!(
        !dir.path("out.md").exists(),
        "no file may be written after an error"
    );
}

#[test]
fn invalid_gate_arguments_exit_with_2_and_write_nothing() {
    let dir = TestDir::new();
    let run = |arguments: &[&str]| {
        let output = dir.run(arguments);
        (output.status.code(), stderr(&output))
    };
    let assert_rejected = |arguments: &[&str], part: &str| {
        let (code, text) = run(arguments);
        assert_eq!(code, Some(2), "{arguments:?}: {text}");
        assert!(text.contains(part), "{arguments:?}: {text}");
    };
    run_kernels(&dir, "runs/one", &[]);
    assert_rejected(&["gate", "runs/none", "--baseline", "main"], "does not exist");
    assert_rejected(
        &["gate", "runs/one", "--baseline", "main"],
        "baseline `main` does not exist",
    );
    assert_rejected(
        &["gate", "runs/one", "--baseline", "../main"],
        "not a valid baseline name",
    );
    assert_rejected(
        &["baseline", "save", "../x", "runs/one"],
        "not a valid baseline name",
    );
    assert_rejected(&["baseline", "drop", "main"], "does not exist");
    assert_rejected(&["compare", "runs/one", "runs/none"], "runs/none");
    assert_rejected(
        &["compare", "runs/one", "runs/one", "--allow-mismatch", "moon"],
        "one of gpu",
    );
    fs::write(dir.path("policy.toml"), "[floor]\nspeed = 1\n").unwrap();
    assert_rejected(
        &["compare", "runs/one", "runs/one", "--policy", "policy.toml"],
        "speed",
    );
    fs::write(dir.path("history.jsonl"), "{").unwrap();
    assert_rejected(
        &[
            "gate",
            "runs/one",
            "--baseline",
            "runs/one",
            "--history",
            "history.jsonl",
            "--append",
        ],
        "history.jsonl",
    );
    assert_rejected(
        &[
            "gate",
            "runs/one",
            "--baseline",
            "runs/one",
            "--write",
            "word=x.doc",
        ],
        "word",
    );
    assert!(!dir.path("baselines").exists());
    assert_eq!(fs::read_to_string(dir.path("history.jsonl")).unwrap(), "{");
}

#[test]
fn baselines_are_saved_listed_shown_and_dropped() {
    let dir = TestDir::new();
    run_kernels(&dir, "runs/one", &[]);
    let saved = dir.run(&["baseline", "save", "main", "runs/one"]);
    assert_eq!(saved.status.code(), Some(0), "{}", stderr(&saved));
    assert!(stderr(&saved).contains("the gate needs 5"), "{}", stderr(&saved));
    let folder = stdout(&saved).trim().to_owned();
    assert!(
        folder.starts_with("baselines/main/") && folder.contains("flex-smoke"),
        "{folder}"
    );
    let text = fs::read_to_string(dir.path(&folder).join("records.jsonl")).unwrap();
    assert_eq!(text.lines().count(), 2);
    assert!(!text.contains("samples.json"), "{text}");
    let listed: Value = serde_json::from_str(&stdout(&dir.run(&["baseline", "list", "--json"]))).unwrap();
    assert_eq!(listed[0]["name"], "main");
    assert!(stdout(&dir.run(&["baseline", "list"])).contains("main"));
    let shown: Value = serde_json::from_str(&stdout(&dir.run(&["baseline", "show", "main"]))).unwrap();
    assert_eq!(shown[0]["cells"], 2);
    assert_eq!(dir.run(&["baseline", "drop", "main"]).status.code(), Some(0));
    assert!(!dir.path("baselines/main").exists());
}

#[test]
fn gated_runs_are_appended_to_the_history_and_exported() {
    let dir = TestDir::new();
    // Exclude times from the gate, so that the test does not depend on them.
    fs::create_dir_all(dir.path("baselines")).unwrap();
    fs::write(
        dir.path("baselines/gate.toml"),
        "[floor]\nflops_per_second = \"off\"\nwarmup_seconds = \"off\"\nhost_peak_bytes = 1\n",
    )
    .unwrap();
    for run in ["runs/one", "runs/two"] {
        run_kernels(&dir, run, &["--repeats", "5"]);
        let output = dir.run(&["gate", run, "--baseline", "runs/one", "--append"]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    }
    let again = dir.run(&["gate", "runs/one", "--baseline", "runs/one", "--append"]);
    assert_eq!(again.status.code(), Some(2));
    assert!(stderr(&again).contains("already"), "{}", stderr(&again));
    let text = fs::read_to_string(dir.path("baselines/history.jsonl")).unwrap();
    assert_eq!(text.lines().count(), 4, "two cells of two runs");

    let shown = dir.run(&[
        "history",
        "--page",
        "trend.html",
        "--parquet",
        "history.parquet",
        "--json",
    ]);
    assert_eq!(shown.status.code(), Some(0), "{}", stderr(&shown));
    let trends: Value = serde_json::from_str(&stdout(&shown)).unwrap();
    assert_eq!(trends[0]["runs"].as_array().unwrap().len(), 2);
    let page = fs::read_to_string(dir.path("trend.html")).unwrap();
    assert!(page.contains("2 runs") && !page.contains("NaN"), "{page}");
    assert!(
        fs::read(dir.path("history.parquet"))
            .unwrap()
            .starts_with(b"PAR1")
    );
    let refused = dir.run(&["history", "baselines/none.jsonl"]);
    assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
    let itself = dir.run(&["history", "--page", "baselines/history.jsonl"]);
    assert_eq!(itself.status.code(), Some(2), "{}", stderr(&itself));
    assert_eq!(
        fs::read_to_string(dir.path("baselines/history.jsonl")).unwrap(),
        text
    );
}

#[test]
fn measurements_are_exported_for_benchmark_trackers() {
    let dir = TestDir::new();
    run_kernels(&dir, "runs/one", &["--repeats", "5"]);
    for (format, part) in [
        ("bencher", "relative-error"),
        ("openmetrics", "# EOF"),
        ("mlperf", ":::MLLOG"),
        ("benchmark-smaller", "relative_error"),
        ("benchmark-bigger", "flops_per_second"),
    ] {
        let output = dir.run(&["export", "runs/one", "--format", format]);
        assert_eq!(output.status.code(), Some(0), "{format}: {}", stderr(&output));
        assert!(stdout(&output).contains(part), "{format}: {}", stdout(&output));
    }
    let two = dir.run(&["export", "runs/one", "runs/one", "--format", "bencher"]);
    assert_eq!(two.status.code(), Some(2));
    let inside = dir.run(&[
        "export",
        "runs/one",
        "--format",
        "bencher",
        "--out",
        "runs/one/records.jsonl",
    ]);
    assert_eq!(inside.status.code(), Some(2));
    let output = dir.run(&[
        "gate",
        "runs/one",
        "--baseline",
        "runs/one",
        "--write",
        "markdown=out/gate.md",
        "--write",
        "junit=out/gate.xml",
        "--write",
        "annotations=-",
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(
        fs::read_to_string(dir.path("out/gate.md"))
            .unwrap()
            .contains("no regression")
    );
    assert!(
        fs::read_to_string(dir.path("out/gate.xml"))
            .unwrap()
            .contains("<testsuite")
    );
    assert!(stdout(&output).contains("::notice"), "{}", stdout(&output));
    let over = dir.run(&[
        "gate",
        "runs/one",
        "--baseline",
        "runs/one",
        "--write",
        "json=runs/one/run.json",
    ]);
    assert_eq!(over.status.code(), Some(2));
    assert!(stderr(&over).contains("cannot overwrite"), "{}", stderr(&over));
}

#[test]
fn a_stopped_bisection_removes_its_work_tree() {
    let dir = TestDir::new();
    let tree = dir.path("tree");
    fs::create_dir_all(&tree).unwrap();
    let git = |arguments: &[&str]| {
        let mut command = Command::new("git");
        command.args(["-c", "user.name=Tester", "-c", "user.email=tester@localhost"]);
        let output = command.args(arguments).current_dir(&tree).output().unwrap();
        assert!(output.status.success(), "git {arguments:?}: {}", stderr(&output));
        stdout(&output)
    };
    git(&["init", "--quiet"]);
    for message in ["one", "two"] {
        git(&["commit", "--quiet", "--allow-empty", "-m", message]);
    }
    let build = format!("touch '{}' && sleep 300", dir.path("begun").display());
    let mut bisect = dir
        .command(&["bisect", "HEAD~1", "HEAD", "--build", &build, "--", "suite.toml"])
        .current_dir(&tree)
        .spawn()
        .unwrap();
    while !dir.path("begun").exists() {
        assert_eq!(
            bisect.try_wait().unwrap(),
            None,
            "`bisect` exited before its build"
        );
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!(git(&["worktree", "list"]).lines().count(), 2);
    let sent = Command::new("kill")
        .arg(bisect.id().to_string())
        .status()
        .unwrap();
    assert!(sent.success());
    assert_eq!(bisect.wait().unwrap().code(), Some(143));
    assert_eq!(git(&["worktree", "list"]).lines().count(), 1);
}

mod long {
    use super::*;

    #[test]
    fn every_kind_of_regression_fails_and_an_identical_run_passes() {
        let dir = TestDir::new();
        assert_eq!(measure(&dir, "", "runs/good").status.code(), Some(0));
        let saved = dir.run(&["baseline", "save", "main", "runs/good"]);
        assert_eq!(saved.status.code(), Some(0), "{}", stderr(&saved));
        // On a busy machine, the times of such a short workload reveal only large changes. The tables in `docs/methodology.md` list the
        // detectable changes.
        let policy = |step: &str| {
            format!(
                "[floor]\nstep_seconds = {step}\nsamples_per_second = \"off\"\nwarmup_seconds = \"off\"\nhost_peak_bytes = 0.1\n"
            )
        };
        fs::write(dir.path("baselines/gate.toml"), policy("\"off\"")).unwrap();
        fs::write(dir.path("timed.toml"), policy("0.4")).unwrap();

        assert_eq!(measure(&dir, "", "runs/same").status.code(), Some(0));
        let (code, report) = gate(&dir, "runs/same", &[]);
        assert_eq!(code, Some(0), "{}", failure_texts(&report));

        let timed: &[&str] = &["--policy", "timed.toml"];
        for (worsened, reason, policy) in [
            ("work", "step_seconds", timed),
            ("memory", "host_peak_bytes", &[]),
            ("learning", "final_loss", &[]),
            ("fails", "failed in 5 of 5 processes", &[]),
        ] {
            let out = format!("runs/{worsened}");
            measure(&dir, worsened, &out);
            let (code, report) = gate(&dir, &out, policy);
            assert_eq!(code, Some(1), "{worsened}: {report:#}");
            assert!(
                failure_texts(&report).contains(reason),
                "{worsened}: {}",
                failure_texts(&report)
            );
        }
        let shown = dir.run(&[&["gate", "runs/work", "--baseline", "main"], timed].concat());
        assert_eq!(shown.status.code(), Some(1));
        assert!(stdout(&shown).contains("step_seconds"), "{}", stdout(&shown));

        // Remove a cell.
        let records = fs::read_to_string(dir.path("runs/same/records.jsonl")).unwrap();
        let remaining: Vec<&str> = records
            .lines()
            .filter(|line| line.contains("\"precision\":\"32-true\""))
            .collect();
        fs::write(dir.path("runs/same/records.jsonl"), remaining.join("\n") + "\n").unwrap();
        let (code, report) = gate(&dir, "runs/same", &[]);
        assert_eq!(code, Some(1));
        assert!(
            failure_texts(&report).contains("not in the candidate"),
            "{}",
            failure_texts(&report)
        );

        // With too few processes, the gate decides nothing and exits with 2.
        let remaining: Vec<&str> = records
            .lines()
            .filter(|line| line.contains("\"repeat\":0,"))
            .collect();
        fs::write(dir.path("runs/same/records.jsonl"), remaining.join("\n") + "\n").unwrap();
        let too_few = dir.run(&["gate", "runs/same", "--baseline", "main"]);
        assert_eq!(too_few.status.code(), Some(2));
        assert!(stderr(&too_few).contains("--repeats 5"), "{}", stderr(&too_few));
    }

    #[test]
    fn reruns_alternate_with_the_program_of_the_baseline() {
        let dir = TestDir::new();
        measure(&dir, "", "runs/good");
        // With half of the processes, every comparison is inconclusive.
        let path = dir.path("runs/good/records.jsonl");
        let records = fs::read_to_string(&path).unwrap();
        measure(&dir, "", "runs/change");
        let few: String = records.lines().take(4).map(|line| format!("{line}\n")).collect();
        fs::write(&path, few).unwrap();
        let arguments = [
            "gate",
            "runs/change",
            "--baseline",
            "runs/good",
            "--rerun-inconclusive",
            "1",
            "--mpirun=mpirun --oversubscribe",
            "--json",
            "--against",
        ];
        let output = command_in(&dir, &worsened_program())
            .args(arguments)
            .arg(worsened_program())
            .output()
            .unwrap();
        assert!(matches!(output.status.code(), Some(0 | 1)), "{}", stderr(&output));
        for side in ["baseline-9", "candidate-9"] {
            assert!(
                dir.path("runs/change.again")
                    .join(side)
                    .join("records.jsonl")
                    .exists(),
                "{side}"
            );
            let settings = dir.path("runs/change.again").join(side).join("run.json");
            let settings: Value = serde_json::from_str(&fs::read_to_string(settings).unwrap()).unwrap();
            assert_eq!(settings["mpirun"], json!(["mpirun", "--oversubscribe"]), "{side}");
        }
        let report: Value = serde_json::from_str(&stdout(&output)).unwrap();
        for side in ["baseline", "candidate"] {
            assert_eq!(
                report["comparison"][side]["repeats"], 10,
                "only the new processes count, twice as many as before"
            );
        }
        // The processes of both programs alternate.
        let mut starts: Vec<(String, String)> = fs::read_dir(dir.path("runs/change.again"))
            .unwrap()
            .map(|entry| {
                let folder = entry.unwrap().path();
                let environment = fs::read_to_string(folder.join("environment.json")).unwrap();
                let environment: Value = serde_json::from_str(&environment).unwrap();
                let name = folder.file_name().unwrap().to_string_lossy().into_owned();
                (environment["started"].as_str().unwrap().to_owned(), name)
            })
            .collect();
        starts.sort();
        let sides: Vec<&str> = starts
            .iter()
            .map(|(_, name)| name.split('-').next().unwrap())
            .collect();
        assert_eq!(sides, ["baseline", "candidate"].repeat(10), "{starts:?}");
        // A file that is not a program cannot measure the baseline.
        let rejected = command_in(&dir, &worsened_program())
            .args(arguments)
            .arg("runs/change/plan.json")
            .output()
            .unwrap();
        assert_eq!(rejected.status.code(), Some(2), "{}", stderr(&rejected));
        assert!(
            stderr(&rejected).contains("cannot read the version of"),
            "{}",
            stderr(&rejected)
        );
        // A program other than the one that measured the candidate cannot measure it again.
        let mut arguments = arguments[..6].to_vec();
        arguments.push("--json");
        let other = dir.run(&arguments);
        assert_eq!(other.status.code(), Some(2));
        assert!(
            stderr(&other).contains("hint: use the program that measured the run"),
            "{}",
            stderr(&other)
        );
    }

    #[test]
    fn the_ci_script_exits_with_1_for_regressions_and_2_for_errors() {
        let dir = TestDir::new();
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.github");
        fs::create_dir_all(dir.path("programs")).unwrap();
        let script = |worsened: &str, suite: &str| {
            for (side, worsened) in [("base", ""), ("change", worsened)] {
                let path = dir.path(&format!("programs/{side}"));
                let text = format!(
                    "#!/bin/sh\nexport WORSENED={worsened}\nexec '{}' \"$@\"\n",
                    worsened_program().display()
                );
                fs::write(&path, text).unwrap();
                fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            }
            let output = command_in(&dir, &root.join("gate"))
                .arg(root.join("gate-cpu.toml"))
                .args([suite, "--profile", "smoke", "--backend", "flex"])
                .output()
                .unwrap();
            let page = fs::read_to_string(dir.path("programs/gate.md")).ok();
            (output.status.code(), page, stderr(&output))
        };
        let (code, page, errors) = script("", &fixture("gated"));
        assert_eq!(code, Some(0), "{errors}");
        assert!(page.unwrap().contains("no regression"));
        let (code, page, errors) = script("learning", &fixture("gated"));
        assert_eq!(code, Some(1), "{errors}");
        assert!(page.unwrap().contains("final\\_loss"));
        let (code, page, errors) = script("", "none.toml");
        assert_eq!(code, Some(2), "{errors}");
        assert_eq!(page, None, "the result of an earlier run must be removed");
    }

    #[test]
    fn a_rerun_of_the_candidate_replaces_its_processes() {
        let dir = TestDir::new();
        measure(&dir, "", "runs/good");
        measure(&dir, "", "runs/change");
        // With half of the candidate's processes, every comparison is inconclusive.
        let path = dir.path("runs/change/records.jsonl");
        let records = fs::read_to_string(&path).unwrap();
        let few: String = records.lines().take(4).map(|line| format!("{line}\n")).collect();
        fs::write(&path, few).unwrap();
        let again = || {
            let output = command_in(&dir, &worsened_program())
                .args(["gate", "runs/change", "--baseline", "runs/good", "--json"])
                .args(["--rerun-inconclusive", "1"])
                .output()
                .unwrap();
            let errors = stderr(&output);
            let report: Option<Value> = serde_json::from_str(&stdout(&output)).ok();
            (output.status.code(), report, errors)
        };
        // A file blocks the folder of the repeated measurement.
        fs::write(dir.path("runs/change.again"), "").unwrap();
        let (code, _, errors) = again();
        assert_eq!(code, Some(2), "{errors}");
        assert!(
            errors.contains("cannot measure inconclusive cells again"),
            "{errors}"
        );
        fs::remove_file(dir.path("runs/change.again")).unwrap();
        let (code, report, errors) = again();
        assert!(matches!(code, Some(0 | 1)), "{errors}");
        let report = report.unwrap();
        let repeats = |side: &str| report["comparison"][side]["repeats"].as_u64();
        assert_eq!((repeats("baseline"), repeats("candidate")), (Some(5), Some(10)));
    }

    #[test]
    fn bisect_finds_the_first_bad_commit() {
        let dir = TestDir::new();
        let tree = dir.path("tree");
        fs::create_dir_all(&tree).unwrap();
        let git = |arguments: &[&str]| {
            let output = Command::new("git")
                .args(["-c", "user.name=Tester", "-c", "user.email=tester@localhost"])
                .args(arguments)
                .current_dir(&tree)
                .output()
                .unwrap();
            assert!(output.status.success(), "git {arguments:?}: {}", stderr(&output));
            stdout(&output)
        };
        git(&["init", "--quiet"]);
        fs::copy(dir.path(&fixture("gated")), tree.join("suite.toml")).unwrap();
        // The program of each commit is the same binary, with the regression that a file selects.
        let commit = |number: u32, worsened: &str| {
            let script = format!(
                "#!/bin/sh\nexport WORSENED={worsened}\nexec '{}' \"$@\"\n",
                worsened_program().display()
            );
            fs::write(tree.join("program.in"), script).unwrap();
            fs::write(tree.join("number"), number.to_string()).unwrap();
            git(&["add", "."]);
            git(&["commit", "--quiet", "-m", &format!("change {number}")]);
        };
        // The second commit is worse in another metric, and the third cannot be built.
        for (number, worsened) in (1..).zip(["", "memory", "", "", "learning", "learning"]) {
            let broken = tree.join("broken");
            match number {
                3 => fs::write(&broken, "").unwrap(),
                4 => fs::remove_file(&broken).unwrap(),
                _ => {}
            }
            commit(number, worsened);
        }
        // Exclude times from the gate, because those of such a short workload on a busy machine are too noisy.
        fs::create_dir_all(tree.join("baselines")).unwrap();
        fs::write(
            tree.join("baselines/gate.toml"),
            "[floor]\nstep_seconds = \"off\"\nsamples_per_second = \"off\"\nwarmup_seconds = \"off\"\nhost_peak_bytes = 0.1\n",
        )
        .unwrap();
        let output = dir
            .command(&[
                "bisect",
                "HEAD~5",
                "HEAD",
                "--build",
                "test ! -e broken && cp program.in program && chmod +x program",
                "--program",
                "program",
                "--",
                "suite.toml",
                "--profile",
                "smoke",
                "--backend",
                "flex",
                "-a",
                "precision=32-true",
            ])
            .current_dir(&tree)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert!(
            stdout(&output).contains("change 5"),
            "{}{}",
            stdout(&output),
            stderr(&output)
        );
        let text = stderr(&output);
        assert!(
            text.contains("change 4: not worse") || text.contains("change 2: not worse"),
            "{text}"
        );
        // All temporary files are removed.
        assert_eq!(git(&["worktree", "list"]).lines().count(), 1);
        assert_eq!(git(&["status", "--porcelain"]), "?? baselines/\n");
    }
}
