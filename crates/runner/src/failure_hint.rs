//! Reasons of failed cells: one line, with a hint for known failures.

use mantissa_core::Status;

/// Maximum length of a reason in characters. The last MiB of the output of the worker is stored in the folder of the attempt.
const MAX_REASON_CHARS: usize = 2_000;

/// Returns a reason with a hint for known failures. Joins the causes of a device error on one line without backtrace,
/// and truncates long reasons.
pub(crate) fn with_hint(status: Status, reason: &str) -> String {
    let hint = hint_for(status, reason);
    // A compiler error ends with the source of every rejected kernel, which is omitted.
    let reason = reason.split("[Source]").next().unwrap_or_default();
    let mut reason = on_one_line(reason);
    if let Some((end, _)) = reason.char_indices().nth(MAX_REASON_CHARS) {
        reason.truncate(end);
        reason.push('…');
    }
    match hint {
        Some(hint) => format!("{reason}; hint: {hint}"),
        None => reason,
    }
}

/// Joins the chain of causes of an error on one line.
fn on_one_line(reason: &str) -> String {
    if !reason.contains("Caused by:") {
        return reason.replace("; No backtrace available", "");
    }
    let is_cause =
        |line: &&str| !line.is_empty() && *line != "Caused by:" && !line.starts_with("No backtrace");
    let lines = reason.lines().map(str::trim);
    let lines = lines
        .take_while(|line| !line.starts_with("Backtrace") && *line != "Asked at:")
        .filter(is_cause);
    lines.collect::<Vec<_>>().join(": ")
}

fn hint_for(status: Status, reason: &str) -> Option<&'static str> {
    let contains = |word: &str| reason.to_lowercase().contains(word);
    match status {
        Status::Oom => Some(
            "reduce the memory with a smaller `batch` and a larger `accumulate`, with `checkpointing=on` or with a \
             shorter `sequence`; for a kernel, with a smaller `size`",
        ),
        Status::Failed if contains("libnvrtc-builtins") => Some(
            "`libnvrtc-builtins.so` is part of the run-time compiler: add the folder with both libraries, `lib64` of the toolkit, to \
             `LD_LIBRARY_PATH`",
        ),
        Status::Failed if contains("cannot open source file") => {
            Some("the CUDA headers are incomplete: set `CUDA_PATH` to a complete toolkit")
        }
        Status::Failed if contains("compilation") => Some(
            "the driver rejected a generated kernel, usually because the CUDA toolkit is newer than the driver; run \
             `mantissa devices` to see what was found",
        ),
        Status::Failed
            if ["launch error", "poisoned", "cuda_error", "driver"]
                .into_iter()
                .any(contains) =>
        {
            Some(
                "run `mantissa devices` to check whether the device still responds, and look for driver errors in the \
                 system log; run the remaining cells with `--resume`",
            )
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_of_causes_becomes_one_line_with_a_hint() {
        let reason = "the device failed: An error happened during execution\nCaused by:\n  The server is in an invalid \
                      state\nCaused by:\n  [Launch(A compilation error happened during launch\nCaused by:\n  Unable to load \
                      the PTX: DriverError(CUDA_ERROR_INVALID_VALUE)\nBacktrace:\nNo backtrace available)]";
        assert_eq!(
            with_hint(Status::Failed, reason),
            "the device failed: An error happened during execution: The server is in an invalid state: [Launch(A \
             compilation error happened during launch: Unable to load the PTX: DriverError(CUDA_ERROR_INVALID_VALUE); \
             hint: the driver rejected a generated kernel, usually because the CUDA toolkit is newer than the driver; \
             run `mantissa devices` to see what was found"
        );
    }

    #[test]
    fn hints_depend_on_the_kind_of_failure() {
        let hint = |status, reason: &str| {
            let text = with_hint(status, reason);
            text.split_once("; hint: ").map(|(_, hint)| hint.to_owned())
        };
        assert!(
            hint(Status::Oom, "can't allocate buffer")
                .unwrap()
                .contains("`checkpointing=on`")
        );
        let compiler_hint = |message: &str| {
            let reason = format!("[Compilation Error]: {message}");
            hint(Status::Failed, reason.as_str()).unwrap()
        };
        let missing = "nvrtc: error: failed to open libnvrtc-builtins.so.13.0.";
        assert!(compiler_hint(missing).contains("`LD_LIBRARY_PATH`"));
        let missing = "catastrophic error: cannot open source file \"mma.h\"";
        assert!(compiler_hint(missing).contains("`CUDA_PATH`"));
        assert!(
            hint(Status::Failed, "A launch error happened")
                .unwrap()
                .contains("still responds")
        );
        assert_eq!(
            hint(Status::Failed, "a thread panicked: index out of bounds"),
            None
        );
        assert_eq!(
            hint(Status::Skipped, "`fusion=on` does not exist on the flex backend"),
            None
        );
    }

    #[test]
    fn kernel_source_is_removed_and_long_reasons_are_truncated() {
        let reason = with_hint(
            Status::Failed,
            "it does not compile [Source] __global__ void f() {}",
        );
        assert_eq!(reason, "it does not compile ");
        let reason = with_hint(Status::Failed, &"é".repeat(3 * MAX_REASON_CHARS));
        assert_eq!(reason.chars().count(), MAX_REASON_CHARS + 1);
    }
}
