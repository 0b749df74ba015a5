//! Checks that this stand-in replaces the version of cubecl-llvm that it imitates.

/// Returns the fields of the only package of this name in the workspace's `Cargo.lock`.
fn locked(name: &str) -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.lock");
    let lock = std::fs::read_to_string(path).expect("cannot read the workspace's Cargo.lock");
    let mut packages = lock
        .split("[[package]]\n")
        .filter(|package| package.starts_with(&format!("name = \"{name}\"\n")));
    let package = packages.next().unwrap_or_else(|| {
        panic!("Cargo.lock does not contain `{name}`: if burn no longer needs it, delete crates/cubecl-llvm")
    });
    assert!(
        packages.next().is_none(),
        "Cargo.lock contains two versions of `{name}`"
    );
    package.to_owned()
}

#[test]
fn cubecl_cuda_has_the_supported_version() {
    assert!(
        locked("cubecl-cuda").contains("\nversion = \"0.11.3\"\n"),
        "the version of cubecl-cuda changed: compare the items of `cubecl_llvm` in its src/ with crates/cubecl-llvm/src/lib.rs, \
         delete crates/cubecl-llvm if cubecl-llvm became optional, and update the versions here and in Cargo.toml"
    );
}

#[test]
fn this_crate_replaces_cubecl_llvm() {
    let package = locked("cubecl-llvm");
    assert!(
        package.contains("\nversion = \"0.11.3\"\n") && !package.contains("\nsource = "),
        "Cargo.lock contains cubecl-llvm from crates.io: set the version in crates/cubecl-llvm/Cargo.toml to the one that cubecl-cuda \
         requires, then run `cargo update -p cubecl-llvm`"
    );
}
