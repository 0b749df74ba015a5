//! What tests ask of the machine they run on, and of numbers.

pub mod hostile;

pub use peak_alloc::PeakAlloc as CountingAllocator;

/// Whether something that a test needs is there, by the name that `MANTISSA_REQUIRE` may list among others, separated by
/// commas. What is not is told as `skipped`, with the reason.
///
/// # Panics
/// It is required and not there.
pub fn is_there(name: &str, found: Result<(), String>) -> bool {
    let Err(reason) = found else { return true };
    let required = std::env::var("MANTISSA_REQUIRE").unwrap_or_default();
    assert!(
        !required.split(',').any(|required| required == name),
        "required and not there: {reason}"
    );
    println!("skipped: {reason}");
    false
}

/// A part of the real data, which is not in the repository: under `MANTISSA_DATA`, or beside the checkout. What is not there is told as
/// `skipped`.
pub fn real_data(name: &str) -> Option<std::path::PathBuf> {
    let beside = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let given = std::env::var_os("MANTISSA_DATA").map(std::path::PathBuf::from);
    let places = given.into_iter().chain([beside]);
    let found = places.map(|place| place.join(name)).find(|path| path.exists());
    if found.is_none() {
        println!("skipped: no `{name}` under `MANTISSA_DATA` or `../shared/data`");
    }
    found
}

/// Runs the body of a test, a closure in that test, in a child process that runs nothing else. For tests of state that belongs to the whole
/// process: launched kernels, allocated memory. Under nextest each test is such a process already, and the body runs in place.
///
/// # Panics
/// The body panics, or the child process does not run exactly one test.
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
        .expect("a closure of a test");
    let child = std::process::Command::new(std::env::current_exe().expect("the test program"))
        .args([test, "--exact", "--nocapture"])
        .env(ALONE, "1")
        .output()
        .expect("the test program starts");
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

/// The larger of two errors; one that is no number is larger than any, while `f64::max` would pass it over.
pub fn worse(one: f64, other: f64) -> f64 {
    if one.is_nan() || other.is_nan() {
        f64::INFINITY
    } else {
        one.max(other)
    }
}
