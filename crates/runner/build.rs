//! Passes the git revision, if available, and the version of burn to the crate.

use std::{path::Path, process::Command};

fn main() {
    let revision = git(&["rev-parse", "HEAD"]);
    if let Some(revision) = revision {
        let dirty =
            git(&["status", "--porcelain", "--untracked-files=no"]).is_some_and(|lines| !lines.is_empty());
        println!(
            "cargo::rustc-env=MANTISSA_REVISION={revision}{}",
            if dirty { "-dirty" } else { "" }
        );
        // Rerun this script after a commit, which changes the log of HEAD, and after staging, which changes the index.
        // Unstaged edits do not rerun the script; its next run detects them.
        for file in ["logs/HEAD", "index"] {
            if let Some(path) =
                git(&["rev-parse", "--git-path", file]).filter(|path| Path::new(path).exists())
            {
                println!("cargo::rerun-if-changed={path}");
            }
        }
    }
    let lock = "../../Cargo.lock";
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={lock}");
    let version = std::fs::read_to_string(lock)
        .ok()
        .and_then(|lock| locked_version(&lock, "burn"));
    println!(
        "cargo::rustc-env=MANTISSA_BURN={}",
        version.unwrap_or_else(|| "unknown".into())
    );
}

/// Returns the output of a git command; `None` outside a repository or without git. The command must not update the
/// index: Cargo watches the index, so each build would then trigger the next one.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git")
        .arg("--no-optional-locks")
        .args(arguments)
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}

fn locked_version(lock: &str, package: &str) -> Option<String> {
    let mut lines = lock
        .lines()
        .skip_while(|line| *line != format!("name = \"{package}\""));
    let version = lines.nth(1)?.strip_prefix("version = ")?;
    Some(version.trim_matches('"').to_owned())
}
