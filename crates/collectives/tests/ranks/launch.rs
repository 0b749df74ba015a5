//! Launcher of the body of a test on several ranks.

use std::{
    env,
    process::{Command, Output},
};

use mantissa_collectives::{Group, MpiGroup, environment, mpirun};
use mantissa_core::ReduceAlgorithm;

/// Environment variable of a process that is a rank, with the name of the algorithm.
const RANK: &str = "MANTISSA_TEST_RANK";

/// Time limit of all ranks of a group, in seconds.
const SECONDS: &str = "60";

/// Runs the body of a test, a closure, on groups of several sizes with several algorithms. A panic on any rank fails the
/// test.
pub fn on_ranks<F: Fn(&mut dyn Group, ReduceAlgorithm)>(
    sizes: &[usize],
    algorithms: &[ReduceAlgorithm],
    body: F,
) {
    for size in sizes {
        for algorithm in algorithms {
            let Some(output) = output_of_ranks(*size, *algorithm, environment(Some(*algorithm)), &body)
            else {
                return;
            };
            assert_passed(&output, *size, &format!("{algorithm}, {size} ranks"));
        }
    }
}

/// Checks that the body of a test returned on every rank.
pub fn assert_passed(output: &Output, ranks: usize, what: &str) {
    let text = text(output);
    let passed = text.matches("1 passed").count();
    assert!(
        output.status.success() && passed == ranks,
        "{what}, of which {passed} passed, {}:\n{text}",
        output.status
    );
}

/// Returns what all ranks printed.
pub fn text(output: &Output) -> String {
    [&output.stdout, &output.stderr]
        .map(|bytes| String::from_utf8_lossy(bytes))
        .concat()
}

/// Runs the body of a test, a closure, on a group with environment variables for MPI, and returns the output. Returns
/// `None` in a process that is a rank, and if MPI is not installed.
pub fn output_of_ranks<F: Fn(&mut dyn Group, ReduceAlgorithm)>(
    size: usize,
    algorithm: ReduceAlgorithm,
    variables: Vec<(&str, &str)>,
    body: F,
) -> Option<Output> {
    if let Ok(name) = env::var(RANK) {
        let mut group = Box::new(MpiGroup::initialize().unwrap());
        body(&mut *group, name.parse().unwrap());
        group.finish().unwrap();
        return None;
    }
    let launcher = mpirun().ok_or_else(|| "`mpirun` is not in a folder of `PATH`".to_owned());
    if !mantissa_testing::is_available("mpi", launcher.clone().map(drop)) {
        return None;
    }
    let (_program, test) = std::any::type_name::<F>()
        .trim_start_matches('&')
        .trim_end_matches("::{{closure}}")
        .split_once("::")
        .expect("the body must be a closure in a test");
    let output = Command::new("timeout")
        .args(["--kill-after=5", SECONDS])
        .arg(launcher.unwrap())
        .args([
            "--allow-run-as-root",
            "--oversubscribe",
            "--bind-to",
            "none",
            "-n",
            &size.to_string(),
        ])
        .arg(env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture"])
        .envs(variables)
        .env(RANK, algorithm.name())
        // Waiting ranks leave their core to others.
        .env("OMPI_MCA_mpi_yield_when_idle", "1")
        .output();
    Some(output.expect("cannot start mpirun"))
}
