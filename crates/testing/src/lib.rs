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

/// The larger of two errors; one that is no number is larger than any, while `f64::max` would pass it over.
pub fn worse(one: f64, other: f64) -> f64 {
    if one.is_nan() || other.is_nan() {
        f64::INFINITY
    } else {
        one.max(other)
    }
}
