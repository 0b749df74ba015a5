//! Checks that `Cargo.lock` contains this stand-in instead of turso, and the version of cubecl-environment for which the stand-in was written.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// Returns the fields of the only package of this name in the workspace's `Cargo.lock`.
fn locked(name: &str) -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.lock");
    let lock = std::fs::read_to_string(path).expect("cannot read the workspace's Cargo.lock");
    let mut packages = lock
        .split("[[package]]\n")
        .filter(|package| package.starts_with(&format!("name = \"{name}\"\n")));
    let package = packages.next().unwrap_or_else(|| {
        panic!("Cargo.lock does not contain `{name}`: if burn no longer needs it, delete crates/turso")
    });
    assert!(
        packages.next().is_none(),
        "Cargo.lock contains two versions of `{name}`"
    );
    package.to_owned()
}

#[test]
fn cubecl_environment_has_the_supported_version() {
    assert!(
        locked("cubecl-environment").contains("\nversion = \"0.11.3\"\n"),
        "the version of cubecl-environment changed: compare the items of `turso` in its src/ with crates/turso/src/lib.rs, check \
         that its caches still fall back to memory (the tests of crates/precision/src/kernel_cache/store.rs), and update the version here"
    );
}

#[test]
fn this_crate_replaces_turso() {
    let package = locked("turso");
    assert!(
        package.contains("\nversion = \"0.8.1000\"\n") && !package.contains("\nsource = "),
        "Cargo.lock contains turso from crates.io: set the version in crates/turso/Cargo.toml to a patch of the version that \
         cubecl-environment requires, high enough for Cargo to prefer it, then run `cargo update -p turso`"
    );
}

/// cubecl-environment keeps its caches in memory after this error.
#[test]
fn opening_a_database_fails() {
    let opening = pin!(turso::Builder::new_local("kernels.db").build());
    let Poll::Ready(opened) = opening.poll(&mut Context::from_waker(Waker::noop())) else {
        panic!("opening a database must fail immediately, but it is pending");
    };
    assert!(matches!(opened, Err(turso::Error::Error(_))), "{opened:?}");
}
