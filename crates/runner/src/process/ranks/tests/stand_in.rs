//! Processes that replace `mpirun` and the ranks.

use std::{
    fs::{self, Permissions},
    io::Write,
    os::unix::{fs::PermissionsExt, net::UnixStream, process::CommandExt},
    path::{Path, PathBuf},
    process::Command,
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use mantissa_core::{Axis, AxisValue, Backend, Phase, Setting, Status, TaskKind};
use rustix::process::{Signal, getpid, kill_process, set_parent_process_death_signal, setpgid};
use tempfile::TempDir;

use super::super::{
    super::{Workers, child::Worker},
    Gpus, Launched, RankStates, Socket,
    mpirun::Mpirun,
    result,
};
use crate::{
    Advance, CellResult, Finished, Job, MemorySoFar, Message, ProgressUpdate, Request, Stop, WorkerExit,
    connect_rank, testing,
};

pub(super) const PHASES: &[Phase] = &[Phase::Prepare, Phase::WarmUp, Phase::Measure, Phase::Evaluate];

/// Version of the library that the tests pretend to be linked with.
const OPEN_MPI: &str = "Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4";

/// Environment variables of a process that replaces a rank.
const BEHAVIOUR: &str = "MANTISSA_TEST_BEHAVIOUR";
const SOCKET: &str = "MANTISSA_TEST_SOCKET";
const WITH_PARENT: &str = "MANTISSA_TEST_WITH_PARENT";

/// Steps of each phase of a replaced rank.
const STEPS: u64 = 3;

/// Time limit for a killed process to disappear.
const EXIT_LIMIT: Duration = Duration::from_secs(20);

/// Launch of ranks with given behaviours.
///
/// A behaviour is an action and the phase after whose last step it happens: `wait`, `kill`, `stop`, `exit`, `panic`, `exhaust`, `fail` or
/// `refuse`. Other behaviours are `ok`, `ok-and-hang`, `silent` (does not connect), `invalid` (does not send a hello), and `as-N` (connects as
/// rank N and waits).
pub(super) struct Launch {
    folder: TempDir,
    request: Request,
    command: Vec<String>,
    library: Option<String>,
    gpus: Gpus,
    limit: f64,
    connect_limit: Option<f64>,
    stop: Stop,
}

impl Launch {
    pub(super) fn of(behaviours: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("processes")).unwrap();
        let mut cell = testing::cell(64);
        cell.setting = Setting::defaults(TaskKind::Train, Backend::Flex);
        let devices = AxisValue::Integer(behaviours.len() as u64);
        cell.setting.set(Axis::Devices, devices).unwrap();
        let request = Request {
            cell,
            inputs: Default::default(),
            peer: vec![],
            samples: PathBuf::new(),
            save_weights: false,
            gpu: None,
            own_gpu: None,
            idle_watts: Err("no GPU".to_owned()),
            job: Job::Measure,
        };
        let mut cases = String::new();
        for (rank, behaviour) in behaviours.iter().enumerate() {
            let (behaviour, claimed) = match behaviour.strip_prefix("as-") {
                Some(claimed) => ("wait prepare", claimed.to_owned()),
                None => (*behaviour, rank.to_string()),
            };
            cases += &format!("{rank}) {BEHAVIOUR}='{behaviour}'; OMPI_COMM_WORLD_RANK={claimed};;\n");
        }
        let test = concat!(module_path!(), "::replaced_rank");
        let test = test.split_once("::").unwrap().1;
        let program = format!(
            "#!/bin/sh\necho > '{folder}/processes/'$$\ncase $OMPI_COMM_WORLD_RANK in\n{cases}esac\nexport {BEHAVIOUR} \
             OMPI_COMM_WORLD_RANK {SOCKET}=\"$3\"\n! [ -e '{folder}/with-parent' ] || export {WITH_PARENT}=1\nexec '{exe}' {test} --exact --nocapture\n",
            folder = folder.path().display(),
            exe = std::env::current_exe().unwrap().display(),
        );
        let path = folder.path().join("program");
        fs::write(&path, program).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o700)).unwrap();
        let command = vec![
            "sh".to_owned(),
            folder.path().join("mpirun").display().to_string(),
        ];
        let launch = Self {
            folder,
            request,
            command,
            library: Some(OPEN_MPI.to_owned()),
            gpus: Gpus::default(),
            limit: 120.0,
            connect_limit: None,
            stop: Stop::default(),
        };
        launch.mpirun("start; wait")
    }

    /// Replaces the script of `mpirun`, in which `start` starts the ranks.
    pub(super) fn mpirun(self, script: &str) -> Self {
        let script = format!(
            r#"case "$*" in *--version) echo 'mpirun (Open MPI) 4.1.4'; exit;; esac
echo > '{}/processes/'$$
count=$2
shift 4
start() {{
    rank=0
    while [ $rank -lt $count ]; do
        OMPI_COMM_WORLD_RANK=$rank "$@" &
        rank=$((rank + 1))
    done
}}
{}
"#,
            self.folder.path().display(),
            script.replace("start", "start \"$@\""),
        );
        fs::write(self.folder.path().join("mpirun"), script).unwrap();
        self
    }

    /// Lets the ranks end with `mpirun`. By default they survive it, so that only the runner can end them.
    pub(super) fn with_parent(self) -> Self {
        fs::write(self.folder.path().join("with-parent"), "").unwrap();
        self
    }

    pub(super) fn command(mut self, command: &[&str]) -> Self {
        self.command = command.iter().map(|word| (*word).to_owned()).collect();
        self
    }

    pub(super) fn library(mut self, library: Option<&str>) -> Self {
        self.library = library.map(str::to_owned);
        self
    }

    pub(super) fn backend(mut self, backend: Backend) -> Self {
        let ranks = self.request.cell.setting.devices();
        self.request.cell.setting = Setting::defaults(TaskKind::Train, backend);
        self.request
            .cell
            .setting
            .set(Axis::Devices, AxisValue::Integer(ranks.into()))
            .unwrap();
        self
    }

    pub(super) fn gpus(mut self, gpus: Gpus) -> Self {
        self.gpus = gpus;
        self
    }

    pub(super) fn limit(mut self, seconds: f64) -> Self {
        self.limit = seconds;
        self
    }

    /// Replaces the time limit for all ranks to connect.
    pub(super) fn connect_limit(mut self, seconds: f64) -> Self {
        self.connect_limit = Some(seconds);
        self
    }

    pub(super) fn stop(mut self, stop: &Stop) -> Self {
        self.stop = stop.clone();
        self
    }

    /// Supervises a process that waits, with a socket that cannot accept ranks.
    pub(super) fn end_without_socket(self) -> CellResult {
        let workers = Workers::of(self.folder.path().join("program"), self.stop.clone());
        let mpirun = Mpirun::with_library(&self.command, self.library.clone());
        let requests = vec![self.request.clone(); 2];
        let mut socket = Socket::open(&requests).unwrap();
        socket.stop_listening();
        let mut waiting = Command::new("sleep");
        waiting.arg("600").process_group(0);
        let mut launched = Launched {
            mpirun: Worker(waiting.spawn().unwrap()),
            socket,
            states: RankStates::new(2),
            connect_limit: mpirun.connect_limit,
        };
        let limit = Duration::from_secs_f64(self.limit);
        let ends = workers
            .supervise_ranks(&mut launched, limit, None, &mut |_| {})
            .unwrap();
        result(&mpirun, &mut launched.states, &ends).unwrap()
    }

    pub(super) fn end(self) -> CellResult {
        self.run(&mut |_| {})
    }

    /// Runs a peer instead of the ranks. Returns the GPUs that it may use.
    pub(super) fn gpus_of_peer(mut self) -> String {
        let [program, visible] = ["program", "visible"].map(|name| self.folder.path().join(name));
        let script = format!(
            "#!/bin/sh\nprintf %s \"$CUDA_VISIBLE_DEVICES\" > '{}'\necho '{{\"refused\":\"no ranks\"}}'\n",
            visible.display()
        );
        fs::write(&program, script).unwrap();
        self.request.peer = vec!["peer".to_owned()];
        self.request.gpu = Some("GPU-0".to_owned());
        let workers = Workers::of(program, self.stop.clone()).with_gpus(self.gpus.clone());
        let limit = Duration::from_secs_f64(self.limit);
        let (result, _) = workers.run(&self.request, limit, &mut |_| {}).unwrap();
        assert!(matches!(&result, CellResult::Refused(_)), "{result:?}");
        fs::read_to_string(visible).unwrap()
    }

    /// Runs the ranks, and checks that no process is left and that the time limit was observed.
    pub(super) fn run(self, on_progress: &mut dyn FnMut(Option<ProgressUpdate>)) -> CellResult {
        let workers = Workers::of(self.folder.path().join("program"), self.stop.clone());
        let workers = workers.with_gpus(self.gpus.clone());
        let mut mpirun = Mpirun::with_library(&self.command, self.library.clone());
        if let Some(seconds) = self.connect_limit {
            mpirun.connect_limit = Duration::from_secs_f64(seconds);
        }
        let limit = Duration::from_secs_f64(self.limit);
        let start = Instant::now();
        let (result, output) = workers
            .run_with(&mpirun, &self.request, limit, on_progress)
            .unwrap();
        let elapsed = start.elapsed();
        println!("{}", String::from_utf8_lossy(&output));
        assert!(elapsed < limit + EXIT_LIMIT, "the ranks ended after {elapsed:?}");
        let processes = fs::read_dir(self.folder.path().join("processes")).unwrap();
        for process in processes.map(|entry| entry.unwrap().file_name()) {
            assert_ends(&Path::new("/proc").join(&process).join("stat"), &self.folder);
        }
        result
    }
}

/// Waits until a process of a launch has ended.
fn assert_ends(stat: &Path, folder: &TempDir) {
    let start = Instant::now();
    // A zombie waits for its parent, which may be the first process of a container and not wait for its children.
    let runs = || {
        let state = fs::read_to_string(stat).ok()?;
        let state = state.rsplit_once(") ")?.1.chars().next()?;
        (!"ZX".contains(state)).then_some(state)
    };
    while let Some(state) = runs() {
        assert!(
            start.elapsed() < EXIT_LIMIT,
            "{} of {folder:?} is left in the state {state}",
            stat.display()
        );
        thread::sleep(Duration::from_millis(10));
    }
}

/// Behaves as a rank if a script of [`Launch`] starts this test. Otherwise does nothing.
#[test]
fn replaced_rank() {
    let Ok(behaviour) = std::env::var(BEHAVIOUR) else {
        return;
    };
    let socket = PathBuf::from(std::env::var_os(SOCKET).unwrap());
    if behaviour == "silent" {
        hang();
    }
    if behaviour == "invalid" {
        let mut stream = UnixStream::connect(&socket).unwrap();
        stream.write_all(b"GET / HTTP/1.1\n").unwrap();
        hang();
    }
    // Open MPI starts each rank in a process group of its own.
    let _ = setpgid(None, None);
    let rank = std::env::var("OMPI_COMM_WORLD_RANK").unwrap();
    let (request, stream) = connect_rank(&socket).unwrap();
    assert!(request.cell.setting.devices() > 1);
    if request.cell.setting.backend() == Backend::Cuda {
        assert_eq!(request.own_gpu, Some(format!("GPU-{rank}")));
    }
    if std::env::var_os(WITH_PARENT).is_none() {
        set_parent_process_death_signal(None).unwrap();
    }
    let connection = Connection::start(stream);
    let (action, phase) = behaviour.split_once(' ').unwrap_or((&behaviour, ""));
    for current in PHASES {
        for step in 1..=STEPS {
            connection.report(*current, step);
        }
        if current.name() == phase {
            connection.act(action);
        }
    }
    let reason = Some(format!("result of rank {rank}"));
    connection.send(&finished(Status::Ok, reason));
    if action == "ok-and-hang" {
        hang();
    }
    std::process::exit(0);
}

fn finished(status: Status, reason: Option<String>) -> Message {
    Message::Finished(Box::new(Finished {
        reason,
        ..Finished::without_result(status, "")
    }))
}

fn hang() -> ! {
    loop {
        thread::sleep(Duration::from_secs(600));
    }
}

/// Connection of a rank, with a heartbeat.
struct Connection {
    stream: Mutex<Box<dyn Write + Send>>,
    current: Mutex<(Phase, u64)>,
}

impl Connection {
    fn start(stream: Box<dyn Write + Send>) -> Arc<Self> {
        let connection = Arc::new(Self {
            stream: Mutex::new(stream),
            current: Mutex::new((Phase::Prepare, 0)),
        });
        let heartbeat = Arc::clone(&connection);
        thread::spawn(move || {
            loop {
                thread::sleep(Duration::from_millis(100));
                let (phase, step) = *heartbeat.current.lock().unwrap();
                heartbeat.report(phase, step);
            }
        });
        connection
    }

    fn send(&self, message: &Message) {
        let mut line = serde_json::to_vec(message).unwrap();
        line.push(b'\n');
        if self.stream.lock().unwrap().write_all(&line).is_err() {
            std::process::exit(WorkerExit::Orphaned as i32);
        }
    }

    fn report(&self, phase: Phase, step: u64) {
        *self.current.lock().unwrap() = (phase, step);
        self.send(&Message::Progress(Advance {
            phase,
            done: step,
            total: STEPS,
            memory: MemorySoFar::default(),
        }));
    }

    fn act(&self, action: &str) {
        let exit = |code: WorkerExit| {
            eprintln!("last words of a rank");
            std::process::exit(code as i32)
        };
        match action {
            "wait" => hang(),
            "kill" => kill_process(getpid(), Signal::KILL).unwrap(),
            "stop" => kill_process(getpid(), Signal::STOP).unwrap(),
            "exit" => exit(WorkerExit::Done),
            "panic" => exit(WorkerExit::Panicked),
            "exhaust" => exit(WorkerExit::OutOfMemory),
            "fail" => self.send(&finished(Status::Failed, Some("no more tensors".to_owned()))),
            "refuse" => self.send(&Message::Refused("no such file".to_owned())),
            _ => panic!("unknown action `{action}`"),
        }
        hang();
    }
}
