//! Trainings on several GPUs with stand-ins for the CUDA driver, NVRTC (`tests/cuda`) and NCCL (`tests/nccl`), without a GPU.
//!
//! The stand-in driver does not execute kernels, so gradients are meaningless. These tests check the calls of NCCL: their sequence, buffers,
//! types and environment. The values of the probe and of the repeated reductions are copied to the device without a kernel, and the stand-in
//! for NCCL sums them, so their results are correct.
#![cfg(target_os = "linux")]

use std::{fs, path::Path, process::Command, sync::OnceLock};

use tempfile::TempDir;

use crate::{
    cuda::toolkit,
    support::{TestDir, root, stdout},
};

/// Returns a folder with the stand-in for NCCL.
fn nccl_folder() -> &'static Path {
    static FOLDER: OnceLock<TempDir> = OnceLock::new();
    FOLDER
        .get_or_init(|| {
            let folder = tempfile::tempdir().unwrap();
            let compiled = Command::new("cc")
                .args(["-shared", "-fPIC", "-O1", "-o"])
                .arg(folder.path().join("libnccl.so.2"))
                .arg(root().join("tests/nccl/nccl.c"))
                .arg("-ldl")
                .status();
            assert!(
                compiled.is_ok_and(|status| status.success()),
                "cannot compile nccl.c"
            );
            folder
        })
        .path()
}

/// Returns a command on the stand-ins with this number of GPUs, and the folder for the files of the stand-in for NCCL.
fn command(dir: &TestDir, arguments: &[&str], gpus: u32, nccl: &Path) -> Command {
    let mut command = dir.command(arguments);
    let folders = std::env::join_paths([toolkit(), nccl]).unwrap();
    fs::create_dir_all(dir.path("nccl")).unwrap();
    command
        .env("LD_LIBRARY_PATH", folders)
        .env("CUDA_PATH", toolkit())
        .env("STANDIN_DEVICES", gpus.to_string())
        .env("STANDIN_NCCL_FOLDER", dir.path("nccl"))
        .env("MANTISSA_UNCHECKED_KERNELS", "1")
        // Exclude most candidates of matmuls, which take long to generate.
        .env("MANTISSA_WITHOUT", "mma, tma, unit")
        .env_remove("CUDA_VISIBLE_DEVICES");
    command
}

/// Returns a folder in which NCCL is not found, even if it is installed on this machine.
fn without_nccl(dir: &TestDir) -> std::path::PathBuf {
    let folder = dir.path("without-nccl");
    fs::create_dir_all(&folder).unwrap();
    for name in ["libnccl.so.2", "libnccl.so"] {
        fs::write(folder.join(name), "").unwrap();
    }
    folder
}

#[test]
fn nccl_is_listed_among_the_devices() {
    let dir = TestDir::new();
    let line = |nccl: &Path| {
        let output = command(&dir, &["devices"], 2, nccl).output().unwrap();
        let text = stdout(&output);
        let line = text.lines().find(|line| line.starts_with("NCCL"));
        line.unwrap_or_else(|| panic!("{text}")).to_owned()
    };
    if cfg!(feature = "cuda") {
        assert_eq!(line(nccl_folder()), "NCCL    2.27.3");
    }
    assert!(line(&without_nccl(&dir)).starts_with("NCCL    not available: "));
}

/// These tests need a program with the features `cuda` and `mpi`, and Open MPI.
mod mpi {
    use std::collections::BTreeSet;

    use mantissa_testing::is_available;
    use serde_json::Value;

    use super::*;
    use crate::support::{fixture, run_to_exit, stderr};

    /// Flags that let `mpirun` start ranks as any user, and more ranks than cores.
    const MPIRUN: &str = "mpirun --allow-run-as-root --oversubscribe";

    /// Sums before the training: two warm-up steps for each of two sizes of a micro-batch, three steps that count kernel launches, 30
    /// repeats of one sum, and two sums of the probe.
    const SUMS_BEFORE: usize = 2 * 2 + 3 + 30 + 2;

    /// Optimizer steps of `fixtures/parallel.toml` on two devices: six micro-batches in each of two epochs.
    const STEPS: usize = 2 * 6 / 2;

    /// Returns true if the program can start ranks on GPUs. Otherwise prints `skipped` with the reason.
    fn has_mpi() -> bool {
        let found = match cfg!(all(feature = "cuda", feature = "mpi")) {
            true => Ok(()),
            false => Err("the program was built without the features `cuda` and `mpi`".to_owned()),
        };
        is_available("mpi", found)
    }

    /// Returns the command of a training on two devices.
    fn training(dir: &TestDir, axes: &[&str], gpus: u32, nccl: &Path) -> Command {
        let suite = fixture("parallel");
        let fixed = [
            "run",
            &suite,
            "--backend=cuda",
            "--mpirun",
            MPIRUN,
            "--out=run",
            "--repeats=1",
            "-a",
            "devices=2",
        ];
        let axes = axes.iter().flat_map(|axis| ["-a", axis]);
        let arguments: Vec<&str> = fixed.into_iter().chain(axes).collect();
        let mut command = command(dir, &arguments, gpus, nccl);
        // Waiting ranks leave their core to others.
        command.env("OMPI_MCA_mpi_yield_when_idle", "1");
        command
    }

    fn records(dir: &TestDir, command: Command) -> Vec<Value> {
        let output = run_to_exit(command);
        assert!(
            dir.path("run/records.jsonl").exists(),
            "{}{}",
            stdout(&output),
            stderr(&output)
        );
        dir.records("run")
    }

    fn only_record(dir: &TestDir, command: Command) -> Value {
        let mut records = records(dir, command);
        assert_eq!(records.len(), 1, "{records:?}");
        records.remove(0)
    }

    /// Returns the calls of a rank, each with the environment of the rank.
    fn calls(dir: &TestDir, rank: &str) -> Vec<String> {
        let log = fs::read_to_string(dir.path("nccl/calls.log")).unwrap();
        let of_rank = |line: &&str| line.starts_with(&format!("rank={rank} "));
        log.lines().filter(of_rank).map(str::to_owned).collect()
    }

    /// Checks the calls of both ranks in a cell.
    fn assert_calls(dir: &TestDir, algorithm: &str, format: &str) {
        let created = calls(dir, "?");
        assert!(
            created.len() == 1 && created[0].ends_with(" ncclGetUniqueId"),
            "{created:?}"
        );
        let counts = ["0", "1"].map(|rank| {
            // Each rank sees only its own GPU.
            let environment = format!(
                "rank={rank} NCCL_ALGO={algorithm} CUDA_VISIBLE_DEVICES=GPU-00000000-0000-0000-0000-00000000000{rank} "
            );
            let calls = calls(dir, rank);
            let calls: Vec<&str> = calls
                .iter()
                .map(|call| call.strip_prefix(&environment).unwrap_or_else(|| panic!("{call}")))
                .collect();
            let [joined, sums @ .., left] = &calls[..] else {
                panic!("{calls:?}")
            };
            assert_eq!((*joined, *left), ("ncclCommInitRank ranks=2", "ncclCommDestroy"));
            assert_eq!(sums.len(), SUMS_BEFORE + STEPS, "{format}");
            let count = |sum: &&str| -> usize {
                let count = sum.strip_prefix("ncclAllReduce count=").unwrap();
                let count = count.strip_suffix(&format!(" type={format}"));
                count.unwrap_or_else(|| panic!("{sum}")).parse().unwrap()
            };
            sums.iter().map(count).collect::<Vec<usize>>()
        });
        assert_eq!(counts[0], counts[1]);
        // Every step sums the gradients of all parameters.
        let (steps, before) = (&counts[0][SUMS_BEFORE..], counts[0][0]);
        assert!(steps.iter().all(|count| *count == before), "{counts:?}");
    }

    fn assert_ok(record: &Value, bits: u32) {
        let setting = &record["cell"]["setting"];
        assert_eq!(record["status"], "ok", "{setting}: {}", record["reason"]);
        let metrics = &record["metrics"];
        assert_eq!(metrics["equal_reductions"]["value"], 30.0, "{setting}");
        for absent in ["bytes_sent", "messages"] {
            assert!(metrics[absent].is_null(), "{setting}: {}", metrics[absent]);
        }
        assert!(metrics["communication_seconds"]["value"].as_f64() > Some(0.0));
        let observed = format!("sums of gradients keep {bits} significand bits and are added in ");
        let mut events = record["events"].as_array().unwrap().iter();
        let event = events.find(|event| event["detail"].as_str().unwrap().starts_with(&observed));
        let event = event.unwrap_or_else(|| panic!("{setting}: {}", record["events"]));
        assert_eq!(event["kind"], "observed", "{setting}: {event}");
    }

    #[test]
    fn gradients_are_summed_in_every_format_and_with_every_algorithm_of_nccl() {
        if !has_mpi() {
            return;
        }
        for (format, bits, algorithm, fusion) in [
            ("f64", 53, "ring", "off"),
            ("f32", 24, "tree", "on"),
            ("bf16", 8, "tree", "off"),
            ("f16", 11, "ring", "off"),
        ] {
            let dir = TestDir::new();
            let axes = [
                format!("reduce_format={format}"),
                format!("reduce_algorithm={algorithm}"),
                format!("fusion={fusion}"),
            ];
            let axes: Vec<&str> = axes.iter().map(String::as_str).collect();
            let record = only_record(&dir, training(&dir, &axes, 2, nccl_folder()));
            assert_ok(&record, bits);
            let name = if algorithm == "ring" { "Ring" } else { "Tree" };
            assert_calls(&dir, name, format);
        }
    }

    #[test]
    fn cells_that_nccl_or_the_machine_cannot_run_are_skipped() {
        if !has_mpi() {
            return;
        }
        let dir = TestDir::new();
        let reason = |axes: &[&str], gpus, nccl: &Path| {
            let _ = fs::remove_dir_all(dir.path("run"));
            let record = only_record(&dir, training(&dir, axes, gpus, nccl));
            assert_eq!(record["status"], "skipped", "{record}");
            record["reason"].as_str().unwrap().to_owned()
        };
        assert_eq!(
            reason(&[], 1, nccl_folder()),
            "the cell has 2 devices, but this machine has 1 visible GPU"
        );
        let missing = reason(&[], 2, &without_nccl(&dir));
        assert!(
            missing.starts_with("NCCL was not found: libnccl.so.2")
                || missing.starts_with("NCCL was not found: /"),
            "{missing}"
        );
        assert!(missing.contains("hint: install it"), "{missing}");
        for algorithm in ["linear", "recursive-doubling"] {
            let axis = format!("reduce_algorithm={algorithm}");
            assert_eq!(
                reason(&[&axis], 2, nccl_folder()),
                format!(
                    "`reduce_algorithm={algorithm}` is not an algorithm of NCCL, which has `ring` and `tree`"
                )
            );
        }
        assert!(!dir.path("nccl/calls.log").exists());
    }

    #[test]
    fn failed_sum_of_one_rank_ends_the_cell_although_the_other_rank_waits() {
        if !has_mpi() {
            return;
        }
        let dir = TestDir::new();
        let mut command = training(&dir, &["fusion=off"], 2, nccl_folder());
        command
            .env("STANDIN_NCCL_STATUS", "2")
            .env("STANDIN_NCCL_RANK", "1")
            .env("STANDIN_NCCL_AFTER", (SUMS_BEFORE + 2).to_string());
        let record = only_record(&dir, command);
        assert_eq!(record["status"], "failed", "{record}");
        let reason = record["reason"].as_str().unwrap();
        assert!(
            reason.starts_with("rank 1 of 2, in the phase measure, at step 2 of 6: ")
                && reason.contains(
                    "ncclAllReduce failed: unhandled system error: the stand-in was configured to fail"
                ),
            "{reason}"
        );
        let ends: BTreeSet<bool> = ["0", "1"]
            .iter()
            .map(|rank| calls(&dir, rank).last().unwrap().contains("ncclAllReduce"))
            .collect();
        assert_eq!(ends, BTreeSet::from([true]));
    }

    #[test]
    fn parameter_servers_on_gpus_send_gradients_through_mpi() {
        if !has_mpi() {
            return;
        }
        let dir = TestDir::new();
        let axes = ["reduce=parameter-server,parameter-server-async", "fusion=off"];
        let records = records(&dir, training(&dir, &axes, 2, &without_nccl(&dir)));
        assert_eq!(records.len(), 2);
        for record in records {
            let setting = &record["cell"]["setting"];
            assert_eq!(record["status"], "ok", "{setting}: {}", record["reason"]);
            let sent = record["metrics"]["bytes_sent"]["value"].as_f64();
            assert!(sent > Some(0.0), "{setting}: {sent:?}");
        }
        assert!(!dir.path("nccl/calls.log").exists());
    }
}
