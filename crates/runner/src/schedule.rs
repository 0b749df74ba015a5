//! The order of work: every cell once, then every cell again, each result a record before the next one starts.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use mantissa_core::{
    Backend, Cell, CellId, Executed, Fingerprint, Plan, Record, Requested, SCHEMA_VERSION, Status,
};
use mantissa_workloads::Phase;

use crate::{
    RunError, RunFolder,
    command::reproduce,
    expect,
    fingerprint::fingerprint,
    folder::{has_samples, write_output},
    message::{Finished, Request},
};

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
    },
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
    /// Runs one cell to its end; also gives back what it printed beside its result.
    ///
    /// # Errors
    /// Only what keeps every cell from running.
    fn execute(
        &mut self,
        request: &Request,
        timeout: Duration,
        told: &mut dyn FnMut(Told),
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
    /// A worker gets on.
    Step(Told),
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
    /// What each backend of the plan runs on.
    fingerprints: BTreeMap<Backend, Fingerprint>,
    /// The last attempt of every cell and repeat, and how it ended.
    last: BTreeMap<(CellId, u32), (u32, Status)>,
}

/// Whether a cell that ended so is done: what went wrong from outside is tried again.
fn is_final(status: Status) -> bool {
    match status {
        Status::Ok | Status::Diverged | Status::Oom | Status::Skipped => true,
        Status::Failed | Status::Timeout => false,
    }
}

impl<'a> Schedule<'a> {
    /// The rest of the folder's plan, given the records that are there.
    pub fn new(
        folder: &'a mut RunFolder,
        fingerprints: BTreeMap<Backend, Fingerprint>,
        records: &[Record],
    ) -> Self {
        let mut last = BTreeMap::new();
        for record in records {
            let slot = last
                .entry((record.cell.id.clone(), record.repeat))
                .or_insert((0, record.status));
            if record.attempt >= slot.0 {
                *slot = (record.attempt, record.status);
            }
        }
        Self {
            folder,
            fingerprints,
            last,
        }
    }

    fn fingerprint(&self, cell: &Cell) -> Fingerprint {
        self.fingerprints
            .get(&cell.setting.backend())
            .cloned()
            .unwrap_or_else(|| fingerprint(None))
    }

    fn lacks(&self, cell: &Cell, repeat: u32) -> bool {
        !self
            .last
            .get(&(cell.id.clone(), repeat))
            .is_some_and(|(_, status)| is_final(*status))
    }

    /// Runs what is left. Repeats are the outer loop: what drifts on the machine hits every setting alike, and a run
    /// that is cut short has every cell once.
    ///
    /// # Errors
    /// What keeps the run from going on; the records so far are on the disk.
    pub fn run(
        mut self,
        executor: &mut dyn Executor,
        progress: &mut dyn Progress,
    ) -> Result<Vec<Record>, RunError> {
        let plan = self.folder.plan.clone();
        let mut made = vec![];
        for planned in &plan.cells {
            if let Some(reason) = planned.skip.as_ref().filter(|_| self.lacks(&planned.cell, 0)) {
                let finished = Finished::without_result(Status::Skipped, reason.clone());
                made.push(self.record(&plan, &planned.cell, 0, 0, finished, None)?);
            }
        }
        let repeats = 0..self.folder.settings.repeats;
        let pairs = repeats.flat_map(|repeat| plan.runnable().map(move |cell| (cell, repeat)));
        let work: Vec<(&Cell, u32)> = pairs.filter(|(cell, repeat)| self.lacks(cell, *repeat)).collect();
        let folder = self.folder.path().to_owned();
        progress.tell(ProgressEvent::Started {
            folder: &folder,
            plan: &plan,
            total: work.len(),
        });
        let start = Instant::now();
        for (done, (cell, repeat)) in work.iter().enumerate() {
            let left = time_left(start.elapsed(), done, work.len());
            progress.tell(ProgressEvent::Cell {
                cell,
                repeat: *repeat,
                done,
                left,
            });
            let record = self.execute(&plan, cell, *repeat, executor, progress)?;
            progress.tell(ProgressEvent::Recorded(&record));
            made.push(record);
        }
        progress.tell(ProgressEvent::Ended);
        Ok(made)
    }

    fn execute(
        &mut self,
        plan: &Plan,
        cell: &Cell,
        repeat: u32,
        executor: &mut dyn Executor,
        progress: &mut dyn Progress,
    ) -> Result<Record, RunError> {
        let next = self
            .last
            .get(&(cell.id.clone(), repeat))
            .map_or(0, |(attempt, _)| attempt + 1);
        let attempt = self.folder.free_attempt(&cell.id, repeat, next);
        let relative = RunFolder::attempt(&cell.id, repeat, attempt);
        let files: PathBuf = self.folder.path().join(&relative);
        let request = Request {
            cell: cell.clone(),
            inputs: self.folder.settings.inputs.clone(),
            samples: files.clone(),
            gpu: self.fingerprint(cell).gpu.and_then(|gpu| gpu.uuid),
        };
        let limit = plan
            .suite(&cell.suite)
            .map_or(Duration::MAX, |suite| seconds(suite.timeout_seconds));
        let told = &mut |told| progress.tell(ProgressEvent::Step(told));
        let (ended, output) = executor.execute(&request, limit, told)?;
        write_output(&files, &output)?;
        let (finished, refused) = match ended {
            Ended::Finished(finished) => (*finished, None),
            Ended::Died { status, reason } => (Finished::without_result(status, reason), None),
            Ended::Refused(reason) => (
                Finished::without_result(Status::Failed, reason.clone()),
                Some(RunError::Input(reason)),
            ),
        };
        let samples = has_samples(&files).then_some(relative);
        let record = self.record(plan, cell, repeat, attempt, finished, samples)?;
        refused.map_or(Ok(record), Err)
    }

    /// Makes the record, marks what is not as expected, and puts it on the disk.
    fn record(
        &mut self,
        plan: &Plan,
        cell: &Cell,
        repeat: u32,
        attempt: u32,
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
        } = finished;
        let mut record = Record {
            schema: SCHEMA_VERSION,
            cell: cell.clone(),
            repeat,
            attempt,
            status,
            reason,
            requested: Requested::of(&cell.setting),
            executed: if status == Status::Skipped {
                Executed::unverified()
            } else {
                executed
            },
            metrics,
            events,
            data,
            samples,
            fingerprint: self.fingerprint(cell),
            command: reproduce(plan, &self.folder.settings, cell),
        };
        expect::mark(plan, &mut record);
        self.folder.append(&record)?;
        self.last.insert((cell.id.clone(), repeat), (attempt, status));
        Ok(record)
    }
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
        RunFolder::create(path, plan, settings, testing::environment()).unwrap()
    }

    fn run(folder: &mut RunFolder, records: &[Record], script: &mut Script) -> (Vec<Record>, Vec<String>) {
        let mut notes = Notes::default();
        let schedule = Schedule::new(folder, BTreeMap::new(), records);
        (schedule.run(script, &mut notes).unwrap(), notes.0)
    }

    #[test]
    fn repeats_are_the_outer_loop_and_a_dead_cell_does_not_stop_the_sweep() {
        let dir = tempfile::tempdir().unwrap();
        let mut folder = folder(dir.path(), testing::plan(2), 2);
        let ends = vec![died(Status::Failed), finished(), finished(), died(Status::Oom)];
        let (records, notes) = run(&mut folder, &[], &mut Script::of(ends));
        let expected = [
            "start 4",
            "cell 64 0",
            "failed",
            "cell 128 0",
            "ok",
            "cell 64 1",
            "ok",
            "cell 128 1",
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
        let (records, _) = run(&mut folder, &[], &mut script);
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
        run(&mut first, &[], &mut Script::of(ends));
        drop(first);
        let (mut again, parsed) = RunFolder::open(dir.path()).unwrap();
        let (records, notes) = run(
            &mut again,
            &parsed.records,
            &mut Script::of(vec![finished(), finished()]),
        );
        assert_eq!(notes, ["start 2", "cell 64 0", "ok", "cell 128 0", "ok", "end"]);
        assert!(records.iter().all(|record| record.attempt == 1));
    }

    #[test]
    fn files_that_an_attempt_left_without_a_record_are_not_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let mut folder = folder(dir.path(), testing::plan(1), 1);
        let left = dir.path().join(RunFolder::attempt(&testing::cell(64).id, 0, 0));
        std::fs::create_dir_all(&left).unwrap();
        let (records, _) = run(&mut folder, &[], &mut Script::of(vec![finished()]));
        assert_eq!(records[0].attempt, 1);
        assert_eq!(std::fs::read_dir(left).unwrap().count(), 0);
    }

    #[test]
    fn what_a_worker_printed_is_kept_beside_its_record() {
        let dir = tempfile::tempdir().unwrap();
        let mut folder = folder(dir.path(), testing::plan(1), 1);
        let (records, _) = run(&mut folder, &[], &mut Script::of(vec![finished()]));
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
        let schedule = Schedule::new(&mut folder, BTreeMap::new(), &[]);
        let mut script = Script::of(vec![Ended::Refused("line 7 of `a.tsv` has no label".into())]);
        let error = schedule.run(&mut script, &mut Notes::default()).unwrap_err();
        assert_eq!(error.to_string(), "line 7 of `a.tsv` has no label");
        drop(folder);
        let (_, parsed) = RunFolder::open(dir.path()).unwrap();
        assert_eq!(parsed.records.len(), 1);
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
