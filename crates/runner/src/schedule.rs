//! Execution of the cells of a run, one after the other. Each result is recorded before the next cell starts.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use mantissa_core::{Backend, Cell, Executed, Fingerprint, Plan, Record, Requested, SCHEMA_VERSION, Status};

use crate::{
    Busy, RunError, RunFolder, Signal, Stop,
    command::Commands,
    executor::{CellResult, Executor},
    expect,
    fingerprint::fingerprint,
    folder::{has_samples, write_output},
    gpu_contention,
    inputs::InputHashes,
    ledger::is_final,
    message::{Finished, Job, Request},
    pre_cell::{PreCell, merge_events},
    progress::{Progress, ProgressEvent, ProgressUpdate},
};

/// Maximum number of processes of a run: cells times repeats.
const MAX_PROCESSES: u64 = 10_000_000;

/// Maximum length of the reason of a record, in bytes.
const MAX_REASON_BYTES: usize = 64 << 10;

/// Cells of a plan that have yet to run.
pub struct Schedule<'a> {
    folder: &'a mut RunFolder,
    plan: Arc<Plan>,
    /// Fingerprint for each backend of the plan.
    fingerprints: BTreeMap<Backend, Fingerprint>,
    input_hashes: InputHashes,
    commands: Commands,
    pre_cell: PreCell,
    stop: Stop,
}

/// State of a run that was stopped before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stopped {
    /// Signal that stopped the run.
    pub signal: Signal,
    /// True if the running cell was killed.
    pub is_immediate: bool,
    /// Number of cells and repeats that are left.
    pub left: usize,
}

/// Attempt at a cell.
#[derive(Clone, Copy)]
struct Attempt<'a> {
    cell: &'a Cell,
    repeat: u32,
    attempt: u32,
}

impl<'a> Schedule<'a> {
    /// Creates a schedule of the cells of the folder's plan that have no final record.
    pub fn new(folder: &'a mut RunFolder, fingerprints: BTreeMap<Backend, Fingerprint>, stop: Stop) -> Self {
        let plan = Arc::clone(&folder.plan);
        Self {
            fingerprints,
            input_hashes: InputHashes::default(),
            commands: Commands::of(&plan),
            pre_cell: PreCell::of_this_machine(
                folder.settings.policy,
                stop.clone(),
                folder.devices().clone(),
            ),
            plan,
            stop,
            folder,
        }
    }

    /// Sets the hashes of the input files. All records except those of skipped cells contain these hashes.
    pub(crate) fn with_inputs(self, input_hashes: InputHashes) -> Self {
        Self { input_hashes, ..self }
    }

    fn fingerprint(&self, cell: &Cell) -> Fingerprint {
        self.fingerprints
            .get(&cell.setting.backend())
            .cloned()
            .unwrap_or_else(|| fingerprint(None))
    }

    /// Runs the remaining cells until all are done or a stop is requested.
    ///
    /// # Errors
    /// Errors that prevent the run from continuing. The records up to now are on disk.
    pub fn run(
        mut self,
        executor: &mut dyn Executor,
        progress: &mut dyn Progress,
    ) -> Result<Option<Stopped>, RunError> {
        let plan = Arc::clone(&self.plan);
        let mut unrecorded = 0;
        for planned in &plan.cells {
            let is_missing = |_: &&String| self.folder.ledger().needs_run(&planned.cell, 0);
            if let Some(reason) = planned.skip.as_ref().filter(is_missing) {
                // There may be many skipped cells, so check for a stop request before each of them.
                if self.stop.signal().is_some() {
                    unrecorded += 1;
                    continue;
                }
                let finished = Finished::without_result(Status::Skipped, reason);
                let cell = &planned.cell;
                self.record(
                    Attempt {
                        cell,
                        repeat: 0,
                        attempt: 0,
                    },
                    finished,
                    None,
                )?;
            }
        }
        let settings = &self.folder.settings;
        let (policy, ledger) = (settings.policy, self.folder.ledger());
        let repeats_of = |cell: &Cell| settings.repeats_of(&cell.suite);
        let processes: u64 = plan.runnable().map(|cell| u64::from(repeats_of(cell))).sum();
        if processes > MAX_PROCESSES {
            return Err(RunError::Input(format!(
                "the run has {processes} processes; the maximum is {MAX_PROCESSES}\n  hint: lower `--repeats`"
            )));
        }
        let mut work = settings.policy.order.arrange(&plan, repeats_of);
        work.retain(|(cell, repeat)| ledger.needs_run(cell, *repeat));
        progress.on_event(ProgressEvent::Started {
            folder: self.folder.path(),
            plan: &plan,
            total: work.len(),
        });
        let start = Instant::now();
        let mut left = work.len() + unrecorded;
        'cells: for (done, (cell, repeat)) in work.iter().enumerate() {
            // With `Busy::Wait`, a cell during which another process computed runs once more when the GPU is free.
            let (mut retries, mut rerun_disturbed) = (policy.retries, policy.busy == Busy::Wait);
            loop {
                if self.stop.signal().is_some() {
                    break 'cells;
                }
                progress.on_event(ProgressEvent::Cell {
                    cell,
                    repeat: *repeat,
                    done,
                    left: remaining_time(start.elapsed(), done, work.len()),
                });
                let Some(record) = self.execute(cell, *repeat, executor, progress)? else {
                    break 'cells;
                };
                progress.on_event(ProgressEvent::Recorded(&record));
                if is_final(record.status) {
                    break;
                }
                if rerun_disturbed && !gpu_contention::detected_processes(&record.events).is_empty() {
                    rerun_disturbed = false;
                } else if retries > 0 {
                    retries -= 1;
                } else {
                    break;
                }
            }
            left -= 1;
        }
        progress.on_event(ProgressEvent::Ended);
        let stopped = self.stop.signal().filter(|_| left > 0).map(|signal| Stopped {
            signal,
            is_immediate: self.stop.is_immediate(),
            left,
        });
        Ok(stopped)
    }

    /// Runs one attempt at a cell and records it. Returns `None` if the run stops immediately.
    fn execute(
        &mut self,
        cell: &Cell,
        repeat: u32,
        executor: &mut dyn Executor,
        progress: &mut dyn Progress,
    ) -> Result<Option<Record>, RunError> {
        let gpu = self.fingerprint(cell).gpu.and_then(|gpu| gpu.uuid);
        let waiting = &mut |what: &str| progress.on_event(ProgressEvent::Waiting(what));
        let pre_cell_events = self.pre_cell.wait_until_ready(gpu.as_deref(), waiting)?;
        let idle_watts = self.pre_cell.idle_watts(gpu.as_deref(), waiting);
        let stored = self.folder.store_devices(self.pre_cell.devices());
        stored.map_err(|error| self.folder.with_user_path(error))?;
        if self.stop.signal().is_some() {
            return Ok(None);
        }
        let next = self.folder.ledger().next_attempt(cell, repeat);
        let created = self.folder.create_attempt_folder(&cell.id, repeat, next);
        let attempt = created.map_err(|error| self.folder.with_user_path(error))?;
        let relative = RunFolder::attempt_path(&cell.id, repeat, attempt);
        // The folder may be renamed while the worker runs.
        let files: PathBuf = self.folder.stable_path().join(&relative);
        let busy = self.folder.settings.policy.busy;
        let request = Request {
            cell: cell.clone(),
            inputs: self.folder.settings.resolved_inputs_of(&cell.suite),
            save_weights: self.folder.settings.save_weights,
            peer: self.folder.settings.peer.clone(),
            samples: files.clone(),
            gpu: gpu.clone(),
            own_gpu: None,
            idle_watts,
            job: Job::Measure,
        };
        let limit = self
            .plan
            .suite(&cell.suite)
            .map_or(Duration::MAX, |suite| duration(suite.timeout_seconds));
        let (stop, mut stopping) = (self.stop.clone(), false);
        let on_progress = &mut |update: Option<ProgressUpdate>| {
            if let Some(update) = update {
                progress.on_event(ProgressEvent::Step(update));
            }
            if stop.signal().is_some() && !std::mem::replace(&mut stopping, true) {
                progress.on_event(ProgressEvent::Stopping);
            }
        };
        let executed = executor
            .execute(&request, limit, on_progress)
            .and_then(|(ended, output)| {
                write_output(&files, &output)?;
                Ok(ended)
            });
        // Writing samples also fails if the folder was moved. In this case, report the move as the reason.
        let explain = |error| match self.folder.check_path() {
            Err(moved) => moved,
            Ok(()) => self.folder.with_user_path(error),
        };
        let ended = executed.map_err(explain)?;
        let (mut finished, refused) = match ended {
            CellResult::Stopped => return Ok(None),
            CellResult::Finished(finished) => (*finished, None),
            CellResult::Died {
                status,
                reason,
                memory,
                events,
            } => {
                let died = Finished::without_result(status, &reason).after(memory);
                (Finished { events, ..died }, None)
            }
            CellResult::Refused(reason) => (
                Finished::without_result(Status::Failed, &reason),
                Some(RunError::Input(reason)),
            ),
        };
        let others = gpu_contention::detected_processes(&finished.events);
        let disturbed = gpu.filter(|_| busy != Busy::Warn && !others.is_empty());
        let refused = refused.or_else(|| {
            let gpu = disturbed?;
            // The other process may have caused the result, in particular exhausted memory.
            if is_final(finished.status) {
                let before = finished.reason.take().map(|reason| format!(": {reason}"));
                let (status, before) = (finished.status, before.unwrap_or_default());
                finished.reason = Some(format!(
                    "another process computed on the GPU during the cell, which ended `{status}`{before}"
                ));
                finished.status = Status::Failed;
            }
            let processes = others.join(", ");
            (busy == Busy::Fail).then_some(RunError::Busy { gpu, processes })
        });
        finished.events = merge_events(pre_cell_events, finished.events);
        let samples = has_samples(&files).then_some(relative);
        let attempt = Attempt {
            cell,
            repeat,
            attempt,
        };
        let record = self.record(attempt, finished, samples)?;
        refused.map_or(Ok(Some(record)), Err)
    }

    /// Creates a record, marks violated expectations, and appends it to the run folder.
    fn record(
        &mut self,
        attempt: Attempt<'_>,
        finished: Finished,
        samples: Option<String>,
    ) -> Result<Record, RunError> {
        let Finished {
            status,
            reason,
            executed,
            metrics,
            events,
            data,
            checked: _,
        } = finished;
        let Attempt {
            cell,
            repeat,
            attempt,
        } = attempt;
        let mut record = Record {
            schema: SCHEMA_VERSION,
            cell: cell.clone(),
            repeat,
            attempt,
            status,
            reason: reason.map(truncate_reason),
            requested: Requested::of(&cell.setting),
            executed: if status == Status::Skipped {
                Executed::unverified()
            } else {
                executed
            },
            metrics,
            events,
            data,
            inputs: (status != Status::Skipped).then(|| self.input_hashes.of_cell(cell)),
            samples,
            fingerprint: self.fingerprint(cell),
            command: self.commands.reproduce(&self.plan, &self.folder.settings, cell),
        };
        expect::add_violation_events(&self.plan, &mut record);
        self.folder.append(&record)?;
        self.folder.check_path()?;
        Ok(record)
    }
}

/// Truncates a reason that is too long, such as one that quotes the response of a peer.
fn truncate_reason(mut reason: String) -> String {
    reason.truncate(reason.floor_char_boundary(MAX_REASON_BYTES));
    reason
}

fn duration(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

/// Estimates the remaining time from the mean time per completed cell. Returns `None` before the first cell is done.
fn remaining_time(elapsed: Duration, done: usize, total: usize) -> Option<Duration> {
    (done > 0).then(|| elapsed.mul_f64((total - done) as f64 / done as f64))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use mantissa_core::{EventKind, PlannedCell};

    use super::*;
    use crate::testing::{self, EventLog, Script, died, finished};

    fn folder(path: &Path, plan: Plan, repeats: u32) -> RunFolder {
        let settings = crate::RunSettings {
            repeats,
            ..testing::settings()
        };
        RunFolder::create(path, plan, settings, &BTreeMap::new(), testing::environment()).unwrap()
    }

    /// Runs the remaining cells of a folder. Returns the new records and the progress events.
    fn run(folder: &mut RunFolder, script: &mut Script) -> (Vec<Record>, Vec<String>) {
        let before = testing::records(folder.path()).len();
        let mut notes = EventLog::default();
        let schedule = Schedule::new(folder, BTreeMap::new(), Stop::default());
        schedule.run(script, &mut notes).unwrap();
        (testing::records(folder.path()).split_off(before), notes.0)
    }

    #[test]
    fn cells_run_in_rounds_and_a_crash_does_not_stop_the_run() {
        let dir = tempfile::tempdir().unwrap();
        let mut folder = folder(dir.path(), testing::plan(2), 2);
        let ends = vec![died(Status::Failed), finished(), finished(), died(Status::Oom)];
        let (records, notes) = run(&mut folder, &mut Script::of(ends));
        let expected = [
            "start 4",
            "cell 64 0",
            "failed",
            "cell 128 0",
            "ok",
            "cell 128 1",
            "ok",
            "cell 64 1",
            "oom",
            "end",
        ];
        assert_eq!(notes, expected);
        assert_eq!(records[0].reason.as_deref(), Some("scripted"));
        assert_eq!(records[0].events[0].kind, EventKind::Expectation);
    }

    #[test]
    fn a_skipped_cell_is_recorded_and_not_executed() {
        let dir = tempfile::tempdir().unwrap();
        let mut plan = testing::plan(2);
        plan.cells[0] = PlannedCell {
            skip: Some("no such unit".into()),
            ..plan.cells[0].clone()
        };
        let mut folder = folder(dir.path(), plan, 3);
        let mut script = Script::of(vec![finished(), finished(), finished()]);
        let (records, _) = run(&mut folder, &mut script);
        assert_eq!(records.len(), 4);
        assert_eq!(
            (records[0].status, records[0].reason.as_deref()),
            (Status::Skipped, Some("no such unit"))
        );
        assert!(
            script
                .requests
                .iter()
                .all(|request| request.cell.setting.size() == 128)
        );
    }

    #[test]
    fn resuming_runs_missing_failed_and_timed_out_cells() {
        let dir = tempfile::tempdir().unwrap();
        let mut first = folder(dir.path(), testing::plan(5), 1);
        let ends = [Status::Failed, Status::Timeout, Status::Oom, Status::Diverged];
        let mut ends: Vec<CellResult> = ends.into_iter().map(died).collect();
        ends.push(finished());
        run(&mut first, &mut Script::of(ends));
        drop(first);
        let (mut resumed, _) = RunFolder::open(dir.path()).unwrap();
        let (records, notes) = run(&mut resumed, &mut Script::of(vec![finished(), finished()]));
        assert_eq!(notes, ["start 2", "cell 64 0", "ok", "cell 128 0", "ok", "end"]);
        assert!(records.iter().all(|record| record.attempt == 1));
    }

    #[test]
    fn files_of_an_unrecorded_attempt_are_not_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let mut folder = folder(dir.path(), testing::plan(1), 1);
        let unrecorded = dir
            .path()
            .join(RunFolder::attempt_path(&testing::cell(64).id, 0, 0));
        std::fs::create_dir_all(&unrecorded).unwrap();
        let (records, _) = run(&mut folder, &mut Script::of(vec![finished()]));
        assert_eq!(records[0].attempt, 1);
        assert_eq!(std::fs::read_dir(unrecorded).unwrap().count(), 0);
    }

    #[test]
    fn worker_output_is_stored_in_the_attempt_folder() {
        let dir = tempfile::tempdir().unwrap();
        let mut folder = folder(dir.path(), testing::plan(1), 1);
        let (records, _) = run(&mut folder, &mut Script::of(vec![finished()]));
        let files = dir
            .path()
            .join(RunFolder::attempt_path(&records[0].cell.id, 0, 0));
        assert_eq!(records[0].samples, None, "the record has no samples");
        assert_eq!(
            std::fs::read_to_string(files.join("stderr.txt")).unwrap(),
            "noise\n"
        );
    }

    #[test]
    fn invalid_data_is_recorded_and_ends_the_run() {
        let dir = tempfile::tempdir().unwrap();
        let mut folder = folder(dir.path(), testing::plan(2), 1);
        let schedule = Schedule::new(&mut folder, BTreeMap::new(), Stop::default());
        let mut script = Script::of(vec![CellResult::Refused("line 7 of `a.tsv` has no label".into())]);
        let error = schedule.run(&mut script, &mut EventLog::default()).unwrap_err();
        assert_eq!(error.to_string(), "line 7 of `a.tsv` has no label");
        assert_eq!(testing::records(dir.path()).len(), 1);
    }

    #[test]
    fn the_first_signal_lets_the_running_cell_finish() {
        let dir = tempfile::tempdir().unwrap();
        let mut first = folder(dir.path(), testing::plan(3), 1);
        let stop = Stop::default();
        let mut script = Script::of(vec![finished(), finished()]);
        script.stop_during = Some((1, stop.clone()));
        let mut notes = EventLog::default();
        let stopped = Schedule::new(&mut first, BTreeMap::new(), stop)
            .run(&mut script, &mut notes)
            .unwrap();
        let expected = Stopped {
            signal: Signal::Interrupt,
            is_immediate: false,
            left: 1,
        };
        assert_eq!(stopped, Some(expected));
        assert_eq!(notes.0, ["start 3", "cell 64 0", "ok", "cell 128 0", "ok", "end"]);
        let (_, notes) = run(&mut first, &mut Script::of(vec![finished()]));
        assert_eq!(notes, ["start 1", "cell 192 0", "ok", "end"]);
    }

    #[test]
    fn a_cell_killed_by_a_stop_has_no_record() {
        let dir = tempfile::tempdir().unwrap();
        let mut first = folder(dir.path(), testing::plan(1), 1);
        let (records, notes) = run(&mut first, &mut Script::of(vec![CellResult::Stopped]));
        assert!(records.is_empty());
        assert_eq!(notes, ["start 1", "cell 64 0", "end"]);
        let (records, _) = run(&mut first, &mut Script::of(vec![finished()]));
        assert_eq!(
            records[0].attempt, 1,
            "the second attempt must have its own files"
        );
    }

    #[test]
    fn retries_are_separate_attempts_until_a_final_status() {
        let dir = tempfile::tempdir().unwrap();
        let mut first = folder(dir.path(), testing::plan(3), 1);
        first.settings.policy.retries = 2;
        let mut ends: Vec<CellResult> = [
            Status::Failed,
            Status::Timeout,
            Status::Failed,
            Status::Oom,
            Status::Failed,
        ]
        .into_iter()
        .map(died)
        .collect();
        ends.push(finished());
        let (records, _) = run(&mut first, &mut Script::of(ends));
        let seen: Vec<_> = records
            .iter()
            .map(|record| (record.cell.setting.size(), record.attempt, record.status))
            .collect();
        let expected = [
            (64, 0, Status::Failed),
            (64, 1, Status::Timeout),
            (64, 2, Status::Failed),
            (128, 0, Status::Oom),
            (192, 0, Status::Failed),
            (192, 1, Status::Ok),
        ];
        assert_eq!(seen, expected);
        assert_eq!(
            first.ledger().violations().len(),
            2,
            "violations: the failed cell and the cell that ran out of memory"
        );
    }

    #[test]
    fn the_remaining_time_is_estimated_from_completed_cells() {
        assert_eq!(remaining_time(Duration::from_secs(30), 0, 4), None);
        assert_eq!(
            remaining_time(Duration::from_secs(30), 3, 4),
            Some(Duration::from_secs(10))
        );
    }
}
