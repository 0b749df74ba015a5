//! Launcher `mpirun`: availability, command line and messages.

use std::{
    io::{ErrorKind, Read},
    num::NonZero,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use mantissa_collectives::mpi_library;
use mantissa_core::Setting;

use super::super::{
    THREADS,
    child::{KILL_TIMEOUT, Worker},
    crash::ProcessEnd,
    output::last_lines,
};

/// Time limit for `mpirun --version`.
const VERSION_LIMIT: Duration = Duration::from_secs(10);

/// Maximum number of bytes of the output of `mpirun --version` that are read.
const MAX_VERSION_BYTES: u64 = 4096;

/// Minimum length of the lines of dashes around the messages of `mpirun`.
const MIN_DASHES: usize = 40;

/// Launcher of ranks.
pub(super) struct Mpirun {
    program: String,
    arguments: Vec<String>,
    /// Name and version of the linked MPI library.
    library: Option<String>,
}

impl Mpirun {
    /// Creates a launcher from the words of its command. If empty, `mpirun`.
    pub(super) fn new(command: &[String]) -> Self {
        Self::with_library(command, mpi_library())
    }

    pub(super) fn with_library(command: &[String], library: Option<String>) -> Self {
        let (program, arguments) = match command {
            [] => ("mpirun".to_owned(), vec![]),
            [program, arguments @ ..] => (program.clone(), arguments.to_vec()),
        };
        Self {
            program,
            arguments,
            library,
        }
    }

    /// Returns the reason why this machine or this build cannot start ranks.
    pub(super) fn unavailable(&self) -> Option<String> {
        let Some(library) = &self.library else {
            return Some("this program was built without MPI; build it with `--features mpi`".to_owned());
        };
        let launcher = match self.version() {
            Ok(version) => version,
            Err(reason) => return Some(reason),
        };
        let linked = open_mpi_version(library);
        (linked != Some(launcher.as_str())).then(|| {
            let linked = linked.map_or_else(|| library.clone(), |version| format!("Open MPI {version}"));
            format!(
                "`{}` is Open MPI {launcher}, but this program is linked with {linked}; hint: pass the `mpirun` of the linked \
                 version with `--mpirun`",
                self.program
            )
        })
    }

    /// Returns the version of Open MPI, or the reason why it is not available.
    fn version(&self) -> Result<String, String> {
        let command = format!("{} --version", self.words());
        let started = self
            .base()
            .arg("--version")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let mut process = Worker(started.map_err(|error| match error.kind() {
            ErrorKind::NotFound => format!(
                "`{}` is not installed; hint: install Open MPI (the Debian package is `openmpi-bin`), or pass another command \
                 with `--mpirun`",
                self.program
            ),
            _ => format!("cannot start `{command}`: {error}"),
        })?);
        let stdout = process.0.stdout.take();
        let exit = process.wait(VERSION_LIMIT, KILL_TIMEOUT);
        let mut text = vec![];
        if let (Ok(Some(_)), Some(stdout)) = (exit, stdout) {
            let _ = stdout.take(MAX_VERSION_BYTES).read_to_end(&mut text);
        }
        let text = String::from_utf8_lossy(&text);
        let version = open_mpi_version(&text).map(str::to_owned);
        version.ok_or_else(|| format!("`{command}` did not print a version of Open MPI"))
    }

    /// Returns the command that starts `program worker` as the ranks of a cell. Unless the setting or the environment has a number of
    /// threads, the cores are divided among the ranks.
    pub(super) fn command(&self, setting: &Setting, program: &Path, socket: &Path) -> Command {
        let ranks = setting.devices();
        let mut command = self.base();
        command.arg("-n").arg(ranks.to_string());
        // Each rank computes on several cores, and Open MPI would bind it to one.
        command
            .args(["--bind-to", "none"])
            .arg(program)
            .arg("worker")
            .arg("--group")
            .arg(socket);
        let shared = || {
            let cores = thread::available_parallelism().map_or(1, NonZero::get);
            (cores as u32 / ranks).max(1)
        };
        let in_environment = std::env::var_os(THREADS).is_some();
        let threads = setting.threads().or_else(|| (!in_environment).then(shared));
        if let Some(threads) = threads {
            command.env(THREADS, threads.to_string());
        }
        command
    }

    /// Returns the command in a process group of its own. Ctrl-C then reaches only the run, which lets the ranks finish.
    fn base(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments);
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        command
    }

    fn words(&self) -> String {
        let words: Vec<&str> = [&self.program]
            .into_iter()
            .chain(&self.arguments)
            .map(String::as_str)
            .collect();
        words.join(" ")
    }

    /// Returns the reason for an exit of `mpirun` before all ranks had connected, with a hint for known errors. `text` is its
    /// output.
    pub(super) fn refusal(&self, text: &str) -> String {
        let hint = |flag: &str| format!("; hint: pass `--mpirun \"{} {flag}\"`", self.words());
        // The known messages begin with the error and end with advice.
        let from = |start: &str, lines: usize| {
            let lines: Vec<&str> = text
                .lines()
                .skip_while(|line| !line.contains(start))
                .take(lines)
                .map(str::trim)
                .collect();
            (!lines.is_empty()).then(|| lines.join(" ").trim_end_matches(['.', ':']).to_owned())
        };
        if let Some(message) = from("attempt to run as root", 1) {
            return message + &hint("--allow-run-as-root");
        }
        if let Some(message) = from("not enough slots", 2) {
            return message + &hint("--oversubscribe");
        }
        let output = last_lines(&output_of_ranks(text));
        if !output.is_empty() {
            return output;
        }
        let lines: Vec<&str> = text.lines().filter(|line| !is_rule(line)).collect();
        last_lines(&lines.join("\n"))
    }
}

/// Returns the number after the name `Open MPI` in a text such as `mpirun (Open MPI) 4.1.4` or `Open MPI v4.1.4, package: …`.
fn open_mpi_version(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("Open MPI")?;
    let rest = rest.trim_start_matches([')', ' ', 'v']);
    let end = rest.find(|character: char| !character.is_ascii_alphanumeric() && character != '.');
    let version = &rest[..end.unwrap_or(rest.len())];
    version
        .starts_with(|character: char| character.is_ascii_digit())
        .then_some(version)
}

/// Returns the rank whose end `mpirun` reports as the first one, and its end.
pub(super) fn reported_end(text: &str) -> Option<(usize, ProcessEnd)> {
    let number_after = |text: &str, start: &str| -> Option<i32> {
        let rest = text.split_once(start)?.1.trim_start();
        let end = rest
            .find(|character: char| !character.is_ascii_digit())
            .unwrap_or(rest.len());
        rest[..end].parse().ok()
    };
    if let Some(line) = text
        .lines()
        .find(|line| line.contains("mpirun noticed that process rank"))
    {
        let rank = number_after(line, "process rank")?;
        return Some((
            rank as usize,
            ProcessEnd::Signal(number_after(line, "on signal")?),
        ));
    }
    // The lines `Process name: [[22879,1],1]` and `Exit code: 65`, in which the last number of the name is the rank.
    let line = text
        .lines()
        .find(|line| line.trim_start().starts_with("Process name:"))?;
    let rank = line
        .trim_end()
        .trim_end_matches(']')
        .rsplit(',')
        .next()?
        .parse()
        .ok()?;
    Some((rank, ProcessEnd::Code(number_after(text, "Exit code:")?)))
}

/// Removes the messages of `mpirun`, which are between lines of dashes, from its output.
pub(super) fn output_of_ranks(text: &str) -> String {
    let rules = text.lines().filter(|line| is_rule(line)).count();
    let mut inside = false;
    let keep = |line: &&str| {
        if is_rule(line) {
            inside = !inside;
            return false;
        }
        // With an odd number of lines of dashes, the output contains an incomplete message.
        !inside || rules % 2 == 1
    };
    text.lines().filter(keep).collect::<Vec<_>>().join("\n")
}

fn is_rule(line: &str) -> bool {
    let line = line.trim();
    line.len() >= MIN_DASHES && line.bytes().all(|byte| byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: &str = "--------------------------------------------------------------------------";

    #[test]
    fn versions_of_the_library_and_the_launcher_are_parsed() {
        let launcher = "mpirun (Open MPI) 4.1.4\n\nReport bugs to http://www.open-mpi.org/community/help/\n";
        assert_eq!(open_mpi_version(launcher), Some("4.1.4"));
        let library = "Open MPI v5.0.0rc1, package: Debian OpenMPI, ident: 5.0.0";
        assert_eq!(open_mpi_version(library), Some("5.0.0rc1"));
        assert_eq!(open_mpi_version("HYDRA build details:"), None);
        assert_eq!(open_mpi_version("Open MPI"), None);
    }

    #[test]
    fn reports_of_ended_ranks_are_parsed_and_removed() {
        let killed = format!(
            "before\n{RULE}\nmpirun noticed that process rank 13 with PID 0 on node vm exited on signal 9 (Killed).\n{RULE}\nafter\n"
        );
        assert_eq!(reported_end(&killed), Some((13, ProcessEnd::Signal(9))));
        assert_eq!(output_of_ranks(&killed), "before\nafter");
        let failed = format!(
            "{RULE}\nThe first process to do so was:\n\n  Process name: [[22879,1],1]\n  Exit code:    65\n{RULE}"
        );
        assert_eq!(reported_end(&failed), Some((1, ProcessEnd::Code(65))));
        assert_eq!(output_of_ranks(&failed), "");
        assert_eq!(reported_end("rank 1 exited"), None);
        assert_eq!(output_of_ranks(&format!("a\n{RULE}\nb")), "a\nb");
    }

    #[test]
    fn known_refusals_have_a_hint_with_the_flag() {
        let mpirun = Mpirun::with_library(&["mpirun".to_owned(), "-q".to_owned()], None);
        let root = format!(
            "{RULE}\nmpirun has detected an attempt to run as root.\n\nRunning as root is discouraged\n{RULE}\n"
        );
        assert_eq!(
            mpirun.refusal(&root),
            "mpirun has detected an attempt to run as root; hint: pass `--mpirun \"mpirun -q --allow-run-as-root\"`"
        );
        let slots = format!(
            "{RULE}\nThere are not enough slots available in the system to satisfy the 9\nslots that were requested by the \
             application:\n\n  true\n\nEither request fewer slots\n{RULE}\n"
        );
        assert_eq!(
            mpirun.refusal(&slots),
            "There are not enough slots available in the system to satisfy the 9 slots that were requested by the application; \
             hint: pass `--mpirun \"mpirun -q --oversubscribe\"`"
        );
        let host = format!(
            "ssh: Could not resolve hostname nowhere\n{RULE}\nORTE was unable to start daemons.\n{RULE}\n"
        );
        assert_eq!(mpirun.refusal(&host), "ssh: Could not resolve hostname nowhere");
        let message = format!("{RULE}\nORTE was unable\nto start daemons.\n{RULE}\n");
        assert_eq!(mpirun.refusal(&message), "ORTE was unable; to start daemons.");
    }
}
