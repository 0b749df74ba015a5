//! `mantissa bisect`: finds the commit that made a cell worse with `git bisect` and the gate's verdict.

use std::{
    collections::BTreeSet,
    env, fs,
    io::{Read as _, Seek as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, bail};
use mantissa_gate::{Fences, Gate, GateReport, Policy, RunMeasurements, compare};
use mantissa_runner::Stop;

use crate::{
    args::{BisectArguments, BisectStepArguments},
    commands::gate::{policy_of, today},
    exit::Exit,
    printer::Printer,
    watched_regression::WatchedRegression,
};

/// Exit code that marks a commit as untestable in `git bisect run`.
const UNTESTABLE: u8 = 125;

/// Finds the first commit whose program is worse than that of the good commit. Builds and measures in a separate work tree.
pub(crate) fn bisect(arguments: &BisectArguments, printer: &Printer) -> Result<Exit> {
    for (option, hint) in [
        ("--repeats", "pass it before `--`"),
        ("--out", "leave it out: every run gets a temporary folder"),
        ("--resume", "leave it out: every run gets a temporary folder"),
    ] {
        if arguments
            .run
            .iter()
            .any(|argument| argument.split('=').next() == Some(option))
        {
            bail!("cannot use `{option}` after `--`\n  hint: {hint}");
        }
    }
    // A signal stops the current build or measurement. The work tree and the folder are removed before the program exits.
    let stop = Stop::on_signals()?;
    let result = find(arguments, &stop, printer);
    match stop.signal() {
        Some(signal) => Ok(Exit::Stopped(signal)),
        None => result.map(|()| Exit::Success),
    }
}

fn find(arguments: &BisectArguments, stop: &Stop, printer: &Printer) -> Result<()> {
    // Resolve names here, because names such as `HEAD~4` refer to other commits in another work tree.
    let commit = |name: &str| -> Result<String> {
        let hash = git(
            Path::new("."),
            &["rev-parse", "--verify", &format!("{name}^{{commit}}")],
        );
        let hash = hash.with_context(|| format!("`{name}` is not a commit of this repository"))?;
        Ok(hash.trim().to_owned())
    };
    let (good_commit, bad_commit) = (commit(&arguments.good)?, commit(&arguments.bad)?);
    let default_policy = Path::new("baselines").join(Policy::FILE);
    let default_policy = Some(default_policy.as_path()).filter(|path| path.is_file());
    let policy = arguments.policy.as_deref().or(default_policy);
    let temporary = tempfile::tempdir().context("cannot create a temporary folder")?;
    let work_tree = WorkTree::add(temporary.path().join("tree"), &bad_commit)?;
    let step = Step {
        work_tree: &work_tree.path,
        build: &arguments.build,
        program: &arguments.program,
        run: &arguments.run,
        repeats: arguments.repeats,
        policy: policy_of(policy)?,
        stop,
    };
    let build = |name: &str, commit: &str| -> Result<()> {
        work_tree.git(&["checkout", "--quiet", "--detach", commit])?;
        if !step.build(printer)? {
            bail!(
                "cannot build {name}: `{}` failed or did not create `{}`",
                arguments.build,
                arguments.program.display()
            );
        }
        Ok(())
    };
    build(&arguments.good, &good_commit)?;
    let good_program = temporary.path().join("good");
    fs::copy(step.built_program(), &good_program)
        .with_context(|| format!("cannot copy `{}`", step.built_program().display()))?;
    build(&arguments.bad, &bad_commit)?;
    let report = step.compare_with(&good_program, &temporary.path().join("bad"))?;
    if report.gate() != Gate::Failed {
        bail!(
            "{} is not worse than {}: no regression in {} comparisons, {} of which are inconclusive\n  hint: increase `--repeats` to detect smaller changes",
            arguments.bad,
            arguments.good,
            report.comparison.outcomes().count(),
            report.inconclusive
        );
    }
    for failure in report.failing() {
        printer.note(&format!("{}: {}", arguments.bad, failure.text));
    }
    work_tree.git(&["bisect", "start", &bad_commit, &good_commit])?;
    let this_program = env::current_exe()?;
    let mut run = Command::new("git");
    run.current_dir(&work_tree.path)
        .args(["bisect", "run"])
        .arg(this_program)
        .arg("bisect-step");
    run.args(["--build", &arguments.build])
        .arg("--program")
        .arg(&arguments.program);
    run.args(["--repeats", &arguments.repeats.to_string()])
        .arg("--good")
        .arg(&good_program);
    run.arg("--runs").arg(temporary.path().join("steps"));
    if let Some(policy) = policy {
        run.arg("--policy").arg(policy.canonicalize()?);
    }
    for watched in WatchedRegression::all(&report) {
        run.args(["--watch", &watched.to_string()]);
    }
    // The steps print the verdict on each commit to standard error.
    run.arg("--").args(&arguments.run);
    let (code, output) = run_and_capture(&mut run, stop, Some(Stdio::inherit()))?;
    if code != Some(0) {
        bail!(
            "`git bisect run` did not find a single bad commit:\n{}",
            output.trim_end()
        );
    }
    let first = work_tree.git(&["log", "-1", "--format=%H %s", "refs/bisect/bad"])?;
    printer.data(&format!("the first bad commit is {}", first.trim()));
    Ok(())
}

/// Tests a commit that `git bisect` checked out. Exits with 0 if the commit is good, 1 if it shows the regression of the bad commit, and
/// 125 if it cannot be built or measured or the result is inconclusive.
pub(crate) fn step(arguments: &BisectStepArguments, printer: &Printer) -> Exit {
    test_commit(arguments, printer).unwrap_or_else(|error| {
        // `git bisect` would treat the exit code of an ordinary error as a bad commit.
        printer.warn(&format!("{error:#}"));
        Exit::Code(UNTESTABLE)
    })
}

fn test_commit(arguments: &BisectStepArguments, printer: &Printer) -> Result<Exit> {
    let stop = Stop::on_signals()?;
    let work_tree = env::current_dir()?;
    let step = Step {
        work_tree: &work_tree,
        build: &arguments.build,
        program: &arguments.program,
        run: &arguments.run,
        repeats: arguments.repeats,
        policy: policy_of(arguments.policy.as_deref())?,
        stop: &stop,
    };
    let commit = git(&work_tree, &["log", "-1", "--format=%h %s"])?;
    if !step.build(printer)? {
        printer.note(&format!("{}: cannot be built", commit.trim()));
        return Ok(Exit::Code(UNTESTABLE));
    }
    let runs = arguments
        .runs
        .join(commit.split_whitespace().next().unwrap_or("commit"));
    let (verdict, exit) = match step.compare_with(&arguments.good, &runs) {
        Ok(report) => {
            let worse: Vec<Option<bool>> = arguments
                .watch
                .iter()
                .map(|watched| watched.is_worse(&report))
                .collect();
            match () {
                () if worse.contains(&Some(true)) => ("worse", Exit::Regression),
                () if worse.contains(&None) => ("inconclusive", Exit::Code(UNTESTABLE)),
                () => ("not worse", Exit::Success),
            }
        }
        Err(error) => {
            printer.warn(&format!("{error:#}"));
            ("cannot be measured", Exit::Code(UNTESTABLE))
        }
    };
    printer.note(&format!("{}: {verdict}", commit.trim()));
    Ok(exit)
}

/// Settings to build and measure a commit.
struct Step<'a> {
    work_tree: &'a Path,
    build: &'a str,
    program: &'a Path,
    /// Arguments of `mantissa run`.
    run: &'a [String],
    repeats: u32,
    policy: Policy,
    stop: &'a Stop,
}

impl Step<'_> {
    fn built_program(&self) -> PathBuf {
        self.work_tree.join(self.program)
    }

    /// Builds the commit and returns true on success.
    fn build(&self, printer: &Printer) -> Result<bool> {
        // Remove the program of the previous commit, so that it is not measured if this build creates none.
        let _ = fs::remove_file(self.built_program());
        let mut command = Command::new("sh");
        command.args(["-c", self.build]).current_dir(self.work_tree);
        let (code, output) = run_and_capture(&mut command, self.stop, None)?;
        if code != Some(0) {
            printer.note(output.trim_end());
        }
        Ok(code == Some(0) && self.built_program().is_file())
    }

    /// Compares the built program with the program of the good commit. The processes of the two programs alternate, so that disturbances of
    /// the machine affect both programs.
    fn compare_with(&self, good_program: &Path, runs: &Path) -> Result<GateReport> {
        let mut sides: [Option<RunMeasurements>; 2] = [None, None];
        for process in 0..self.repeats {
            for (side, (name, program)) in sides
                .iter_mut()
                .zip([("good", good_program), ("commit", &self.built_program())])
            {
                let measured = self.measure(program, &runs.join(format!("{name}-{process}")))?;
                match side {
                    None => *side = Some(measured),
                    Some(earlier) => earlier.extend(measured),
                }
            }
        }
        let [Some(baseline), Some(candidate)] = sides else {
            bail!("no processes were measured");
        };
        let comparison = compare(
            &baseline,
            &candidate,
            &self.policy,
            &BTreeSet::new(),
            &Fences::new(),
        )?;
        // An inconclusive metric does not make a commit bad.
        Ok(GateReport::new(comparison, &self.policy, today(), false))
    }

    fn measure(&self, program: &Path, out: &Path) -> Result<RunMeasurements> {
        let mut command = Command::new(program);
        command
            .arg("run")
            .args(self.run)
            .args(["--repeats", "1", "--quiet", "--out"])
            .arg(out)
            .current_dir(self.work_tree);
        // Exit code 3 means that a cell failed, which the gate evaluates.
        match run_and_capture(&mut command, self.stop, None)? {
            (Some(0 | 3), _) => Ok(RunMeasurements::read(out)?),
            (_, output) => bail!("{}", output.trim_end()),
        }
    }
}

/// Runs a program and returns its exit code and its output: standard output and, unless it is redirected, standard error.
fn run_and_capture(
    command: &mut Command,
    stop: &Stop,
    errors: Option<Stdio>,
) -> Result<(Option<i32>, String)> {
    let mut log = tempfile::tempfile().context("cannot create a temporary file")?;
    let errors = match errors {
        Some(errors) => errors,
        None => log.try_clone()?.into(),
    };
    let command = command
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(errors);
    let name = command.get_program().to_string_lossy().into_owned();
    let status = stop
        .run_command(command)
        .with_context(|| format!("cannot start `{name}`"))?;
    if stop.signal().is_some() {
        bail!("stopped");
    }
    log.rewind()?;
    let mut output = vec![];
    log.read_to_end(&mut output)?;
    Ok((status.code(), String::from_utf8_lossy(&output).into_owned()))
}

/// Temporary work tree of the current repository, removed on drop.
struct WorkTree {
    path: PathBuf,
}

impl WorkTree {
    fn add(path: PathBuf, commit: &str) -> Result<Self> {
        let text = path.display().to_string();
        git(
            Path::new("."),
            &["worktree", "add", "--quiet", "--detach", &text, commit],
        )?;
        Ok(Self { path })
    }

    fn git(&self, arguments: &[&str]) -> Result<String> {
        git(&self.path, arguments)
    }
}

impl Drop for WorkTree {
    fn drop(&mut self) {
        let text = self.path.display().to_string();
        // This also removes the references of the bisection. If it fails, the folder remains in the temporary directory, and `git worktree
        // prune` removes its registration.
        let _ = git(Path::new("."), &["worktree", "remove", "--force", &text]);
    }
}

fn git(folder: &Path, arguments: &[&str]) -> Result<String> {
    let output = Command::new("git").args(arguments).current_dir(folder).output();
    let output = output.context("cannot start git")?;
    if !output.status.success() {
        bail!(
            "git {}: {}",
            arguments.join(" "),
            String::from_utf8_lossy(&output.stderr).trim_end()
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
