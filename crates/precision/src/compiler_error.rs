//! Extraction of compiler errors from the errors that cubecl reports.

/// Text that cubecl writes before the log of the compiler.
const LOG_START: &str = "[Compilation Error]";

/// Text that cubecl writes after the log of the compiler.
const LOG_END: &str = "[Source]";

/// Returns the first error of each compiler log in a text.
pub(crate) fn compiler_errors(text: &str) -> Vec<String> {
    let logs = text.split(LOG_START).skip(1);
    logs.map(|log| first_error(log.split(LOG_END).next().unwrap_or(log)))
        .collect()
}

/// Returns the first line of a log that contains "error", or else the first line that is not blank.
fn first_error(log: &str) -> String {
    // Results of the autotuner are JSON, in which line ends are escaped.
    let log = log.replace("\\n", "\n");
    let lines = || log.lines().map(str::trim).filter(|line| !line.is_empty());
    let error = lines().find(|line| line.contains("error"));
    error
        .or_else(|| lines().next())
        .unwrap_or("the compiler reported no error message")
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_log_has_its_first_error() {
        let text = "Launch error\n[Compilation Error] \n    a.cu(1): warning: unused\n    a.cu(7): error: no such type\n[Source]  \n\
                    int error;\n... [Compilation Error] \\n    b.cu(2): catastrophic error: #error planted\\n[Source]  \\nfloat";
        assert_eq!(
            compiler_errors(text),
            [
                "a.cu(7): error: no such type",
                "b.cu(2): catastrophic error: #error planted"
            ]
        );
        assert!(compiler_errors("too many registers").is_empty());
    }
}
