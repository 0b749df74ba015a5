//! What this crate may stand on, so that others can use it.

#[test]
fn of_mantissa_the_crate_needs_the_names_of_formats_alone() {
    let manifest = include_str!("../../Cargo.toml");
    // What its own tests and examples use, nobody else compiles.
    let (for_others, _) = manifest.split_once("[dev-dependencies]").unwrap();
    let ours: Vec<&str> = for_others
        .lines()
        .filter(|line| line.starts_with("mantissa-"))
        .collect();
    assert_eq!(ours, ["mantissa-core.workspace = true"]);
}
