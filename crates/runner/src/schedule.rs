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
    pre_cell::{PreCell, merge},
    progress::{Progress, ProgressEvent, ProgressUpdate},
};

/// Maximum number of processes of a run: cells times repeats.
const MOST_PROCESSES: u64 = 10_000_000;

/// Maximum length of the reason of a record, in bytes.
const LONGEST_REASON: usize = 64 << 10;

/// Remaining work of a plan.
pub struct Schedule<'a> {
    folder: &'a mut RunFolder,
    plan: Arc<Plan>,
    /// Fingerprint for each backend of the plan.
    fingerprints: BTreeMap<Backend, Fingerprint>,
    hashed: InputHashes,
    commands: Commands,
    pre_cell: PreCell,
    stop: Stop,
}

/// Description of a run that was stopped before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stopped {
    /// Signal that stopped the run.
    pub signal: Signal,
    /// True if the running cell was killed.
    pub at_once: bool,
    /// Number of cells and repeats that are left.
    pub left: usize,
}

/// Attempt at a cell.
#[derive(Clone, Copy)]
struct Work<'a> {
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
            hashed: InputHashes::default(),
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

    /// Sets the hashes of the input files, which are added to every record.
    pub(crate) fn with_inputs(self, hashed: InputHashes) -> Self {
        Self { hashed, ..self }
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
            let lacking = |_: &&String| self.folder.ledger().lacks(&planned.cell, 0);
            if let Some(reason) = planned.skip.as_ref().filter(lacking) {
                // There may be many skipped cells, so check for a stop request.
                if self.stop.asked().is_some() {
                    unrecorded += 1;
                    continue;
                }
                let finished = Finished::without_result(Status::Skipped, reason);
                let cell = &planned.cell;
                self.record(
                    Work {
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
        let processes = plan.runnable().count() as u64 * u64::from(settings.repeats);
        if processes > MOST_PROCESSES {
            return Err(RunError::Input(format!(
                "the run has {processes} processes; the maximum is {MOST_PROCESSES}\n  hint: lower `--repeats`"
            )));
        }
        let mut work = settings.policy.order.arrange(&plan, settings.repeats);
        work.retain(|(cell, repeat)| ledger.lacks(cell, *repeat));
        progress.tell(ProgressEvent::Started {
            folder: self.folder.path(),
            plan: &plan,
            total: work.len(),
        });
        let start = Instant::now();
        let mut left = work.len() + unrecorded;
        'cells: for (done, (cell, repeat)) in work.iter().enumerate() {
            // With `Busy::Wait`, a disturbed cell runs once more when the GPU is free.
            let (mut retries, mut again) = (policy.retries, policy.busy == Busy::Wait);
            loop {
                if self.stop.asked().is_some() {
                    break 'cells;
                }
                progress.tell(ProgressEvent::Cell {
                    cell,
                    repeat: *repeat,
                    done,
                    left: time_left(start.elapsed(), done, work.len()),
                });
                let Some(record) = self.execute(cell, *repeat, executor, progress)? else {
                    break 'cells;
                };
                progress.tell(ProgressEvent::Recorded(&record));
                if is_final(record.status) {
                    break;
                }
                if again && !gpu_contention::strangers(&record.events).is_empty() {
                    again = false;
                } else if retries > 0 {
                    retries -= 1;
                } else {
                    break;
                }
            }
            left -= 1;
        }
        progress.tell(ProgressEvent::Ended);
        let stopped = self.stop.asked().filter(|_| left > 0).map(|signal| Stopped {
            signal,
            at_once: self.stop.at_once(),
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
        let waiting = &mut |what: &str| progress.tell(ProgressEvent::Waiting(what));
        let noted = self.pre_cell.ready(gpu.as_deref(), waiting)?;
        let idle_watts = self.pre_cell.idle_watts(gpu.as_deref(), waiting);
        let kept = self.folder.keep_devices(self.pre_cell.devices());
        kept.map_err(|error| self.folder.named(error))?;
        if self.stop.asked().is_some() {
            return Ok(None);
        }
        let next = self.folder.ledger().next_attempt(cell, repeat);
        let claimed = self.folder.claim(&cell.id, repeat, next);
        let attempt = claimed.map_err(|error| self.folder.named(error))?;
        let relative = RunFolder::attempt(&cell.id, repeat, attempt);
        // The folder may be renamed while the worker runs.
        let files: PathBuf = self.folder.place().join(&relative);
        let busy = self.folder.settings.policy.busy;
        let request = Request {
            cell: cell.clone(),
            inputs: self.folder.settings.resolved_inputs(),
            peer: self.folder.settings.peer.clone(),
            samples: files.clone(),
            gpu: gpu.clone(),
            idle_watts,
            job: Job::Measure,
        };
        let limit = self
            .plan
            .suite(&cell.suite)
            .map_or(Duration::MAX, |suite| seconds(suite.timeout_seconds));
        let (stop, mut stopping) = (self.stop.clone(), false);
        let on_progress = &mut |update: Option<ProgressUpdate>| {
            if let Some(update) = update {
                progress.tell(ProgressEvent::Step(update));
            }
            if stop.asked().is_some() && !std::mem::replace(&mut stopping, true) {
                progress.tell(ProgressEvent::Stopping);
            }
        };
        let executed = executor
            .execute(&request, limit, on_progress)
            .and_then(|(ended, output)| {
                write_output(&files, &output)?;
                Ok(ended)
            });
        // Writing samples also fails if the folder was moved, which is then the actual reason.
        let explained = |error| match self.folder.check_path() {
            Err(moved) => moved,
            Ok(()) => self.folder.named(error),
        };
        let ended = executed.map_err(explained)?;
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
        let strangers = gpu_contention::strangers(&finished.events);
        let disturbed = gpu.filter(|_| busy != Busy::Warn && !strangers.is_empty());
        let refused = refused.or_else(|| {
            let gpu = disturbed?;
            // The result may be caused by the other process, in particular if memory was exhausted.
            if is_final(finished.status) {
                let before = finished.reason.take().map(|reason| format!(": {reason}"));
                let (status, before) = (finished.status, before.unwrap_or_default());
                finished.reason = Some(format!(
                    "another process computed on the GPU during the cell, which ended `{status}`{before}"
                ));
                finished.status = Status::Failed;
            }
            let processes = strangers.join(", ");
            (busy == Busy::Fail).then_some(RunError::Busy { gpu, processes })
        });
        finished.events = merge(noted, finished.events);
        let samples = has_samples(&files).then_some(relative);
        let work = Work {
            cell,
            repeat,
            attempt,
        };
        let record = self.record(work, finished, samples)?;
        refused.map_or(Ok(Some(record)), Err)
    }

    /// Creates a record, marks violated expectations, and appends it to the run folder.
    fn record(
        &mut self,
        work: Work<'_>,
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
        let Work {
            cell,
            repeat,
            attempt,
        } = work;
        let mut record = Record {
            schema: SCHEMA_VERSION,
            cell: cell.clone(),
            repeat,
            attempt,
            status,
            reason: reason.map(shortened),
            requested: Requested::of(&cell.setting),
            executed: if status == Status::Skipped {
                Executed::unverified()
            } else {
                executed
            },
            metrics,
            events,
            data,
            inputs: (status != Status::Skipped).then(|| self.hashed.of_cell(cell)),
            samples,
            fingerprint: self.fingerprint(cell),
            command: self.commands.reproduce(&self.plan, &self.folder.settings, cell),
        };
        expect::mark(&self.plan, &mut record);
        self.folder.append(&record)?;
        self.folder.check_path()?;
        Ok(record)
    }
}

/// Truncates a reason that is too long, such as one that repeats the reply of a peer.
fn shortened(mut reason: String) -> String {
    reason.truncate(reason.floor_char_boundary(LONGEST_REASON));
    reason
}

fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

/// Estimates the remaining time from the mean time per cell. Returns `None` before the first cell is done.
fn time_left(elapsed: Duration, done: usize, total: usize) -> Option<Duration> {
    (done > 0).then(|| elapsed.mul_f64((total - done) as f64 / done as f64))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use mantissa_core::{EventKind, PlannedCell};

    use super::*;
    use crate::testing::{self, Notes, Script, died, finished};

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
        let mut notes = Notes::default();
        let schedule = Schedule::new(folder, BTreeMap::new(), Stop::default());
        schedule.run(script, &mut notes).unwrap();
        (testing::records(folder.path()).split_off(before), notes.0)
    }

    #[test]
    fn rounds_follow_each_other_and_a_dead_cell_does_not_stop_the_sweep() {
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
    fn a_skipped_cell_is_a_record_with_its_reason_and_is_never_executed() {
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
                .given
                .iter()
                .all(|request| request.cell.setting.size() == 128)
        );
    }

    #[test]
    fn resuming_runs_what_is_missing_and_tries_failures_and_timeouts_again() {
        let dir = tempfile::tempdir().unwrap();
        let mut first = folder(dir.path(), testing::plan(5), 1);
        let ends = [Status::Failed, Status::Timeout, Status::Oom, Status::Diverged];
        let mut ends: Vec<CellResult> = ends.into_iter().map(died).collect();
        ends.push(finished());
        run(&mut first, &mut Script::of(ends));
        drop(first);
        let (mut again, _) = RunFolder::open(dir.path()).unwrap();
        let (records, notes) = run(&mut again, &mut Script::of(vec![finished(), finished()]));
        assert_eq!(notes, ["start 2", "cell 64 0", "ok", "cell 128 0", "ok", "end"]);
        assert!(records.iter().all(|record| record.attempt == 1));
    }

    #[test]
    fn files_that_an_attempt_left_without_a_record_are_not_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let mut folder = folder(dir.path(), testing::plan(1), 1);
        let left = dir.path().join(RunFolder::attempt(&testing::cell(64).id, 0, 0));
        std::fs::create_dir_all(&left).unwrap();
        let (records, _) = run(&mut folder, &mut Script::of(vec![finished()]));
        assert_eq!(records[0].attempt, 1);
        assert_eq!(std::fs::read_dir(left).unwrap().count(), 0);
    }

    #[test]
    fn what_a_worker_printed_is_kept_beside_its_record() {
        let dir = tempfile::tempdir().unwrap();
        let mut folder = folder(dir.path(), testing::plan(1), 1);
        let (records, _) = run(&mut folder, &mut Script::of(vec![finished()]));
        let files = dir.path().join(RunFolder::attempt(&records[0].cell.id, 0, 0));
        assert_eq!(records[0].samples, None, "the record has no samples");
        assert_eq!(
            std::fs::read_to_string(files.join("stderr.txt")).unwrap(),
            "noise\n"
        );
    }

    #[test]
    fn wrong_data_ends_the_run_and_leaves_its_record() {
        let dir = tempfile::tempdir().unwrap();
        let mut folder = folder(dir.path(), testing::plan(2), 1);
        let schedule = Schedule::new(&mut folder, BTreeMap::new(), Stop::default());
        let mut script = Script::of(vec![CellResult::Refused("line 7 of `a.tsv` has no label".into())]);
        let error = schedule.run(&mut script, &mut Notes::default()).unwrap_err();
        assert_eq!(error.to_string(), "line 7 of `a.tsv` has no label");
        assert_eq!(testing::records(dir.path()).len(), 1);
    }

    #[test]
    fn the_first_signal_lets_the_running_cell_end_and_the_rest_is_left_for_later() {
        let dir = tempfile::tempdir().unwrap();
        let mut first = folder(dir.path(), testing::plan(3), 1);
        let stop = Stop::default();
        let mut script = Script::of(vec![finished(), finished()]);
        script.asks = Some((1, stop.clone()));
        let mut notes = Notes::default();
        let stopped = Schedule::new(&mut first, BTreeMap::new(), stop)
            .run(&mut script, &mut notes)
            .unwrap();
        let expected = Stopped {
            signal: Signal::Interrupt,
            at_once: false,
            left: 1,
        };
        assert_eq!(stopped, Some(expected));
        assert_eq!(notes.0, ["start 3", "cell 64 0", "ok", "cell 128 0", "ok", "end"]);
        let (_, notes) = run(&mut first, &mut Script::of(vec![finished()]));
        assert_eq!(notes, ["start 1", "cell 192 0", "ok", "end"]);
    }

    #[test]
    fn a_cell_that_was_ended_because_the_run_stops_leaves_no_record() {
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
    fn retries_are_attempts_of_their_own_and_end_with_the_first_result() {
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
    fn the_time_left_is_guessed_from_the_cells_that_are_done() {
        assert_eq!(time_left(Duration::from_secs(30), 0, 4), None);
        assert_eq!(
            time_left(Duration::from_secs(30), 3, 4),
            Some(Duration::from_secs(10))
        );
    }
}
