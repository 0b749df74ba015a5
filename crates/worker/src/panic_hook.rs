//! Panic hook that ends the process.

use std::io::{self, Write};

use mantissa_runner::{Message, WorkerExit, is_out_of_memory};

use crate::{
    messages::send,
    progress::{current_progress, device_events},
};

/// Installs a hook that reports a panic of any thread and ends the process. burn catches a panic on a device thread, and reading a tensor
/// then returns garbage without an error, so the process must exit before it reports a number.
pub(crate) fn exit_on_panic() {
    std::panic::set_hook(Box::new(|info| {
        let thread = std::thread::current();
        let text = without_registry_folder(&format!(
            "thread `{}`: {info}",
            thread.name().unwrap_or("unnamed")
        ));
        // Not `eprintln!`: a panic while printing would panic again.
        let _ = writeln!(io::stderr(), "{text}");
        send(&Message::Progress(current_progress()));
        if let Some(events) = device_events() {
            send(&Message::Happened(events));
        }
        let exit = if is_out_of_memory(&text) {
            WorkerExit::OutOfMemory
        } else {
            WorkerExit::Panicked
        };
        std::process::exit(exit as i32);
    }));
}

/// Removes the crate registry's folder from paths, because records must not contain the user's folders.
fn without_registry_folder(text: &str) -> String {
    let shorten = |word: &str| match word.split_once("/registry/src/") {
        Some((_, rest)) => rest.split_once('/').map_or(rest, |(_, path)| path).to_owned(),
        None => word.to_owned(),
    };
    text.split(' ').map(shorten).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registry_folder_is_removed_from_paths() {
        let text = "panicked at /home/me/.cargo/registry/src/index-0123/burn-0.21.0/src/lib.rs:1:2:";
        assert_eq!(
            without_registry_folder(text),
            "panicked at burn-0.21.0/src/lib.rs:1:2:"
        );
        assert_eq!(without_registry_folder("out of memory"), "out of memory");
    }
}
