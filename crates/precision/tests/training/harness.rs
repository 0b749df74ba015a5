//! What this crate may stand on, so that others can use it.

#[test]
fn of_mantissa_the_crate_needs_the_names_of_formats_alone() {
    let manifest = include_str!("../../Cargo.toml");
    let ours: Vec<&str> = manifest
        .lines()
        .filter(|line| line.starts_with("mantissa-"))
        .collect();
    assert_eq!(ours, ["mantissa-core.workspace = true"]);
}
