//! Runs the files that a team copies into its own repository: `.github/both`, `.github/gate`, the GitHub workflow and the GitLab example,
//! changed only as docs/ci.md describes.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::Value;

use crate::{
    gate::{command_in, run_kernels, worsened_program},
    support::{TestDir, root, stderr, stdout},
};

/// Returns a file of Mantissa's repository.
fn read_repository_file(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap()
}

/// Applies the replacements of docs/ci.md to `text`.
fn replace_all(text: &str, changes: &[(&str, &str)]) -> String {
    changes.iter().fold(text.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "nothing to replace: {from}");
        text.replace(from, to)
    })
}

/// Suite arguments of the gate, and the arguments of the other team that replace them.
const SUITE: (&str, &str) = (
    "suites/kernels/matmul.toml --profile smoke --backend flex -a size=256",
    "trainer.toml --profile smoke --backend flex",
);

/// Repository of another team, with a program that uses Mantissa as a library.
struct OtherRepository {
    dir: TestDir,
    tree: PathBuf,
}

impl OtherRepository {
    /// Creates the repository, with Mantissa adopted on the branch `main`.
    fn new() -> Self {
        let dir = TestDir::new();
        let tree = dir.path("foreign");
        let repository = Self { dir, tree };
        for folder in [".github/workflows", "examples", "src"] {
            fs::create_dir_all(repository.tree.join(folder)).unwrap();
        }
        repository.git(&["init", "--quiet", "--initial-branch", "main"]);
        repository.write(
            "Cargo.toml",
            "[package]\nname = \"foreign\"\nedition = \"2024\"\n\n[[example]]\nname = \"trainer\"\n\n[workspace]\n",
        );
        repository.write("src/lib.rs", "");
        repository.write("trainer.toml", &read_repository_file("tests/fixtures/gated.toml"));
        repository.write(".gitignore", "/target\n/reports/\n/programs/\n/.mantissa\n");
        let example = [
            ("--package mantissa", "--example trainer"),
            ("release/mantissa", "release/examples/trainer"),
        ];
        repository.write(
            ".github/both",
            &replace_all(&read_repository_file(".github/both"), &example),
        );
        repository.write(
            ".github/workflows/bench.yml",
            &replace_all(&read_repository_file(".github/workflows/bench.yml"), &[SUITE]),
        );
        repository.write(
            ".gitlab-ci.yml",
            &replace_all(&read_repository_file("docs/ci/gitlab.yml"), &[SUITE]),
        );
        for file in ["gate", "gate-cpu.toml"] {
            fs::copy(
                root().join(".github").join(file),
                repository.tree.join(".github").join(file),
            )
            .unwrap();
        }
        let mode = fs::metadata(root().join(".github/both")).unwrap().permissions();
        fs::set_permissions(repository.tree.join(".github/both"), mode).unwrap();
        let lockfile = Command::new("cargo")
            .arg("generate-lockfile")
            .current_dir(&repository.tree)
            .output()
            .unwrap();
        assert!(lockfile.status.success(), "{}", stderr(&lockfile));
        repository.commit("adopt Mantissa", "");
        repository
    }

    fn write(&self, path: &str, text: &str) {
        fs::write(self.tree.join(path), text).unwrap();
    }

    fn git(&self, arguments: &[&str]) -> String {
        let output = Command::new("git")
            .args(["-c", "user.name=Tester", "-c", "user.email=tester@localhost"])
            .args(arguments)
            .current_dir(&self.tree)
            .output()
            .unwrap();
        assert!(output.status.success(), "git {arguments:?}: {}", stderr(&output));
        stdout(&output).trim().to_owned()
    }

    /// Commits a program with this regression. It executes `tests/worsened.rs`, to avoid compiling burn here.
    fn commit(&self, message: &str, worsened: &str) {
        self.write(
            "examples/trainer.rs",
            &format!(
                "use std::os::unix::process::CommandExt;\n\nfn main() {{\n    let mut program = std::process::Command::new({:?});\n    \
                 program.args(std::env::args_os().skip(1)).env(\"WORSENED\", {worsened:?});\n    panic!(\"{{}}\", program.exec());\n}}\n",
                worsened_program()
            ),
        );
        self.write("message", message);
        self.git(&["add", "."]);
        self.git(&["commit", "--quiet", "-m", message]);
    }

    /// Creates a pull request with one commit on `request`, another commit on `main`, and the merge that GitHub checks out.
    fn open_pull_request(&self, worsened: &str) {
        self.git(&["checkout", "--quiet", "-b", "request"]);
        self.commit("a change", worsened);
        self.git(&["checkout", "--quiet", "main"]);
        self.write("elsewhere", "");
        self.git(&["add", "."]);
        self.git(&["commit", "--quiet", "-m", "something else meanwhile"]);
        self.git(&["checkout", "--quiet", "-b", "merge"]);
        self.git(&["merge", "--quiet", "--no-edit", "request"]);
    }

    /// Clones a branch as a CI runner does.
    fn checkout(&self, branch: &str, more: &[&str]) -> PathBuf {
        let to = self.dir.path("checkout");
        let from = format!("file://{}", self.tree.display());
        let mut arguments = vec!["clone", "--quiet", "--branch", branch];
        arguments.extend(more);
        let to_text = to.display().to_string();
        arguments.extend([from.as_str(), to_text.as_str()]);
        self.git(&arguments);
        to
    }

    /// Runs a script in the shell of a CI runner.
    fn shell(&self, checkout: &Path, script: &str, variables: &[(&str, &str)]) -> Output {
        let mut shell = command_in(&self.dir, Path::new("bash"));
        // Cargo sets these variables for the test. A CI runner does not have them.
        shell.env_remove("CARGO_TARGET_DIR").env_remove("CARGO");
        shell
            .args(["-e", "-o", "pipefail", "-c", script])
            .envs(variables.iter().copied())
            .current_dir(checkout)
            .output()
            .unwrap()
    }
}

/// Runs the job `cpu` of the workflow in a checkout. After a failure, runs only `always()` steps. Returns the name and exit code of each step,
/// and the output of all.
fn run_job(repository: &OtherRepository, checkout: &Path) -> (Vec<(String, i32)>, String) {
    let workflow = yaml(&fs::read_to_string(checkout.join(".github/workflows/bench.yml")).unwrap());
    let summary = repository.dir.path("summary.md");
    fs::write(&summary, "").unwrap();
    let outputs = repository.dir.path("outputs");
    let (mut codes, mut log, mut failed) = (Vec::new(), String::new(), false);
    for step in workflow["jobs"]["cpu"]["steps"].as_array().unwrap() {
        let (Some(script), always) = (step["run"].as_str(), step["if"] == "always()") else {
            continue;
        };
        if failed && !always {
            continue;
        }
        let output = repository.shell(
            checkout,
            script,
            &[
                ("GITHUB_STEP_SUMMARY", summary.to_str().unwrap()),
                ("GITHUB_OUTPUT", outputs.to_str().unwrap()),
            ],
        );
        let code = output.status.code().unwrap();
        failed |= code != 0;
        codes.push((step["name"].as_str().unwrap().to_owned(), code));
        log.push_str(&stdout(&output));
        log.push_str(&stderr(&output));
    }
    // The files that the last step uploads exist.
    for path in workflow["jobs"]["cpu"]["steps"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|step| {
            step["uses"]
                .as_str()
                .is_some_and(|action| action.starts_with("actions/upload-artifact@"))
        })
        .filter_map(|step| step["with"]["path"].as_str())
        .flat_map(str::lines)
    {
        assert!(checkout.join(path).exists(), "{path} does not exist: {log}");
    }
    (codes, log)
}

#[test]
fn the_both_script_reports_build_errors_and_a_missing_base() {
    let repository = OtherRepository::new();
    repository.open_pull_request("");
    let checkout = repository.checkout("merge", &[]);
    let both = |variables: &[(&str, &str)]| {
        let output = repository.shell(&checkout, ".github/both", variables);
        assert!(!checkout.join("programs/base").exists());
        assert_eq!(
            repository
                .shell(&checkout, "git worktree list | wc -l", &[])
                .stdout,
            b"1\n"
        );
        (output.status.success(), stderr(&output))
    };
    let (built, log) = both(&[]);
    assert!(!built && log.contains("the commit to compare with"), "{log}");
    let (built, log) = both(&[("BASE", "nothing-of-the-kind")]);
    assert!(!built && log.contains("nothing-of-the-kind"), "{log}");
    let trainer = checkout.join("examples/trainer.rs");
    let sound = fs::read_to_string(&trainer).unwrap();
    fs::write(&trainer, "fn main() { nothing }").unwrap();
    let (built, log) = both(&[("BASE", "HEAD^1")]);
    assert!(!built && log.contains("nothing"), "{log}");
    // The base is broken, and this change repairs it.
    let commit =
        "git -c user.name=Tester -c user.email=tester@localhost commit --quiet --all --message broken";
    assert!(repository.shell(&checkout, commit, &[]).status.success());
    fs::write(&trainer, sound).unwrap();
    let (built, log) = both(&[("BASE", "HEAD")]);
    assert!(!built && log.contains("nothing"), "{log}");
}

#[test]
fn every_ci_job_uses_an_existing_suite_and_policy() {
    let dir = TestDir::new();
    run_kernels(&dir, "run", &["--repeats", "5"]);
    let gitlab = yaml(&read_repository_file("docs/ci/gitlab.yml"));
    let github = yaml(&read_repository_file(".github/workflows/bench.yml"));
    let jobs = github["jobs"].as_object().unwrap();
    let steps = jobs.values().flat_map(|job| job["steps"].as_array().unwrap());
    let lines = steps
        .map(|step| &step["run"])
        .chain(gitlab["bench"]["script"].as_array().unwrap());
    let gates: Vec<_> = lines
        .filter_map(|line| line.as_str()?.strip_prefix(".github/gate "))
        .collect();
    assert_eq!(gates.len(), jobs.len() + 1);
    for gate in gates {
        let (policy, run) = gate.split_once(' ').unwrap();
        let mut plan = vec!["plan"];
        plan.extend(run.split(' '));
        let planned = dir.run(&plan);
        assert_eq!(planned.status.code(), Some(0), "{run}: {}", stderr(&planned));
        let policy = root().join(policy).display().to_string();
        let judged = dir.run(&["gate", "run", "--baseline", "run", "--policy", &policy]);
        assert_eq!(judged.status.code(), Some(0), "{policy}: {}", stderr(&judged));
    }
}

mod long {
    use super::*;

    #[test]
    fn the_github_workflow_fails_a_pull_request_with_a_regression() {
        let repository = OtherRepository::new();
        repository.open_pull_request("learning");
        let checkout = repository.checkout("merge", &["--depth", "2"]);
        let (codes, log) = run_job(&repository, &checkout);
        let step = |name: &str, code| (name.to_owned(), code);
        assert_eq!(
            codes,
            [
                step("Compiler version", 0),
                step("Build both programs", 0),
                step("Measure alternately and compare", 1),
                step("Add the result to the job summary", 0)
            ],
            "{log}"
        );
        assert!(log.contains("::error"), "{log}");
        let summary = fs::read_to_string(repository.dir.path("summary.md")).unwrap();
        assert!(summary.contains("final\\_loss"), "{summary}");
        // The base is the current `main`, not the commit at which the pull request was opened.
        let revision =
            |side: &str| fs::read_to_string(checkout.join(format!("programs/{side}.revision"))).unwrap();
        assert_eq!(revision("base").trim(), repository.git(&["rev-parse", "main"]));
        assert_eq!(revision("change").trim(), repository.git(&["rev-parse", "merge"]));
        for side in ["base", "change"] {
            let record =
                fs::read_to_string(checkout.join(format!("programs/runs/{side}-1/records.jsonl"))).unwrap();
            assert!(record.contains(revision(side).trim()), "{record}");
        }
        // No files or work trees remain for the next job or in version control.
        assert_eq!(
            repository
                .shell(&checkout, "git worktree list | wc -l", &[])
                .stdout,
            b"1\n"
        );
        assert_eq!(
            stdout(&repository.shell(&checkout, "git status --porcelain", &[])),
            ""
        );
    }

    #[test]
    fn the_gitlab_job_passes_a_change_without_effect() {
        let repository = OtherRepository::new();
        repository.open_pull_request("");
        // A pipeline of the merge request itself, not of its merged result.
        let checkout = repository.checkout("request", &[]);
        let pipeline = yaml(&fs::read_to_string(checkout.join(".gitlab-ci.yml")).unwrap());
        let job = &pipeline["bench"];
        assert_eq!(job["variables"]["BASE"], "$CI_MERGE_REQUEST_DIFF_BASE_SHA");
        let base = repository.git(&["merge-base", "main", "request"]);
        let script: Vec<_> = job["script"]
            .as_array()
            .unwrap()
            .iter()
            .map(|line| line.as_str().unwrap())
            .collect();
        let output = repository.shell(&checkout, &script.join("\n"), &[("BASE", &base)]);
        assert_eq!(
            output.status.code(),
            Some(0),
            "{}{}",
            stdout(&output),
            stderr(&output)
        );
        let artifacts = &job["artifacts"];
        for path in artifacts["paths"]
            .as_array()
            .unwrap()
            .iter()
            .chain([&artifacts["reports"]["junit"]])
        {
            assert!(checkout.join(path.as_str().unwrap()).exists(), "{path}");
        }
        let page = fs::read_to_string(checkout.join("programs/gate.md")).unwrap();
        assert!(page.contains("no regression"), "{page}");
    }
}
