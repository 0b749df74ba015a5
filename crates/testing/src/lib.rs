//! Helpers of tests: optional dependencies, real data, child processes, mutated files.

pub mod hostile;

pub use peak_alloc::PeakAlloc as CountingAllocator;

/// Returns true if a dependency of a test was found. Otherwise prints `skipped` with the reason, and returns false. The
/// environment variable `MANTISSA_REQUIRE` lists the names of required dependencies, separated by commas.
///
/// # Panics
/// If a required dependency was not found.
pub fn is_available(name: &str, found: Result<(), String>) -> bool {
    let Err(reason) = found else { return true };
    let required = std::env::var("MANTISSA_REQUIRE").unwrap_or_default();
    assert!(
        !required.split(',').any(|required| required == name),
        "a required dependency is not available: {reason}"
    );
    println!("skipped: {reason}");
    false
}

/// Returns the path of real data that is not in the repository: in the folder `MANTISSA_DATA`, or in `../shared/data` next
/// to the checkout. Prints `skipped` if it does not exist.
pub fn real_data(name: &str) -> Option<std::path::PathBuf> {
    let default = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let folder = std::env::var_os("MANTISSA_DATA").map(std::path::PathBuf::from);
    let folders = folder.into_iter().chain([default]);
    let found = folders.map(|folder| folder.join(name)).find(|path| path.exists());
    if found.is_none() {
        println!("skipped: no `{name}` under `MANTISSA_DATA` or `../shared/data`");
    }
    found
}

/// Returns the path of a file that comes with the suites, in `suites/inputs`.
pub fn shipped(name: &str) -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../suites/inputs")
        .join(name)
}

/// Runs the body of a test, a closure, in a child process without other tests. Tests need this if they depend on
/// process-wide state, such as launched kernels or allocated memory. Under nextest, each test already has its own
/// process, so the body runs in place.
///
/// # Panics
/// If the body panics, or the child process does not run exactly one test.
pub fn alone<F: Fn()>(body: F) {
    const ALONE: &str = "MANTISSA_TEST_ALONE";
    let own_process = std::env::var("NEXTEST_EXECUTION_MODE").is_ok_and(|mode| mode == "process-per-test");
    if own_process || std::env::var_os(ALONE).is_some() {
        return body();
    }
    let closure = std::any::type_name::<F>();
    let (_program, test) = closure
        .trim_end_matches("::{{closure}}")
        .split_once("::")
        .expect("the body must be a closure in a test");
    let child =
        std::process::Command::new(std::env::current_exe().expect("the path of the test program is known"))
            .args([test, "--exact", "--nocapture"])
            .env(ALONE, "1")
            .output()
            .expect("cannot start the test program");
    let (output, errors) = (
        String::from_utf8_lossy(&child.stdout),
        String::from_utf8_lossy(&child.stderr),
    );
    print!("{output}");
    assert!(
        child.status.success() && output.contains("1 passed"),
        "{test}:\n{output}{errors}"
    );
}

/// Returns the larger of two errors. NaN counts as infinitely large, while `f64::max` would ignore it.
pub fn worse(one: f64, other: f64) -> f64 {
    if one.is_nan() || other.is_nan() {
        f64::INFINITY
    } else {
        one.max(other)
    }
}
