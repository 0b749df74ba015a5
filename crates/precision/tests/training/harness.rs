//! Tests of the dependencies of this crate, which must be usable without the rest of Mantissa.

#[test]
fn the_crate_depends_only_on_core_and_cpu_kernels() {
    let manifest = include_str!("../../Cargo.toml");
    // Dependencies of its own tests and examples do not affect users of the crate.
    let (public_part, _) = manifest.split_once("[dev-dependencies]").unwrap();
    let dependencies: Vec<&str> = public_part
        .lines()
        .filter(|line| line.starts_with("mantissa-"))
        .collect();
    assert_eq!(
        dependencies,
        [
            "mantissa-core.workspace = true",
            "mantissa-cpu-kernels.workspace = true"
        ]
    );
}
