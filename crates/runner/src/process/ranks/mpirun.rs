//! Launcher `mpirun`: availability, command line and messages.

use std::{
    io::{ErrorKind, Read},
    num::NonZero,
    path::Path,
    process::{Command, Stdio},
    str::FromStr,
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use mantissa_collectives::mpi_library;
use mantissa_core::{Setting, Status};

use super::super::{
    DRAIN_LIMIT, THREADS,
    child::{KILL_TIMEOUT, Worker},
    crash::ProcessEnd,
    output::{last_lines, spawn_reader},
};

/// Time limit for `mpirun --version`.
const VERSION_LIMIT: Duration = Duration::from_secs(5);

/// Time limit for all ranks to connect. A rank connects as soon as its process starts. An `mpirun` that waits for an unreachable host
/// starts no rank.
const CONNECT_LIMIT: Duration = Duration::from_secs(120);

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
    /// Time limit for all ranks to connect.
    pub(super) connect_limit: Duration,
}

/// End of a rank, as reported by Open MPI.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum RankEnd {
    /// Exit code or signal of the process.
    Exit(ProcessEnd),
    /// Call of `MPI_Abort` with this error code.
    Abort(i32),
    /// Exit without `MPI_Finalize`.
    WithoutFinalize,
    /// Failed call of MPI, which the output describes.
    MpiError,
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
            connect_limit: CONNECT_LIMIT,
        }
    }

    /// Returns status and reason of a cell if this machine or this build cannot start ranks.
    pub(super) fn unavailable(&self) -> Option<(Status, String)> {
        let Some(library) = &self.library else {
            let reason = "this program was built without MPI; build it with `--features mpi`";
            return Some((Status::Skipped, reason.to_owned()));
        };
        let launcher = match self.version() {
            Ok(version) => version,
            Err(error) => return Some(error),
        };
        let linked = open_mpi_version(library);
        (linked != Some(launcher.as_str())).then(|| {
            let linked = linked.map_or_else(|| library.clone(), |version| format!("Open MPI {version}"));
            let reason = format!(
                "`{}` is Open MPI {launcher}, but this program is linked with {linked}; hint: pass the `mpirun` of the linked \
                 version with `--mpirun`",
                self.program
            );
            (Status::Skipped, reason)
        })
    }

    /// Returns the version of Open MPI, or status and reason of a cell if it is not available.
    fn version(&self) -> Result<String, (Status, String)> {
        let command = format!("{} --version", self.words());
        let skipped = |reason: String| (Status::Skipped, reason);
        let start = Instant::now();
        let started = self
            .base()
            .arg("--version")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let mut process = Worker(started.map_err(|error| match error.kind() {
            ErrorKind::NotFound => skipped(format!(
                "`{}` is not installed; hint: install Open MPI (the Debian package is `openmpi-bin`), or pass another command \
                 with `--mpirun`",
                self.program
            )),
            _ => skipped(format!("cannot start `{command}`: {error}")),
        })?);
        // Read in a thread, because another process may keep the pipe open.
        let (sender, receiver) = mpsc::channel();
        let stdout = process.0.stdout.take();
        let stdout = stdout.map(|stdout| stdout.take(MAX_VERSION_BYTES));
        spawn_reader(stdout, sender, |line| line, None).map_err(|error| {
            let reason = format!("cannot start a thread for the output of `{command}`: {error}");
            (Status::Failed, reason)
        })?;
        let exit = process.wait(VERSION_LIMIT, KILL_TIMEOUT);
        // The limit may be a temporary failure, e.g. of a network file system. Such a cell is not skipped, so `--resume` runs it again.
        if start.elapsed() >= VERSION_LIMIT || !matches!(exit, Ok(Some(_))) {
            let reason = format!(
                "`{command}` did not exit within {} s; hint: run this command, or pass another one with `--mpirun`",
                VERSION_LIMIT.as_secs()
            );
            return Err((Status::Failed, reason));
        }
        let end = Instant::now() + DRAIN_LIMIT;
        let mut text = vec![];
        while let Ok(line) = receiver.recv_timeout(end.saturating_duration_since(Instant::now())) {
            text.extend(line);
        }
        let text = String::from_utf8_lossy(&text);
        let version = open_mpi_version(&text).map(str::to_owned);
        version.ok_or_else(|| skipped(format!("`{command}` did not print a version of Open MPI")))
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
        // With the number of threads in the environment, N ranks would have N times as many.
        let threads = setting.threads().unwrap_or_else(shared);
        command.env(THREADS, threads.to_string());
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
        if let Some(message) = from("unable to find the specified executable", 1) {
            return message + "; hint: all ranks must run on this machine";
        }
        self.explanation(text) + self.hint_for_hosts()
    }

    /// Returns the last output of other programs than `mpirun`, otherwise the first message of `mpirun`.
    pub(super) fn explanation(&self, text: &str) -> String {
        let output = last_lines(&output_of_ranks(text));
        if !output.is_empty() {
            return output;
        }
        // The first paragraph of a message is the error.
        let lines = text.lines().map(str::trim);
        let lines = lines.skip_while(|line| line.is_empty() || is_rule(line));
        let paragraph: Vec<&str> = lines
            .take_while(|line| !line.is_empty() && !is_rule(line))
            .collect();
        paragraph.join(" ").trim_end_matches(['.', ':']).to_owned()
    }

    /// Returns a hint if the command names hosts.
    fn hint_for_hosts(&self) -> &'static str {
        let names_hosts = |argument: &String| {
            let option = argument.trim_start_matches('-');
            argument.starts_with('-')
                && ["H", "host", "hostfile", "machinefile", "default-hostfile"].contains(&option)
        };
        match self.arguments.iter().any(names_hosts) {
            true => "; hint: all ranks must run on this machine, but `--mpirun` names hosts",
            false => "",
        }
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

/// Returns the rank whose end Open MPI reports as the first one, and its end.
pub(super) fn reported_end(text: &str) -> Option<(usize, RankEnd)> {
    let from = |start: &str| text.find(start).map(|at| &text[at..]);
    if let Some(report) = from("noticed that process rank ") {
        let end = ProcessEnd::Signal(number_after(report, "on signal ")?);
        return Some((number_after(report, "process rank ")?, RankEnd::Exit(end)));
    }
    if let Some(report) = from("MPI_ABORT was invoked on rank ") {
        let end = RankEnd::Abort(number_after(report, "with errorcode ")?);
        return Some((number_after(report, "on rank ")?, end));
    }
    if let Some(report) = from("has exited due to process rank ") {
        return Some((number_after(report, "process rank ")?, RankEnd::WithoutFinalize));
    }
    // The last number of the names `[[22879,1],1]` and `[22879,1]` is the rank.
    if let Some(report) = from("Process name: [[") {
        let end = ProcessEnd::Code(number_after(report, "Exit code:")?);
        return Some((last_number(report)?, RankEnd::Exit(end)));
    }
    let report = from("*** reported by process [")?;
    Some((last_number(report)?, RankEnd::MpiError))
}

/// Returns the number after the first occurrence of `start`.
fn number_after<T: FromStr>(text: &str, start: &str) -> Option<T> {
    let rest = text.split_once(start)?.1.trim_start();
    let is_part = |character: char| character.is_ascii_digit() || character == '-';
    let end = rest.find(|character| !is_part(character));
    rest[..end.unwrap_or(rest.len())].parse().ok()
}

/// Returns the last number of a name in brackets at the end of the first line.
fn last_number(text: &str) -> Option<usize> {
    let line = text.lines().next()?.trim_end();
    let (_, number) = line.trim_end_matches(']').rsplit_once(',')?;
    number.parse().ok()
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
        let signal = RankEnd::Exit(ProcessEnd::Signal(9));
        assert_eq!(reported_end(&killed), Some((13, signal)));
        assert_eq!(output_of_ranks(&killed), "before\nafter");
        let failed = format!(
            "{RULE}\nThe first process to do so was:\n\n  Process name: [[22879,1],1]\n  Exit code:    65\n{RULE}"
        );
        let code = RankEnd::Exit(ProcessEnd::Code(65));
        assert_eq!(reported_end(&failed), Some((1, code)));
        assert_eq!(output_of_ranks(&failed), "");
        assert_eq!(reported_end("rank 1 exited"), None);
        assert_eq!(output_of_ranks(&format!("a\n{RULE}\nb")), "a\nb");
    }

    #[test]
    fn aborts_and_errors_of_mpi_are_parsed() {
        let aborted = format!(
            "{RULE}\nMPI_ABORT was invoked on rank 1 in communicator MPI_COMM_WORLD\nwith errorcode 1.\n\nNOTE: invoking MPI_ABORT \
             causes Open MPI to kill all MPI processes.\nYou may or may not see output from other processes, depending on\nexactly when \
             Open MPI kills them.\n{RULE}\n"
        );
        assert_eq!(reported_end(&aborted), Some((1, RankEnd::Abort(1))));
        let negative = aborted.replace("errorcode 1.", "errorcode -1.");
        assert_eq!(reported_end(&negative), Some((1, RankEnd::Abort(-1))));
        assert_eq!(output_of_ranks(&aborted), "");
        let exited = format!(
            "{RULE}\nmpirun has exited due to process rank 2 with PID 0 on\nnode vm exiting improperly. There are three reasons this \
             could occur:\n\n3. this process called \"MPI_Abort\" or \"orte_abort\"\n{RULE}\n"
        );
        assert_eq!(reported_end(&exited), Some((2, RankEnd::WithoutFinalize)));
        let error = "[vm:17712] *** An error occurred in MPI_Send\n[vm:17712] *** reported by process [701825025,1]\n\
                     [vm:17712] *** on communicator MPI_COMM_WORLD\n";
        assert_eq!(reported_end(error), Some((1, RankEnd::MpiError)));
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
        assert_eq!(mpirun.refusal(&message), "ORTE was unable to start daemons");
    }

    #[test]
    fn refusals_of_other_hosts_have_a_hint() {
        let hint = |arguments: &[&str]| {
            let words = ["mpirun"].iter().chain(arguments).map(|word| (*word).to_owned());
            let mpirun = Mpirun::with_library(&words.collect::<Vec<_>>(), None);
            mpirun.refusal("ssh: connect to host a port 22: Connection timed out")
        };
        let with_hint = "ssh: connect to host a port 22: Connection timed out; hint: all ranks must run on this machine, but \
                         `--mpirun` names hosts";
        assert_eq!(hint(&["--hostfile", "hosts"]), with_hint);
        assert_eq!(hint(&["-H", "a:2"]), with_hint);
        assert!(!hint(&["--oversubscribe"]).contains("hint"));
        let mpirun = Mpirun::with_library(&[], None);
        let missing = format!(
            "{RULE}\nmpirun was unable to find the specified executable file, and therefore did\nnot launch the job.\n{RULE}\n"
        );
        assert!(
            mpirun
                .refusal(&missing)
                .ends_with("; hint: all ranks must run on this machine")
        );
    }
}
