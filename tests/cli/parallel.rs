//! Trainings on several ranks that Open MPI starts.
#![cfg(target_os = "linux")]

/// These tests need a program with the feature `mpi`, and Open MPI.
mod mpi {
    use std::{
        fs,
        io::Read as _,
        path::Path,
        sync::{Arc, Mutex},
        time::Duration,
    };

    use mantissa_testing::is_available;
    use serde_json::Value;

    use crate::{
        processes::{in_terminal, send, state, wait_for},
        support::{TestDir, fixture, stderr, stdout},
    };

    /// Command that starts ranks as any user, and more ranks than cores.
    const MPIRUN: &str = "mpirun --allow-run-as-root --oversubscribe";

    /// Returns true if the program can start ranks. Otherwise prints `skipped` with the reason.
    fn has_mpi() -> bool {
        let found = match cfg!(feature = "mpi") {
            true => Ok(()),
            false => Err("the program was built without the feature `mpi`".to_owned()),
        };
        is_available("mpi", found)
    }

    fn run(dir: &TestDir, out: &str, axes: &[&str]) -> Vec<Value> {
        let suite = fixture("parallel");
        let fixed = ["run", &suite, "--backend=flex", "--mpirun", MPIRUN, "--out", out];
        let axes = axes.iter().flat_map(|axis| ["-a", axis]);
        let arguments: Vec<&str> = fixed.into_iter().chain(axes).collect();
        let mut command = dir.command(&arguments);
        // Waiting ranks leave their core to others.
        command.env("OMPI_MCA_mpi_yield_when_idle", "1");
        let output = crate::support::run_to_exit(command);
        assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
        dir.records(out)
    }

    /// Returns the losses of all steps, as text, and the metrics that do not depend on the time.
    fn results(dir: &TestDir, out: &str, record: &Value) -> (Value, Vec<Value>) {
        let samples: Value = serde_json::from_str(&dir.samples_of(out, record)).unwrap();
        let mut series = samples["series"].as_array().unwrap().iter();
        let losses = series.find(|series| series["name"] == "train_loss").unwrap();
        let names = [
            "final_loss",
            "test_accuracy",
            "train_accuracy",
            "validation_accuracy",
        ];
        let value = |name: &str| record["metrics"][name]["value"].clone();
        (losses["y"].clone(), names.map(value).to_vec())
    }

    #[test]
    fn linear_reduction_equals_accumulation_bit_for_bit_with_dropout() {
        if !has_mpi() {
            return;
        }
        let dir = TestDir::new();
        let precision = "precision=32-true,bf16-mixed,16-mixed";
        for ranks in ["2", "3"] {
            let accumulate = format!("accumulate={ranks}");
            let alone = run(
                &dir,
                &format!("alone-{ranks}"),
                &[precision, &accumulate, "threads=1"],
            );
            let devices = format!("devices={ranks}");
            for reduce in ["all-reduce", "parameter-server"] {
                let reduction = format!("reduce={reduce}");
                let axes = [
                    precision,
                    &devices,
                    &reduction,
                    "reduce_algorithm=linear",
                    "threads=1",
                ];
                let out = format!("{reduce}-{ranks}");
                let together = run(&dir, &out, &axes);
                assert_eq!((alone.len(), together.len()), (3, 3));
                for (alone, together) in alone.iter().zip(&together) {
                    assert_eq!(
                        results(&dir, &out, together),
                        results(&dir, &format!("alone-{ranks}"), alone),
                        "{ranks} ranks, {reduce}, {}",
                        alone["cell"]["setting"]
                    );
                }
            }
        }
    }

    /// Returns the warnings of a record.
    fn warnings(record: &Value) -> Vec<&str> {
        let events = record["events"].as_array().unwrap().iter();
        let warnings = events.filter(|event| event["kind"] == "warning");
        warnings.map(|event| event["detail"].as_str().unwrap()).collect()
    }

    fn metric(record: &Value, name: &str) -> f64 {
        let value = record["metrics"][name]["value"].as_f64();
        value.unwrap_or_else(|| panic!("no {name} in {}", record["metrics"]))
    }

    #[test]
    fn asynchronous_server_without_staleness_equals_one_device_bit_for_bit() {
        if !has_mpi() {
            return;
        }
        let dir = TestDir::new();
        let precision = "precision=32-true,16-mixed";
        let alone = run(&dir, "alone", &[precision, "accumulate=2", "threads=1"]);
        let server = "reduce=parameter-server-async";
        let axes = [
            precision,
            "accumulate=2",
            "threads=1",
            "devices=3",
            server,
            "staleness=0",
        ];
        let asynchronous = run(&dir, "asynchronous", &axes);
        assert_eq!((alone.len(), asynchronous.len()), (2, 2));
        for (alone, asynchronous) in alone.iter().zip(&asynchronous) {
            assert_eq!(
                results(&dir, "asynchronous", asynchronous),
                results(&dir, "alone", alone),
                "{}",
                alone["cell"]["setting"]
            );
            assert_eq!(metric(asynchronous, "mean_staleness"), 0.0);
        }
    }

    #[test]
    fn servers_send_the_parameters_to_every_worker() {
        if !has_mpi() {
            return;
        }
        let dir = TestDir::new();
        for (reduce, messages) in [("parameter-server", 2.0), ("parameter-server-async", 1.0)] {
            let reduction = format!("reduce={reduce}");
            let axes = [
                "devices=3",
                &reduction,
                "reduce_format=bf16",
                "threads=1",
                "staleness=4",
            ];
            let records = run(&dir, reduce, &axes);
            let record = &records[0];
            assert_eq!(record["status"], "ok", "{reduce}: {}", record["reason"]);
            assert_eq!(warnings(record), [""; 0], "{reduce}");
            // The server sends most bytes. An asynchronous one sends the parameters to one worker per step, and to both after each of the two
            // epochs of six steps.
            let steps = if messages == 1.0 { 12.0 } else { 4.0 };
            let rest = if messages == 1.0 { 4.0 } else { 0.0 };
            let buffers = messages + rest / steps;
            let sent = metric(record, "bytes_sent") / metric(record, "estimated_weights_bytes");
            assert!(
                (sent / buffers - 1.0).abs() < 0.02,
                "{reduce}: {sent} buffers, expected {buffers}"
            );
            let share = metric(record, "communication_share");
            assert!(share > 0.0 && share < 1.0, "{reduce}: {share}");
        }
        let records = dir.records("parameter-server-async");
        let samples: Value =
            serde_json::from_str(&dir.samples_of("parameter-server-async", &records[0])).unwrap();
        let histogram: Vec<u64> = serde_json::from_value(samples["staleness"].clone()).unwrap();
        assert_eq!(histogram.iter().sum::<u64>(), 12, "{histogram:?}");
        assert!(histogram.len() <= 5, "{histogram:?}");
        let weighted = (0..)
            .zip(&histogram)
            .map(|(staleness, count): (u64, _)| staleness * count);
        let mean = weighted.sum::<u64>() as f64 / 12.0;
        assert_eq!(metric(&records[0], "mean_staleness"), mean);
    }

    #[test]
    fn every_algorithm_and_format_is_observed_and_sends_the_bytes_of_its_formula() {
        if !has_mpi() {
            return;
        }
        let dir = TestDir::new();
        let axes = [
            "devices=2,3",
            "reduce_algorithm=ring,tree,linear,recursive-doubling",
            "reduce_format=f64,f32,bf16,f16",
            "threads=1",
        ];
        let records = run(&dir, "run", &axes);
        assert_eq!(records.len(), 2 * 4 * 4);
        for record in records {
            let setting = &record["cell"]["setting"];
            assert_eq!(record["status"], "ok", "{setting}: {}", record["reason"]);
            assert_eq!(warnings(&record), [""; 0], "{setting}");
            let events = record["events"].as_array().unwrap();
            let observed =
                |event: &&Value| event["detail"].as_str().unwrap().starts_with("sums of gradients");
            assert!(events.iter().any(|event| observed(&event)), "{setting}");
            let metric = |name: &str| metric(&record, name);
            // `weights_bytes` are the bytes of the parameters in f32.
            let values = metric("estimated_weights_bytes") / 4.0;
            let bytes = match setting["reduce_format"].as_str().unwrap() {
                "f64" => 8.0,
                "f32" => 4.0,
                _ => 2.0,
            };
            let ranks = setting["devices"].as_f64().unwrap();
            let buffers = match (setting["reduce_algorithm"].as_str().unwrap(), ranks) {
                ("ring", _) => 2.0 * (ranks - 1.0) / ranks,
                // Rank 0 sends the sum to each other rank. With three ranks, the tree has two children below the root.
                ("tree" | "linear", _) => ranks - 1.0,
                // With three ranks, the second one sends its sum to the third one, and the result to the first one.
                (_, 3.0) => 2.0,
                _ => 1.0,
            };
            let sent = metric("bytes_sent") / bytes / values;
            assert!(
                (sent / buffers - 1.0).abs() < 0.01,
                "{setting}: {sent} buffers, expected {buffers}"
            );
            assert_eq!(metric("equal_reductions"), 30.0);
            let unit = match setting["reduce_format"].as_str().unwrap() {
                "f64" => 2f64.powi(-53),
                "f32" => 2f64.powi(-24),
                "f16" => 2f64.powi(-11),
                _ => 2f64.powi(-8),
            };
            assert!(
                metric("gradient_error") <= ranks * unit,
                "{setting}: {}",
                metric("gradient_error")
            );
            let share = metric("communication_share");
            assert!(share > 0.0 && share < 1.0, "{setting}: {share}");
        }
    }

    /// Phases, which are also the names of the workloads of `fixtures/parallel-phases.toml`, and their progress in the terminal.
    const PHASES: [(&str, &str); 4] = [
        ("prepare", ": preparing "),
        ("warm-up", ": warming up "),
        ("measure", ": measuring "),
        ("evaluate", ": evaluating "),
    ];

    /// Returns the ranks that run in a folder: their numbers and process ids.
    fn ranks_in(folder: &Path) -> Vec<(String, u32)> {
        let entries = fs::read_dir("/proc").unwrap();
        let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
        let rank = |pid: u32| {
            let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).ok();
            read("cmdline").filter(|command| command.contains("\0worker\0"))?;
            let current = fs::read_link(format!("/proc/{pid}/cwd")).ok()?;
            let environment = read("environ").filter(|_| current == folder)?;
            let mut variables = environment.split('\0');
            let rank = variables.find_map(|variable| variable.strip_prefix("OMPI_COMM_WORLD_RANK="))?;
            Some((rank.to_owned(), pid))
        };
        pids.filter_map(rank).collect()
    }

    /// Trains on two ranks, sends a signal to rank 1 while rank 0 is in a phase, and returns the record of the cell.
    fn run_with_signal(signal: &str, (phase, progress): (&str, &str)) -> Value {
        let dir = TestDir::new();
        let suite = fixture("parallel-phases");
        let arguments = [
            "run",
            &suite,
            "--filter",
            phase,
            "--profile=smoke",
            "--backend=flex",
            "--mpirun",
            MPIRUN,
            "--out=run",
            "-a",
            "devices=2",
            "-a",
            "threads=1",
        ];
        let mut command = in_terminal(&dir.command(&arguments));
        // Waiting ranks leave their core to others.
        command.env("OMPI_MCA_mpi_yield_when_idle", "1");
        let mut run = command.spawn().unwrap();
        let mut terminal = run.stdout.take().unwrap();
        let shown = Arc::new(Mutex::new(String::new()));
        let reader = Arc::clone(&shown);
        let reader = std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // The end of the terminal is an error on some systems.
            while let Ok(length @ 1..) = terminal.read(&mut bytes) {
                *reader.lock().unwrap() += &String::from_utf8_lossy(&bytes[..length]);
            }
        });
        wait_for(progress, || {
            shown.lock().unwrap().contains(progress).then_some(())
        });
        // The progress is that of rank 0, and rank 1 may follow later. Ranks report their phase five times a second.
        std::thread::sleep(Duration::from_millis(1500));
        let started = ranks_in(&dir.path("").canonicalize().unwrap());
        assert_eq!(started.len(), 2, "{phase}: {started:?}");
        let (_, victim) = started.iter().find(|(rank, _)| rank == "1").unwrap();
        send(signal, *victim);
        run.wait().unwrap();
        reader.join().unwrap();
        let alive: Vec<_> = started
            .iter()
            .filter(|(_, pid)| state(*pid).is_some_and(|(letter, _)| letter != 'Z'))
            .collect();
        assert!(alive.is_empty(), "{phase}: {alive:?} still run");
        dir.records("run").remove(0)
    }

    /// Sends a signal to rank 1 in each phase, in runs at the same time. Checks the status of the cells, and that their reasons contain
    /// a text and the phase.
    fn assert_detected_in_each_phase(signal: &str, status: &str, text: &str) {
        std::thread::scope(|scope| {
            for phase in PHASES {
                scope.spawn(move || {
                    let record = run_with_signal(signal, phase);
                    let reason = record["reason"].as_str().unwrap_or_default();
                    let position = format!("in the phase {}", phase.0);
                    assert!(
                        record["status"] == status && reason.contains(text) && reason.contains(&position),
                        "{phase:?}: {}: {reason}",
                        record["status"]
                    );
                });
            }
        });
    }

    #[test]
    fn killed_rank_fails_the_cell_in_each_phase() {
        if has_mpi() {
            assert_detected_in_each_phase("KILL", "failed", "rank 1 of 2 ended ");
        }
    }

    #[test]
    fn stopped_rank_ends_the_cell_at_its_time_limit_in_each_phase() {
        if has_mpi() {
            assert_detected_in_each_phase("STOP", "timeout", "rank 1 of 2 stopped responding ");
        }
    }

    #[test]
    fn mpi_is_listed_among_the_devices() {
        if !has_mpi() {
            return;
        }
        let text = stdout(&TestDir::new().run(&["devices"]));
        assert!(
            text.lines()
                .any(|line| line.starts_with("MPI") && line.contains("Open MPI")),
            "{text}"
        );
    }
}
