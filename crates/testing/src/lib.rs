//! What tests ask of the machine they run on.

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
