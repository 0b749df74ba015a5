//! Tests of the dependencies of this crate, which must be usable without the rest of Mantissa.

#[test]
fn the_crate_depends_only_on_mantissa_core() {
    let manifest = include_str!("../../Cargo.toml");
    // Dependencies of its own tests and examples do not affect users of the crate.
    let (for_others, _) = manifest.split_once("[dev-dependencies]").unwrap();
    let ours: Vec<&str> = for_others
        .lines()
        .filter(|line| line.starts_with("mantissa-"))
        .collect();
    assert_eq!(
        ours,
        [
            "mantissa-core.workspace = true",
            "mantissa-cpu-kernels.workspace = true"
        ]
    );
}
