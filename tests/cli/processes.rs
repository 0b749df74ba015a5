//! Processes of a run, found through `/proc`, and signals to them.
#![cfg(target_os = "linux")]

use std::{
    fs,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use mantissa_core::command_line;

const TIMEOUT: Duration = Duration::from_secs(60);

/// Repeats a call until it returns a value.
pub fn wait_for<T>(what: &str, mut poll: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = poll() {
            return value;
        }
        assert!(start.elapsed() < TIMEOUT, "{what}: timed out after {TIMEOUT:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Returns the state letter and the parent of a process.
pub fn state(pid: u32) -> Option<(char, u32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut words = rest.split(' ');
    Some((words.next()?.chars().next()?, words.next()?.parse().ok()?))
}

/// Returns a running child of a process once the child has called `exec`. Until then, it is a copy of its parent, with the parent's memory
/// and open files.
pub fn child_of(parent: u32) -> Option<u32> {
    let command = |pid: u32| {
        fs::read(format!("/proc/{pid}/cmdline"))
            .ok()
            .filter(|words| !words.is_empty())
    };
    let parent_command = command(parent)?;
    let entries = fs::read_dir("/proc").ok()?;
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.into_iter()
        .filter(|pid| state(*pid).is_some_and(|(letter, its_parent)| its_parent == parent && letter != 'Z'))
        .find(|pid| command(*pid).is_some_and(|command| command != parent_command))
}

/// Sends a signal. Returns false if the process does not exist.
pub fn try_send(signal: &str, pid: u32) -> bool {
    let status = Command::new("kill")
        .args(["-s", signal, &pid.to_string()])
        .stderr(Stdio::null())
        .status();
    status.unwrap().success()
}

/// Sends a signal to a process that has to exist.
pub fn send(signal: &str, pid: u32) {
    assert!(try_send(signal, pid), "{signal} to {pid}");
}

/// Returns a command that runs in a shell after other shell commands, e.g. a limit.
pub fn with_shell_prelude(prelude: &str, command: &Command) -> Command {
    let mut shell = Command::new("sh");
    shell
        .args(["-c", &format!("{prelude}; exec \"$0\" \"$@\"")])
        .arg(command.get_program())
        .args(command.get_args());
    copy_surroundings(command, &mut shell);
    shell
}

/// Returns a command that runs in a terminal wide enough for progress on one line. Its standard output is what the terminal shows.
pub fn in_terminal(command: &Command) -> Command {
    let words = [command.get_program()].into_iter().chain(command.get_args());
    let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    let line = format!("stty rows 50 cols 400; exec {}", command_line(&words));
    let mut script = Command::new("script");
    script
        .args(["-qefc", &line, "/dev/null"])
        .env("SHELL", "/bin/sh")
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    copy_surroundings(command, &mut script);
    script
}

/// Copies the current folder and the changes of the environment from one command to another.
fn copy_surroundings(command: &Command, other: &mut Command) {
    if let Some(folder) = command.get_current_dir() {
        other.current_dir(folder);
    }
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => other.env(name, value),
            None => other.env_remove(name),
        };
    }
}
