//! `mantissa bisect`: the commit that made a cell worse, found by `git bisect` with the gate's verdict.

use std::{
    collections::BTreeSet,
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail};
use mantissa_gate::{Fences, Gate, Gated, Measured, Policy, compare};

use crate::{
    args::{BisectArguments, BisectStepArguments},
    commands::gate::{policy_of, today},
    exit::Exit,
    printer::Printer,
};

/// What `git bisect run` takes for a commit that cannot be tested.
const UNTESTABLE: u8 = 125;

/// Finds the first commit whose program is worse than that of `good`, in a work tree of its own.
pub(crate) fn bisect(arguments: &BisectArguments, printer: &Printer) -> Result<()> {
    // Names such as `HEAD~4` mean something else in another work tree.
    let commit = |name: &str| {
        let found = git(
            Path::new("."),
            &["rev-parse", "--verify", &format!("{name}^{{commit}}")],
        );
        found.map(|hash| hash.trim().to_owned())
    };
    let (good_commit, bad_commit) = (commit(&arguments.good)?, commit(&arguments.bad)?);
    let temporary = tempfile::tempdir().context("no temporary folder")?;
    let tree = Tree::add(temporary.path().join("tree"), &bad_commit)?;
    let step = Step {
        tree: &tree.path,
        build: &arguments.build,
        program: &arguments.program,
        run: &arguments.run,
        repeats: arguments.repeats,
        policy: policy_of(arguments.policy.as_deref())?,
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
    if let Some(policy) = &arguments.policy {
        run.arg("--policy").arg(policy.canonicalize()?);
    }
    let output = run
        .arg("--")
        .args(&arguments.run)
        .output()
        .context("git cannot be started")?;
    printer.note(String::from_utf8_lossy(&output.stderr).trim_end());
    if !output.status.success() {
        bail!(
            "git could not narrow it down to one commit:\n{}",
            String::from_utf8_lossy(&output.stdout).trim_end()
        );
    }
    let first = tree.git(&["log", "-1", "--format=%H %s", "refs/bisect/bad"])?;
    printer.data(&format!("the first bad commit is {}", first.trim()));
    Ok(())
}

/// A commit that `git bisect` checked out: 0 good, 1 bad, 125 not to be told.
pub(crate) fn step(arguments: &BisectStepArguments, printer: &Printer) -> Result<Exit> {
    let tree = env::current_dir()?;
    let step = Step {
        tree: &tree,
        build: &arguments.build,
        program: &arguments.program,
        run: &arguments.run,
        repeats: arguments.repeats,
        policy: policy_of(arguments.policy.as_deref())?,
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
        Ok(gated) => match gated.gate() {
            Gate::Failed => ("worse", Exit::Regressed),
            Gate::Undecided => ("undecided", Exit::Code(UNTESTABLE)),
            Gate::Passed => ("not worse", Exit::Done),
        },
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
}

impl Step<'_> {
    fn built(&self) -> PathBuf {
        self.tree.join(self.program)
    }

    /// Whether the commit can be built.
    fn build(&self, printer: &Printer) -> Result<bool> {
        let output = Command::new("sh")
            .args(["-c", self.build])
            .current_dir(self.tree)
            .output()
            .context("no shell")?;
        if !output.status.success() {
            printer.note(String::from_utf8_lossy(&output.stderr).trim_end());
        }
        Ok(output.status.success())
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
        let output = Command::new(program)
            .arg("run")
            .args(self.run)
            .args(["--repeats", "1", "--quiet", "--out"])
            .arg(out)
            .current_dir(self.tree)
            .output()
            .with_context(|| format!("`{}` cannot be started", program.display()))?;
        // 3: a cell failed, which is for the gate to judge.
        match output.status.code() {
            Some(0 | 3) => Ok(Measured::read(out)?),
            _ => bail!("{}", String::from_utf8_lossy(&output.stderr).trim_end()),
        }
    }
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
        // What is left is a folder in the temporary directory, which `git worktree prune` forgets.
        let _ = git(&self.path, &["bisect", "reset", "--quiet"]);
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
