//! Tests with processes that replace `mpirun` and the ranks. The ranks are processes of this test program.

mod stand_in;

use mantissa_core::{Backend, Phase, Status};

use self::stand_in::{Launch, PHASES};
use super::Gpus;
use crate::{CellResult, Signal, Stop};

/// Time limit of a cell in seconds that a test reaches. Longer than the silence of a rank that is assumed to be stopped, and than
/// the start of the processes on a busy machine.
const LIMIT: f64 = 7.0;

/// Returns status and reason of ranks that were ended without a result.
fn died(result: CellResult) -> (Status, String) {
    match result {
        CellResult::Died { status, reason, .. } => {
            // Without the kill, some ranks end later, because they lose their connection.
            assert!(!reason.contains("cannot be killed"), "{reason}");
            (status, reason)
        }
        other => panic!("expected the end of a rank: {other:?}"),
    }
}

/// Returns status and reason of a final message.
fn finished(result: CellResult) -> (Status, String) {
    match result {
        CellResult::Finished(finished) => (finished.status, finished.reason.unwrap_or_default()),
        other => panic!("expected a final message: {other:?}"),
    }
}

/// Calls a function for each phase, at the same time.
fn in_each_phase(test: impl Fn(Phase) + Sync) {
    std::thread::scope(|scope| {
        for phase in PHASES {
            scope.spawn(|| test(*phase));
        }
    });
}

#[test]
fn the_result_is_that_of_rank_0() {
    for ranks in [2, 3] {
        let behaviours = vec!["ok"; ranks];
        let mut updates = vec![];
        let result = Launch::of(&behaviours).run(&mut |update| updates.extend(update));
        assert_eq!(finished(result), (Status::Ok, "result of rank 0".to_owned()));
        let phases: Vec<Phase> = updates.iter().map(|update| update.phase).collect();
        assert!(
            phases.is_sorted() && phases.contains(&Phase::Evaluate),
            "{phases:?}"
        );
    }
}

#[test]
fn a_rank_that_dies_ends_the_cell_in_every_phase() {
    in_each_phase(|phase| {
        let name = phase.name();
        let result = Launch::of(&[&format!("wait {name}"), &format!("kill {name}")]).end();
        let (status, reason) = died(result);
        let expected = format!("rank 1 of 2 ended in the phase {name}, at step 3 of 3: ");
        assert!(
            status == Status::Failed && reason.starts_with(&expected),
            "{status}: {reason}"
        );
    });
}

#[test]
fn a_rank_that_exits_without_a_result_ends_the_cell() {
    let (status, reason) = died(Launch::of(&["exit measure", "wait measure"]).end());
    assert!(
        status == Status::Failed
            && reason.starts_with("rank 0 of 2 ended in the phase measure, at step 3 of 3: ")
            && reason.contains("last words of a rank"),
        "{status}: {reason}"
    );
}

#[test]
fn a_stopped_rank_is_a_timeout_in_every_phase() {
    in_each_phase(|phase| {
        let name = phase.name();
        let launch = Launch::of(&[&format!("wait {name}"), &format!("stop {name}")]);
        let (status, reason) = died(launch.limit(LIMIT).end());
        let limit = format!("killed after {LIMIT} s, the time limit; ");
        assert!(
            status == Status::Timeout && reason.starts_with(&limit),
            "{status}: {reason}"
        );
        let (_, cause) = reason
            .split_once("rank 1 of 2 stopped responding ")
            .expect(&reason);
        let position = format!(" s before the limit, in the phase {name}, at step 3 of 3");
        assert!(cause.contains(&position), "{reason}");
    });
}

#[test]
fn the_slowest_rank_is_the_cause_of_a_timeout_if_all_ranks_respond() {
    let launch = Launch::of(&["wait evaluate", "wait warm-up", "wait measure"]);
    let (status, reason) = died(launch.limit(LIMIT).end());
    assert!(
        status == Status::Timeout
            && reason.ends_with("the slowest rank was rank 1 of 3, in the phase warm-up, at step 3 of 3"),
        "{status}: {reason}"
    );
}

#[test]
fn a_rank_that_does_not_connect_is_a_timeout() {
    let (status, reason) = died(Launch::of(&["silent", "wait prepare"]).limit(LIMIT).end());
    assert!(
        status == Status::Timeout && reason.contains("the time limit; rank 0 of 2 did not connect"),
        "{status}: {reason}"
    );
}

#[test]
fn the_rank_that_mpirun_reports_is_the_cause() {
    let report = |rank: u32| {
        format!("mpirun noticed that process rank {rank} with PID 0 on node vm exited on signal 9 (Killed).")
    };
    let script = format!("start; sleep 3; echo '{}' >&2; sleep 1", report(1));
    // Rank 1 ends before it connects.
    let (status, reason) = died(Launch::of(&["kill prepare", "silent"]).mpirun(&script).end());
    assert!(
        status == Status::Failed
            && reason
                .starts_with("rank 1 of 2 ended before it connected: killed by another process (SIGKILL)"),
        "{status}: {reason}"
    );
    // The connection of rank 0 closes before the message of rank 1 is read.
    let script = "start; sleep 3; printf 'Process name: [[1,1],1]\nExit code: 69\n' >&2; sleep 1";
    let launch = Launch::of(&["kill prepare", "fail measure"]).mpirun(script);
    assert_eq!(
        finished(launch.end()),
        (
            Status::Failed,
            "rank 1 of 2, in the phase measure, at step 3 of 3: no more tensors".to_owned()
        )
    );
}

#[test]
fn the_rank_that_calls_mpi_abort_is_the_cause() {
    let rule = "-".repeat(74);
    let report = format!(
        "{rule}\nMPI_ABORT was invoked on rank 1 in communicator MPI_COMM_WORLD\nwith errorcode 7.\n\nNOTE: invoking MPI_ABORT \
         causes Open MPI to kill all MPI processes.\n{rule}"
    );
    let script = format!("start; sleep 3; echo 'no route to rank 0' >&2; echo '{report}' >&2; exit 7");
    // `mpirun` kills rank 0 first.
    let launch = Launch::of(&["kill prepare", "exit measure"]).mpirun(&script);
    let (status, reason) = died(launch.end());
    let expected =
        "rank 1 of 2 ended in the phase measure, at step 3 of 3: it called MPI_Abort with error code 7: ";
    assert!(
        status == Status::Failed && reason.starts_with(expected) && reason.ends_with("no route to rank 0"),
        "{status}: {reason}"
    );
    // No rank connected.
    let script = format!("echo '{report}' >&2; exit 7");
    let (status, reason) = died(Launch::of(&["ok", "ok"]).mpirun(&script).end());
    assert!(
        status == Status::Failed
            && reason
                == "rank 1 of 2 ended before it connected: it called MPI_Abort with error code 7: no output",
        "{status}: {reason}"
    );
}

#[test]
fn a_rank_that_crashes_after_its_result_is_the_cause() {
    let report =
        "mpirun noticed that process rank 1 with PID 0 on node vm exited on signal 11 (Segmentation fault).";
    let script = format!("start; sleep 3; echo '{report}' >&2; sleep 1");
    let (status, reason) = died(Launch::of(&["kill prepare", "ok"]).mpirun(&script).end());
    assert!(
        status == Status::Failed
            && reason.starts_with(
                "rank 1 of 2 ended in the phase evaluate, at step 3 of 3: terminated by signal 11"
            ),
        "{status}: {reason}"
    );
}

#[test]
fn a_final_message_without_a_result_decides_the_result() {
    let result = Launch::of(&["wait measure", "fail measure"]).end();
    assert_eq!(
        finished(result),
        (
            Status::Failed,
            "rank 1 of 2, in the phase measure, at step 3 of 3: no more tensors".to_owned()
        )
    );
    let result = Launch::of(&["refuse prepare", "wait prepare"]).end();
    assert!(
        matches!(&result, CellResult::Refused(reason) if reason == "rank 0 of 2, in the phase prepare, at step 3 of 3: no such file"),
        "{result:?}"
    );
}

#[test]
fn a_complete_result_counts_although_the_ranks_have_to_be_killed() {
    let result = Launch::of(&["ok-and-hang", "ok-and-hang"]).end();
    assert_eq!(finished(result), (Status::Ok, "result of rank 0".to_owned()));
}

#[test]
fn an_immediate_stop_kills_the_ranks() {
    let stop = Stop::default();
    let launch = Launch::of(&["wait measure", "wait measure"]).stop(&stop);
    let mut heard = 0;
    let result = launch.run(&mut |update| {
        heard += usize::from(update.is_some_and(|update| update.phase == Phase::Measure));
        if heard == 1 {
            (0..2).for_each(|_| stop.request(Signal::Interrupt));
        }
    });
    assert!(heard > 0 && matches!(result, CellResult::Stopped), "{result:?}");
}

#[test]
fn processes_that_break_the_protocol_are_an_error() {
    for (second, problem) in [
        ("as-0", "two processes connected as rank 0 of 2"),
        ("as-2", "a process connected as rank 2, but the cell has 2 ranks"),
        (
            "invalid",
            "a process connected as a rank and sent an invalid line: GET /",
        ),
    ] {
        let (status, reason) = died(Launch::of(&["wait prepare", second]).end());
        assert!(
            status == Status::Failed && reason.starts_with(problem),
            "{status}: {reason}"
        );
    }
}

#[test]
fn an_exit_of_mpirun_before_the_ranks_connect_is_explained() {
    let result_of = |text: &str| {
        let script = format!("cat >&2 <<'END'\n{text}\nEND\nexit 1");
        died(Launch::of(&["ok", "ok"]).mpirun(&script).end())
    };
    let (status, reason) =
        result_of("mpirun has detected an attempt to run as root.\n\nadding the --allow-run-as-root option");
    assert_eq!(status, Status::Failed);
    assert!(
        reason.starts_with("`mpirun` ended before rank 0 of 2 connected: mpirun has detected an attempt to run as root; hint: ")
            && reason.ends_with(" --allow-run-as-root\"`"),
        "{reason}"
    );
    let (_, reason) = result_of(
        "There are not enough slots available in the system to satisfy the 2\nslots that were requested:",
    );
    assert!(reason.ends_with(" --oversubscribe\"`"), "{reason}");
    let (_, reason) = result_of("ssh: Could not resolve hostname nowhere");
    assert!(
        reason.ends_with("connected: ssh: Could not resolve hostname nowhere"),
        "{reason}"
    );
}

#[test]
fn an_exit_of_mpirun_without_ranks_and_output_is_an_error() {
    let (status, reason) = died(Launch::of(&["ok", "ok"]).mpirun("exit 0").end());
    assert!(
        status == Status::Failed && reason == "`mpirun` ended before rank 0 of 2 connected: no output",
        "{status}: {reason}"
    );
}

#[test]
fn ranks_that_never_connect_fail_the_cell_before_its_time_limit() {
    const CONNECT_LIMIT: f64 = 5.0;
    // `mpirun` waits for a host, or starts fewer ranks.
    for (script, behaviours, missing) in [
        (
            "echo 'connecting to host a' >&2; sleep 600",
            ["ok", "ok"],
            "rank 0 of 2, rank 1 of 2; connecting to host a",
        ),
        ("count=1; start; wait", ["wait prepare", "ok"], "rank 1 of 2; "),
    ] {
        let launch = Launch::of(&behaviours)
            .mpirun(script)
            .connect_limit(CONNECT_LIMIT);
        let (status, reason) = died(launch.end());
        let expected =
            format!("not connected within {CONNECT_LIMIT} s after the start of `mpirun`: {missing}");
        assert!(
            status == Status::Failed && reason.starts_with(&expected) && reason.contains("; hint: "),
            "{status}: {reason}"
        );
    }
}

#[test]
fn an_mpirun_that_does_not_exit_fails_the_cell() {
    // The second program exits, but another process keeps its output open.
    let launch = Launch::of(&["ok", "ok"]).command(&["sh", "-c", "sleep 600"]);
    let (status, reason) = finished(launch.end());
    assert!(
        status == Status::Failed
            && reason.starts_with("`sh -c sleep 600 --version` did not exit within 5 s; hint: "),
        "{status}: {reason}"
    );
    let launch = Launch::of(&["ok", "ok"]).command(&["sh", "-c", "setsid sleep 20 & echo HYDRA"]);
    let (status, reason) = finished(launch.end());
    assert!(
        status == Status::Skipped && reason.ends_with("did not print a version of Open MPI"),
        "{status}: {reason}"
    );
}

#[test]
fn a_socket_that_cannot_accept_ranks_fails_the_cell() {
    let (status, reason) = died(Launch::of(&["ok", "ok"]).end_without_socket());
    assert!(
        status == Status::Failed
            && reason == "cannot accept the connection of a rank: Invalid argument (os error 22)",
        "{status}: {reason}"
    );
}

#[test]
fn ranks_end_with_mpirun() {
    // The system kills the ranks, which do not reset their signal.
    let script = r#"start; sleep 2; kill -9 $$"#;
    let launch = Launch::of(&["wait measure", "wait measure"])
        .mpirun(script)
        .with_parent();
    let (status, reason) = died(launch.end());
    assert!(
        status == Status::Failed
            && reason.contains(", because `mpirun` ended: ")
            && reason.contains("SIGKILL"),
        "{status}: {reason}"
    );
}

#[test]
fn each_rank_gets_its_own_gpu() {
    let launch = Launch::of(&["ok", "ok"])
        .backend(Backend::Cuda)
        .gpus(Gpus::invented(3, None));
    assert_eq!(
        finished(launch.end()),
        (Status::Ok, "result of rank 0".to_owned())
    );
}

#[test]
fn a_peer_with_several_ranks_sees_as_many_gpus() {
    let gpus = |behaviours: &[&str], visible| {
        let launch = Launch::of(behaviours).backend(Backend::Cuda);
        launch.gpus(Gpus::invented(visible, None)).gpus_of_peer()
    };
    assert_eq!(gpus(&["ok", "ok"], 3), "GPU-0,GPU-1");
    assert_eq!(gpus(&["ok"], 3), "GPU-0");
    // The peer reports that there are too few.
    assert_eq!(gpus(&["ok", "ok"], 1), "GPU-0");
}

#[test]
fn cells_that_cannot_run_here_are_skipped() {
    let skipped = |launch: Launch, expected: &str| {
        let (status, reason) = finished(launch.end());
        assert!(
            status == Status::Skipped && reason.contains(expected),
            "{status}: {reason}"
        );
    };
    let launch = || Launch::of(&["ok", "ok"]);
    skipped(
        launch().backend(Backend::Vulkan),
        "the backend `vulkan` cannot train on several devices",
    );
    skipped(
        launch().backend(Backend::Cuda).gpus(Gpus::invented(1, None)),
        "the cell has 2 devices, but this machine has 1 visible GPU",
    );
    skipped(
        launch()
            .backend(Backend::Cuda)
            .gpus(Gpus::invented(2, Some("NCCL was not found"))),
        "NCCL was not found",
    );
    skipped(
        launch().library(None),
        "built without MPI; build it with `--features mpi`",
    );
    skipped(
        launch().library(Some("Open MPI v5.0.3, package: x")),
        "is Open MPI 4.1.4, but this program is linked with Open MPI 5.0.3",
    );
    skipped(
        launch().command(&["no-such-mpirun"]),
        "`no-such-mpirun` is not installed; hint: install Open MPI (the Debian package is `openmpi-bin`)",
    );
    skipped(
        launch().command(&["echo", "HYDRA"]),
        "`echo HYDRA --version` did not print a version of Open MPI",
    );
}

/// Tests with the real `mpirun`. The ranks are the same as in the other tests.
mod mpi {
    use super::*;

    fn is_installed() -> bool {
        let found = mantissa_collectives::mpirun();
        let found = found.ok_or_else(|| "`mpirun` is not in a folder of `PATH`".to_owned());
        mantissa_testing::is_available("mpi", found.map(drop))
    }

    /// Returns the result of ranks that the installed `mpirun` starts, or `None` if it is not installed.
    fn end(behaviours: &[&str]) -> Option<CellResult> {
        is_installed().then(|| {
            let launch =
                Launch::of(behaviours).command(&["mpirun", "--allow-run-as-root", "--oversubscribe"]);
            launch.limit(LIMIT).end()
        })
    }

    #[test]
    fn ranks_of_open_mpi_return_the_result_of_rank_0() {
        let Some(result) = end(&["ok", "ok", "ok"]) else {
            return;
        };
        assert_eq!(finished(result), (Status::Ok, "result of rank 0".to_owned()));
    }

    #[test]
    fn open_mpi_reports_the_end_of_a_rank() {
        let Some(result) = end(&["wait measure", "wait measure", "kill measure"]) else {
            return;
        };
        let (status, reason) = died(result);
        let expected =
            "rank 2 of 3 ended in the phase measure, at step 3 of 3: killed by another process (SIGKILL)";
        assert!(
            status == Status::Failed && reason.starts_with(expected),
            "{status}: {reason}"
        );
        let Some(result) = end(&["panic measure", "wait measure"]) else {
            return;
        };
        let (status, reason) = died(result);
        let expected = "rank 0 of 2 ended in the phase measure, at step 3 of 3: a thread panicked: ";
        assert!(
            status == Status::Failed
                && reason.starts_with(expected)
                && reason.contains("last words of a rank"),
            "{status}: {reason}"
        );
        let Some(result) = end(&["exhaust measure", "wait measure"]) else {
            return;
        };
        assert_eq!(died(result).0, Status::Oom);
    }

    #[test]
    fn a_stopped_rank_of_open_mpi_is_killed() {
        let Some(result) = end(&["stop measure", "wait measure"]) else {
            return;
        };
        let (status, reason) = died(result);
        assert!(
            status == Status::Timeout && reason.contains("rank 0 of 2 stopped responding"),
            "{status}: {reason}"
        );
    }

    #[test]
    fn a_rank_that_exits_early_does_not_block() {
        let Some(result) = end(&["exit prepare", "wait prepare"]) else {
            return;
        };
        let (status, reason) = died(result);
        assert!(
            status == Status::Failed && reason.starts_with("rank 0 of 2 ended in the phase prepare"),
            "{status}: {reason}"
        );
    }

    #[test]
    fn a_missing_host_is_an_error() {
        if !is_installed() {
            return;
        }
        let command = ["mpirun", "--allow-run-as-root", "--host", "host.invalid:2"];
        let (status, reason) = died(Launch::of(&["ok", "ok"]).command(&command).end());
        assert!(
            status == Status::Failed && reason.starts_with("`mpirun` ended before rank 0 of 2 connected: "),
            "{status}: {reason}"
        );
    }
}
