//! Plans, records and a scripted executor for the tests of this crate.

use std::{collections::BTreeMap, path::Path, time::Duration};

use mantissa_core::{
    Axis, AxisValue, Backend, Cell, Environment, Executed, Kernel, KernelTask, MatmulShape, Plan,
    PlannedCell, Profile, Record, Requested, SCHEMA_VERSION, Setting, Status, SuiteInfo, Task, Workload,
};
use mantissa_inputs::Inputs;
use mantissa_run_folder::RunReader;

use crate::{
    CellResult, Executor, Finished, Policy, Progress, ProgressEvent, Request, RunError, RunSettings, Signal,
    Stop, fingerprint, progress::ProgressUpdate,
};

/// Returns a plan with kernel cells of sizes 64, 128, …, which are not skipped.
pub(crate) fn plan(cells: u64) -> Plan {
    let suite = SuiteInfo {
        name: "tiny".into(),
        title: "t".into(),
        question: "q".into(),
        analysis: "a".into(),
        references: vec![],
        axes: vec![Axis::Size],
        timeout_seconds: 9.0,
        expectations: vec![],
        claims: vec![],
    };
    let cell = |index| PlannedCell {
        cell: cell(64 * (index + 1)),
        skip: None,
    };
    Plan {
        profile: Profile::Smoke,
        suites: vec![suite],
        cells: (0..cells).map(cell).collect(),
    }
}

pub(crate) fn cell(size: u64) -> Cell {
    let task = KernelTask {
        kernel: Kernel::Matmul(MatmulShape::SQUARE),
        min_samples: 3,
        max_samples: 9,
        max_seconds: 1.0,
        max_noise: 0.01,
        cache: mantissa_core::CacheState::Cold,
    };
    let workload = Workload {
        name: "matmul".into(),
        task: Task::Kernel(task),
    };
    let mut setting = Setting::of(&workload, Backend::Flex);
    setting.set(Axis::Size, AxisValue::Integer(size)).unwrap();
    Cell::new("tiny", workload, setting, 123)
}

pub(crate) fn settings() -> RunSettings {
    RunSettings {
        backend: Backend::Flex,
        inputs: Inputs::default(),
        suite_inputs: BTreeMap::new(),
        save_weights: false,
        repeats: 1,
        suite_repeats: BTreeMap::new(),
        suites: BTreeMap::new(),
        peer: vec![],
        mpirun: vec![],
        directory: None,
        policy: Policy::default(),
    }
}

pub(crate) fn environment() -> Environment {
    Environment {
        schema: SCHEMA_VERSION,
        started: "2026-01-01T00:00:00Z".into(),
        command: vec!["mantissa".into()],
        backend: Backend::Flex,
        fingerprint: fingerprint(None),
        missing: vec![],
    }
}

/// Returns a record of the first cell of [`plan`].
pub(crate) fn record(status: Status, attempt: u32) -> Record {
    let cell = cell(64);
    Record {
        schema: SCHEMA_VERSION,
        requested: Requested::of(&cell.setting),
        cell,
        repeat: 0,
        attempt,
        status,
        reason: None,
        executed: Executed::unverified(),
        metrics: BTreeMap::new(),
        events: vec![],
        data: None,
        inputs: None,
        samples: None,
        fingerprint: fingerprint(None),
        command: String::new(),
    }
}

/// Returns the records of a run folder.
pub(crate) fn records(folder: &Path) -> Vec<Record> {
    let records = RunReader::new(folder).records().unwrap();
    records.collect::<Result<_, _>>().unwrap()
}

/// Executor that returns scripted results in order and stores the requests.
pub(crate) struct Script {
    /// Results in reverse order.
    pub(crate) results: Vec<CellResult>,
    pub(crate) requests: Vec<Request>,
    /// Index of the cell during which a stop is requested.
    pub(crate) stop_during: Option<(usize, Stop)>,
}

impl Script {
    pub(crate) fn of(mut results: Vec<CellResult>) -> Self {
        results.reverse();
        Self {
            results,
            requests: vec![],
            stop_during: None,
        }
    }
}

pub(crate) fn finished() -> CellResult {
    CellResult::Finished(Box::new(Finished {
        reason: None,
        ..Finished::without_result(Status::Ok, "")
    }))
}

pub(crate) fn died(status: Status) -> CellResult {
    CellResult::Died {
        status,
        reason: "scripted".into(),
        memory: crate::MemorySoFar::default(),
        events: vec![],
    }
}

impl Executor for Script {
    fn execute(
        &mut self,
        request: &Request,
        _timeout: Duration,
        _on_progress: &mut dyn FnMut(Option<ProgressUpdate>),
    ) -> Result<(CellResult, Vec<u8>), RunError> {
        if let Some((_, stop)) = self
            .stop_during
            .as_ref()
            .filter(|(cell, _)| *cell == self.requests.len())
        {
            stop.request(Signal::Interrupt);
        }
        self.requests.push(request.clone());
        Ok((
            self.results
                .pop()
                .expect("the script has a result for every cell"),
            b"noise\n".to_vec(),
        ))
    }
}

/// Progress that stores a short text for each event.
#[derive(Default)]
pub(crate) struct EventLog(pub(crate) Vec<String>);

impl Progress for EventLog {
    fn on_event(&mut self, event: ProgressEvent<'_>) {
        self.0.push(match event {
            ProgressEvent::Started { total, .. } => format!("start {total}"),
            ProgressEvent::Preparing { what, done, .. } => format!("{what} {done}"),
            ProgressEvent::Cell { cell, repeat, .. } => format!("cell {} {repeat}", cell.setting.size()),
            ProgressEvent::Step(update) => format!("step {}", update.done),
            ProgressEvent::Waiting(what) => format!("waiting: {what}"),
            ProgressEvent::Stopping => "stopping".into(),
            ProgressEvent::Recorded(record) => record.status.to_string(),
            ProgressEvent::Ended => "end".into(),
        });
    }
}
