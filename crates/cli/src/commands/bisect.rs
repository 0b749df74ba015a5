//! `mantissa bisect`: the commit that made a cell worse, found by `git bisect` with the gate's verdict.

use std::{
    collections::BTreeSet,
    env, fs,
    io::{Read as _, Seek as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, bail};
use mantissa_core::MetricName;
use mantissa_gate::{Failure, Fences, FindingKind, Gate, Gated, Measured, Outcome, Policy, compare};
use mantissa_runner::Stop;

use crate::{
    args::{BisectArguments, BisectStepArguments},
    commands::gate::{policy_of, today},
    exit::Exit,
    printer::Printer,
};

/// What is worse at the bad commit: a metric of a cell, or what else was found of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Watched {
    cell: String,
    about: String,
}

impl std::fmt::Display for Watched {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.cell, self.about)
    }
}

impl std::str::FromStr for Watched {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (cell, about) = text.split_once(':').ok_or("CELL:METRIC")?;
        Ok(Self {
            cell: cell.to_owned(),
            about: about.to_owned(),
        })
    }
}

impl Watched {
    /// Everything that fails.
    fn all(gated: &Gated) -> Vec<Self> {
        let of = |failure: &Failure| {
            let metric = failure.metric.map(MetricName::name);
            let finding = failure.finding.map(FindingKind::name);
            Some(Self {
                cell: gated.cell(failure)?.id.to_string(),
                about: metric.or(finding)?.to_owned(),
            })
        };
        gated.failing().filter_map(of).collect()
    }

    /// Whether a commit is worse in it; absent if that cannot be told.
    fn is_worse(&self, gated: &Gated) -> Option<bool> {
        if Self::all(gated).contains(self) {
            return Some(true);
        }
        let cells = &gated.comparison.cells;
        let cell = cells.iter().find(|cell| cell.id.as_str() == self.cell)?;
        let change = cell
            .changes
            .iter()
            .find(|change| change.metric.name() == self.about);
        let finding = cell
            .findings
            .iter()
            .find(|finding| finding.kind.name() == self.about);
        let is_seen = [FindingKind::Executed, FindingKind::Kernel]
            .iter()
            .any(|kind| kind.name() == self.about);
        let unseen = cell.findings.iter().any(|finding| match finding.kind {
            FindingKind::Lost => true,
            FindingKind::Status => finding.verdict != Outcome::Improved,
            _ => false,
        });
        let is_metric = MetricName::ALL.iter().any(|metric| metric.name() == self.about);
        let verdict = match (change, finding) {
            (Some(change), _) => change.verdict,
            (None, Some(finding)) => finding.verdict,
            // A metric that was not measured says nothing, nor does a precision that was not seen; nothing found is nothing worse.
            (None, None) if is_metric || (is_seen && unseen) => return None,
            (None, None) => Outcome::Unchanged,
        };
        (verdict != Outcome::Inconclusive).then_some(false)
    }
}

/// What `git bisect run` takes for a commit that cannot be tested.
const UNTESTABLE: u8 = 125;

/// Finds the first commit whose program is worse than that of `good`, in a work tree of its own.
pub(crate) fn bisect(arguments: &BisectArguments, printer: &Printer) -> Result<Exit> {
    for own in ["--repeats", "--out", "--resume"] {
        if arguments
            .run
            .iter()
            .any(|given| given.split('=').next() == Some(own))
        {
            bail!("`{own}` is decided here\n  hint: give `--repeats` before `--`");
        }
    }
    // What is being built or measured ends first; then the work tree and the folder are removed.
    let stop = Stop::on_signals()?;
    let found = find(arguments, &stop, printer);
    match stop.asked() {
        Some(signal) => Ok(Exit::Stopped(signal)),
        None => found.map(|()| Exit::Done),
    }
}

fn find(arguments: &BisectArguments, stop: &Stop, printer: &Printer) -> Result<()> {
    // Names such as `HEAD~4` mean something else in another work tree.
    let commit = |name: &str| {
        let found = git(
            Path::new("."),
            &["rev-parse", "--verify", &format!("{name}^{{commit}}")],
        );
        let found = found.with_context(|| format!("`{name}` is no commit of this repository"));
        found.map(|hash| hash.trim().to_owned())
    };
    let (good_commit, bad_commit) = (commit(&arguments.good)?, commit(&arguments.bad)?);
    let beside = Path::new("baselines").join(Policy::FILE);
    let beside = Some(beside.as_path()).filter(|path| path.is_file());
    let policy = arguments.policy.as_deref().or(beside);
    let temporary = tempfile::tempdir().context("no temporary folder")?;
    let tree = Tree::add(temporary.path().join("tree"), &bad_commit)?;
    let step = Step {
        tree: &tree.path,
        build: &arguments.build,
        program: &arguments.program,
        run: &arguments.run,
        repeats: arguments.repeats,
        policy: policy_of(policy)?,
        stop,
    };
    tree.git(&["checkout", "--quiet", "--detach", &good_commit])?;
    if !step.build(printer)? {
        bail!("`{}` fails at {}", arguments.build, arguments.good);
    }
    let good = temporary.path().join("good");
    fs::copy(step.built(), &good).with_context(|| format!("there is no `{}`", step.built().display()))?;
    tree.git(&["checkout", "--quiet", "--detach", &bad_commit])?;
    if !step.build(printer)? {
        bail!("`{}` fails at {}", arguments.build, arguments.bad);
    }
    let gated = step.judge(&good, &temporary.path().join("bad"))?;
    if gated.gate() != Gate::Failed {
        bail!(
            "{} is not worse than {}: nothing regressed in {} comparisons, {} of which are undecided\n  hint: more `--repeats` see smaller changes",
            arguments.bad,
            arguments.good,
            gated.comparison.outcomes().count(),
            gated.undecided
        );
    }
    for failure in gated.failing() {
        printer.note(&format!("{}: {}", arguments.bad, failure.text));
    }
    tree.git(&["bisect", "start", &bad_commit, &good_commit])?;
    let own = env::current_exe()?;
    let mut run = Command::new("git");
    run.current_dir(&tree.path)
        .args(["bisect", "run"])
        .arg(own)
        .arg("bisect-step");
    run.args(["--build", &arguments.build])
        .arg("--program")
        .arg(&arguments.program);
    run.args(["--repeats", &arguments.repeats.to_string()])
        .arg("--good")
        .arg(&good);
    run.arg("--runs").arg(temporary.path().join("steps"));
    if let Some(policy) = policy {
        run.arg("--policy").arg(policy.canonicalize()?);
    }
    for watched in Watched::all(&gated) {
        run.args(["--watch", &watched.to_string()]);
    }
    // Its steps say on standard error which commit is how.
    run.arg("--").args(&arguments.run);
    let (ended, said) = logged(&mut run, stop, Some(Stdio::inherit()))?;
    if ended != Some(0) {
        bail!("git could not narrow it down to one commit:\n{}", said.trim_end());
    }
    let first = tree.git(&["log", "-1", "--format=%H %s", "refs/bisect/bad"])?;
    printer.data(&format!("the first bad commit is {}", first.trim()));
    Ok(())
}

/// A commit that `git bisect` checked out: 0 good, 1 bad in what the bad commit is, 125 not to be told.
pub(crate) fn step(arguments: &BisectStepArguments, printer: &Printer) -> Exit {
    tested(arguments, printer).unwrap_or_else(|error| {
        // Git would take any other code for a bad commit.
        printer.warn(&format!("{error:#}"));
        Exit::Code(UNTESTABLE)
    })
}

fn tested(arguments: &BisectStepArguments, printer: &Printer) -> Result<Exit> {
    let stop = Stop::on_signals()?;
    let tree = env::current_dir()?;
    let step = Step {
        tree: &tree,
        build: &arguments.build,
        program: &arguments.program,
        run: &arguments.run,
        repeats: arguments.repeats,
        policy: policy_of(arguments.policy.as_deref())?,
        stop: &stop,
    };
    let commit = git(&tree, &["log", "-1", "--format=%h %s"])?;
    if !step.build(printer)? {
        printer.note(&format!("{}: cannot be built", commit.trim()));
        return Ok(Exit::Code(UNTESTABLE));
    }
    let place = arguments
        .runs
        .join(commit.split_whitespace().next().unwrap_or("commit"));
    let (word, exit) = match step.judge(&arguments.good, &place) {
        Ok(gated) => {
            let worse: Vec<Option<bool>> = arguments
                .watch
                .iter()
                .map(|watched| watched.is_worse(&gated))
                .collect();
            match () {
                () if worse.contains(&Some(true)) => ("worse", Exit::Regressed),
                () if worse.contains(&None) => ("undecided", Exit::Code(UNTESTABLE)),
                () => ("not worse", Exit::Done),
            }
        }
        Err(error) => {
            printer.warn(&format!("{error:#}"));
            ("cannot be measured", Exit::Code(UNTESTABLE))
        }
    };
    printer.note(&format!("{}: {word}", commit.trim()));
    Ok(exit)
}

/// How a commit is built and measured.
struct Step<'a> {
    tree: &'a Path,
    build: &'a str,
    program: &'a Path,
    /// Arguments of `mantissa run`.
    run: &'a [String],
    repeats: u32,
    policy: Policy,
    stop: &'a Stop,
}

impl Step<'_> {
    fn built(&self) -> PathBuf {
        self.tree.join(self.program)
    }

    /// Whether the commit can be built.
    fn build(&self, printer: &Printer) -> Result<bool> {
        // What is not built anew is another commit's.
        let _ = fs::remove_file(self.built());
        let mut command = Command::new("sh");
        command.args(["-c", self.build]).current_dir(self.tree);
        let (ended, said) = logged(&mut command, self.stop, None)?;
        if ended != Some(0) {
            printer.note(said.trim_end());
        }
        Ok(ended == Some(0) && self.built().is_file())
    }

    /// Holds the program that was built to another one, process by process in turns, so that whatever else the machine does befalls both.
    fn judge(&self, good: &Path, place: &Path) -> Result<Gated> {
        let mut sides: [Option<Measured>; 2] = [None, None];
        for process in 0..self.repeats {
            for (side, (name, program)) in sides.iter_mut().zip([("good", good), ("commit", &self.built())]) {
                let measured = self.measure(program, &place.join(format!("{name}-{process}")))?;
                match side {
                    None => *side = Some(measured),
                    Some(known) => known.extend(measured),
                }
            }
        }
        let [Some(baseline), Some(candidate)] = sides else {
            bail!("no process was asked for");
        };
        let comparison = compare(
            &baseline,
            &candidate,
            &self.policy,
            &BTreeSet::new(),
            &Fences::new(),
        )?;
        // Something undecided about one metric does not make a commit bad.
        Ok(Gated::new(comparison, &self.policy, today(), false))
    }

    fn measure(&self, program: &Path, out: &Path) -> Result<Measured> {
        let mut command = Command::new(program);
        command
            .arg("run")
            .args(self.run)
            .args(["--repeats", "1", "--quiet", "--out"])
            .arg(out)
            .current_dir(self.tree);
        // 3: a cell failed, which is for the gate to judge.
        match logged(&mut command, self.stop, None)? {
            (Some(0 | 3), _) => Ok(Measured::read(out)?),
            (_, said) => bail!("{}", said.trim_end()),
        }
    }
}

/// Runs a program to its end: its exit code, and what it said on standard output and, unless that goes elsewhere, on standard error.
fn logged(command: &mut Command, stop: &Stop, errors: Option<Stdio>) -> Result<(Option<i32>, String)> {
    let mut log = tempfile::tempfile().context("no temporary file")?;
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
        .attend(command)
        .with_context(|| format!("`{name}` cannot be started"))?;
    if stop.asked().is_some() {
        bail!("stopped");
    }
    log.rewind()?;
    let mut said = vec![];
    log.read_to_end(&mut said)?;
    Ok((status.code(), String::from_utf8_lossy(&said).into_owned()))
}

/// A work tree beside the user's, gone at the end.
struct Tree {
    path: PathBuf,
}

impl Tree {
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

impl Drop for Tree {
    fn drop(&mut self) {
        let text = self.path.display().to_string();
        // The references of the bisection go with the work tree. What is left is a folder in the temporary directory, which
        // `git worktree prune` forgets.
        let _ = git(Path::new("."), &["worktree", "remove", "--force", &text]);
    }
}

fn git(folder: &Path, arguments: &[&str]) -> Result<String> {
    let output = Command::new("git").args(arguments).current_dir(folder).output();
    let output = output.context("git cannot be started")?;
    if !output.status.success() {
        bail!(
            "git {}: {}",
            arguments.join(" "),
            String::from_utf8_lossy(&output.stderr).trim_end()
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
