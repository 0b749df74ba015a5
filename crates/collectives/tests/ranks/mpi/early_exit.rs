//! Ranks that end early. `mpirun` ends the others.

use std::{
    process,
    time::{Duration, Instant},
};

use mantissa_collectives::{Gradient, Group, environment};
use mantissa_core::ReduceAlgorithm;

use crate::launch::{output_of_ranks, text};

/// Runs three ranks, of which rank 1 exits while the others wait for it. Checks that `mpirun` ends all of them soon, with an error.
fn check_end<F: Fn(&mut dyn Group, ReduceAlgorithm)>(body: F) {
    let start = Instant::now();
    let algorithm = ReduceAlgorithm::Ring;
    let Some(output) = output_of_ranks(3, algorithm, environment(Some(algorithm)), body) else {
        return;
    };
    let text = text(&output);
    assert!(!output.status.success(), "{text}");
    assert!(
        start.elapsed() < Duration::from_secs(20),
        "{:?}: {text}",
        start.elapsed()
    );
    assert!(!text.contains("the others have returned"), "{text}");
}

fn wait_for_others(group: &mut dyn Group) {
    let _ = group.all_reduce(&mut Gradient::F32(vec![1.0; 100]));
    println!("the others have returned");
}

#[test]
fn exit_ends_all_ranks() {
    check_end(|group, _| {
        if group.rank() == 1 {
            process::exit(3);
        }
        wait_for_others(group);
    });
}

#[test]
fn exit_without_an_error_ends_all_ranks() {
    check_end(|group, _| {
        if group.rank() == 1 {
            process::exit(0);
        }
        wait_for_others(group);
    });
}

#[test]
fn signal_ends_all_ranks() {
    check_end(|group, _| {
        if group.rank() == 1 {
            process::abort();
        }
        wait_for_others(group);
    });
}

#[test]
fn panic_ends_all_ranks() {
    check_end(|group, _| {
        assert_ne!(group.rank(), 1);
        wait_for_others(group);
    });
}
