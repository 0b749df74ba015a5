//! Processes of a run, found through `/proc`, and signals to them.
#![cfg(target_os = "linux")]

use std::{
    fs,
    process::Command,
    time::{Duration, Instant},
};

const PATIENCE: Duration = Duration::from_secs(60);

/// Calls until it gets an answer.
pub fn wait_for<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(start.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// State letter and parent of a process.
pub fn state(pid: u32) -> Option<(char, u32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut words = rest.split(' ');
    Some((words.next()?.chars().next()?, words.next()?.parse().ok()?))
}

/// A living child of a process that runs its own program by now. Before that it still is its parent, whose memory and open files it shows.
pub fn child_of(parent: u32) -> Option<u32> {
    let command = |pid: u32| {
        fs::read(format!("/proc/{pid}/cmdline"))
            .ok()
            .filter(|words| !words.is_empty())
    };
    let its_parents = command(parent)?;
    let entries = fs::read_dir("/proc").ok()?;
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.into_iter()
        .filter(|pid| state(*pid).is_some_and(|(letter, of)| of == parent && letter != 'Z'))
        .find(|pid| command(*pid).is_some_and(|own| own != its_parents))
}

/// Sends a signal; whether anybody was there to get it.
pub fn sent(signal: &str, pid: u32) -> bool {
    let status = Command::new("kill")
        .args(["-s", signal, &pid.to_string()])
        .stderr(std::process::Stdio::null())
        .status();
    status.unwrap().success()
}

/// Sends a signal to a process that is there.
pub fn send(signal: &str, pid: u32) {
    assert!(sent(signal, pid), "{signal} to {pid}");
}

/// The command under what a shell is told before it, e.g. a limit.
pub fn limited(before: &str, command: &Command) -> Command {
    let mut shell = Command::new("sh");
    shell
        .args(["-c", &format!("{before}; exec \"$0\" \"$@\"")])
        .arg(command.get_program())
        .args(command.get_args());
    if let Some(folder) = command.get_current_dir() {
        shell.current_dir(folder);
    }
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell
}
