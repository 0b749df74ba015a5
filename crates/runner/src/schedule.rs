//! The work of a run: cell after cell, each result a record before the next one starts.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use mantissa_core::{
    Backend, Cell, Event, Executed, Fingerprint, Phase, Plan, Record, Requested, SCHEMA_VERSION, Status,
};

use crate::{
    Busy, RunError, RunFolder, Signal, Stop,
    between::{Between, merge},
    command::Commands,
    company, expect,
    fingerprint::fingerprint,
    folder::{has_samples, write_output},
    inputs::InputHashes,
    ledger::is_final,
    message::{Finished, Job, MemorySoFar, Request},
};

/// Most processes of a run: cells times repeats.
const MOST_PROCESSES: u64 = 10_000_000;

/// Longest reason of a record, in bytes.
const LONGEST_REASON: usize = 64 << 10;

/// How an executed cell ended.
#[derive(Debug)]
pub enum Ended {
    /// The worker lived to tell.
    Finished(Box<Finished>),
    /// It did not.
    Died {
        /// What that means for the cell.
        status: Status,
        /// Why, for people.
        reason: String,
        /// What it was last known to have taken.
        memory: MemorySoFar,
        /// What it had told of before.
        events: Vec<Event>,
    },
    /// It was ended because the run is to stop at once: there is nothing to record.
    Stopped,
    /// The user's data or weights are wrong: the run ends, since no other cell would fare better.
    Refused(String),
}

/// How far the running cell is.
#[derive(Debug, Clone, Copy)]
pub struct Told {
    /// What is going on.
    pub phase: Phase,
    /// Steps done in this phase.
    pub done: u64,
    /// Steps in this phase.
    pub total: u64,
}

/// What runs a cell: worker processes, or a script in tests.
pub trait Executor {
    /// Runs one cell to its end; also gives back what it printed beside its result. `told` is called with every step, and
    /// with nothing several times a second.
    ///
    /// # Errors
    /// Only what keeps every cell from running.
    fn execute(
        &mut self,
        request: &Request,
        timeout: Duration,
        told: &mut dyn FnMut(Option<Told>),
    ) -> Result<(Ended, Vec<u8>), RunError>;
}

/// What a run tells of itself while it goes on.
#[derive(Debug)]
pub enum ProgressEvent<'a> {
    /// It starts.
    Started {
        /// The run folder.
        folder: &'a Path,
        /// What is run.
        plan: &'a Plan,
        /// Cells and repeats to execute; skipped cells are not among them.
        total: usize,
    },
    /// Something is done before the first cell.
    Preparing {
        /// What.
        what: &'static str,
        /// Parts that are done.
        done: usize,
        /// Parts.
        total: usize,
        /// Processes that run at the same time.
        processes: usize,
    },
    /// A worker is started.
    Cell {
        /// Its cell.
        cell: &'a Cell,
        /// Which fresh process of the cell, from 0.
        repeat: u32,
        /// Cells done before it.
        done: usize,
        /// Time that the rest will take, once that can be guessed.
        left: Option<Duration>,
    },
    /// Something is waited for before the cell.
    Waiting(&'a str),
    /// A worker gets on.
    Step(Told),
    /// The run was asked to stop, and will when the running cell is done.
    Stopping,
    /// A record is on the disk.
    Recorded(&'a Record),
    /// Nothing is left to do.
    Ended,
}

/// Told of everything that happens, on the thread of the run.
pub trait Progress {
    /// Something happened.
    fn tell(&mut self, event: ProgressEvent<'_>);
}

/// What is left to do of a plan.
pub struct Schedule<'a> {
    folder: &'a mut RunFolder,
    plan: Arc<Plan>,
    /// What each backend of the plan runs on.
    fingerprints: BTreeMap<Backend, Fingerprint>,
    hashed: InputHashes,
    commands: Commands,
    between: Between,
    stop: Stop,
}

/// A run that was asked to stop before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stopped {
    /// By what.
    pub signal: Signal,
    /// Whether the running cell was ended for it.
    pub at_once: bool,
    /// Cells and repeats that are left.
    pub left: usize,
}

/// A cell that is executed.
#[derive(Clone, Copy)]
struct Work<'a> {
    cell: &'a Cell,
    repeat: u32,
    attempt: u32,
}

impl<'a> Schedule<'a> {
    /// What the folder's plan asks for and its records lack.
    pub fn new(folder: &'a mut RunFolder, fingerprints: BTreeMap<Backend, Fingerprint>, stop: Stop) -> Self {
        let plan = Arc::clone(&folder.plan);
        Self {
            fingerprints,
            hashed: InputHashes::default(),
            commands: Commands::of(&plan),
            between: Between::of_this_machine(folder.settings.policy, stop.clone(), folder.devices().clone()),
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

    /// Runs what is left, until that is done or the run is asked to stop.
    ///
    /// # Errors
    /// What keeps the run from going on; the records so far are on the disk.
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
                // There may be many.
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
                "the run has {processes} processes, and at most {MOST_PROCESSES} are possible\n  hint: lower `--repeats`"
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
            // A cell that somebody disturbed runs once more when he is gone.
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
                if again && !company::strangers(&record.events).is_empty() {
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

    /// One attempt at a cell and its record; none if the run is to stop at once.
    fn execute(
        &mut self,
        cell: &Cell,
        repeat: u32,
        executor: &mut dyn Executor,
        progress: &mut dyn Progress,
    ) -> Result<Option<Record>, RunError> {
        let gpu = self.fingerprint(cell).gpu.and_then(|gpu| gpu.uuid);
        let waiting = &mut |what: &str| progress.tell(ProgressEvent::Waiting(what));
        let noted = self.between.ready(gpu.as_deref(), waiting)?;
        let idle_watts = self.between.idle_watts(gpu.as_deref(), waiting);
        let kept = self.folder.keep_devices(self.between.devices());
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
        let told = &mut |told: Option<Told>| {
            if let Some(told) = told {
                progress.tell(ProgressEvent::Step(told));
            }
            if stop.asked().is_some() && !std::mem::replace(&mut stopping, true) {
                progress.tell(ProgressEvent::Stopping);
            }
        };
        let executed = executor
            .execute(&request, limit, told)
            .and_then(|(ended, output)| {
                write_output(&files, &output)?;
                Ok(ended)
            });
        // A folder that is gone is why samples cannot be written.
        let explained = |error| match self.folder.check_path() {
            Err(moved) => moved,
            Ok(()) => self.folder.named(error),
        };
        let ended = executed.map_err(explained)?;
        let (mut finished, refused) = match ended {
            Ended::Stopped => return Ok(None),
            Ended::Finished(finished) => (*finished, None),
            Ended::Died {
                status,
                reason,
                memory,
                events,
            } => {
                let died = Finished::without_result(status, &reason).after(memory);
                (Finished { events, ..died }, None)
            }
            Ended::Refused(reason) => (
                Finished::without_result(Status::Failed, &reason),
                Some(RunError::Input(reason)),
            ),
        };
        let strangers = company::strangers(&finished.events);
        let disturbed = gpu.filter(|_| busy != Busy::Warn && !strangers.is_empty());
        let refused = refused.or_else(|| {
            let gpu = disturbed?;
            // What it came to may be the stranger's doing, memory that ran out above all.
            if is_final(finished.status) {
                let before = finished.reason.take().map(|reason| format!(": {reason}"));
                let (status, before) = (finished.status, before.unwrap_or_default());
                finished.reason = Some(format!(
                    "somebody else computed on the GPU meanwhile; it ended `{status}`{before}"
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

    /// Makes the record, marks what is not as expected, and puts it on the disk.
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

/// Cuts a reason that is too long, such as one that repeats the answer of a peer.
fn shortened(mut reason: String) -> String {
    reason.truncate(reason.floor_char_boundary(LONGEST_REASON));
    reason
}

fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

/// The rest takes as long a cell as the cells so far did; before the first one is done, nobody knows.
fn time_left(elapsed: Duration, done: usize, total: usize) -> Option<Duration> {
    (done > 0).then(|| elapsed.mul_f64((total - done) as f64 / done as f64))
}

#[cfg(test)]
mod tests {
    use mantissa_core::PlannedCell;

    use super::*;
    use crate::testing::{self, Notes, Script, died, finished};

    fn folder(path: &Path, plan: Plan, repeats: u32) -> RunFolder {
        let settings = crate::RunSettings {
            repeats,
            ..testing::settings()
        };
        RunFolder::create(path, plan, settings, &BTreeMap::new(), testing::environment()).unwrap()
    }

    /// Runs what the folder lacks, and gives the records that this made and what was told of it.
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
        assert_eq!(records[0].reason.as_deref(), Some("as the script says"));
        assert_eq!(records[0].events[0].kind, "expectation");
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
        let mut ends: Vec<Ended> = ends.into_iter().map(died).collect();
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
        assert_eq!(records[0].samples, None, "there are no samples beside it");
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
        let mut script = Script::of(vec![Ended::Refused("line 7 of `a.tsv` has no label".into())]);
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
        let (records, notes) = run(&mut first, &mut Script::of(vec![Ended::Stopped]));
        assert!(records.is_empty());
        assert_eq!(notes, ["start 1", "cell 64 0", "end"]);
        let (records, _) = run(&mut first, &mut Script::of(vec![finished()]));
        assert_eq!(records[0].attempt, 1, "its files are kept apart");
    }

    #[test]
    fn retries_are_attempts_of_their_own_and_end_with_the_first_result() {
        let dir = tempfile::tempdir().unwrap();
        let mut first = folder(dir.path(), testing::plan(3), 1);
        first.settings.policy.retries = 2;
        let mut ends: Vec<Ended> = [
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
            "the failed cell and the one without memory"
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
