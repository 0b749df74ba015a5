//! Measures how much telemetry sampling slows down the work on this machine.
//!
//! Pieces of work of a few milliseconds run back to back while a sampler takes readings. Three kinds of work are measured in turn: an arithmetic
//! loop on one core, the same loop on all cores, and the steps of a small training. For each reading, the time of the piece in which it begins and
//! of the next piece is compared with the time of the two pieces before and the two after. Other load on the machine affects all six pieces alike.
//!
//! The program prints two estimates of the slowdown, as shares of the time. The mean, with a bootstrap interval, is the cost over a whole run. The
//! median of group means ignores outliers. The program also prints both estimates for a placebo: as many comparisons at moments half-way between
//! two readings, at which nothing is read. The cost of a reading is the difference from the placebo.
//!
//! `cargo run --release -p mantissa-worker --example disturbance [READINGS [DEVICE [LIBRARY]]]`: with a device (UUID or PCI bus id), the GPU is
//! sampled as well, through this machine's NVML or a library file (the fake NVML of `tests/nvml`). A benchmark run on a GPU takes a hundred
//! readings per second. Nine in ten are brief: they leave out some quantities. With a device, the program therefore also prints an upper bound of
//! the slowdown in such a run: the share for a hundred full readings per second.

use std::{
    env, fs,
    hint::black_box,
    path::Path,
    process::ExitCode,
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use mantissa_analysis::{Interval, Sample, bca_interval, median};
use mantissa_core::{Backend, Cell, Phase, Profile};
use mantissa_inputs::Inputs;
use mantissa_suite::{PlanOptions, StartingWeights, parse, plan};
use mantissa_telemetry::{GpuSource, HostMemory, Reading, Sampler, Source};
use mantissa_workloads::{Observer, Progress};

/// Default number of readings whose neighbouring pieces are compared.
const READINGS: usize = 3000;

/// Time between two readings, as in a benchmark run on a CPU. It is long enough for every reading to be full, and for pieces without a reading
/// between two readings.
const PERIOD: Duration = Duration::from_millis(100);

/// Readings per second.
const RATE: f64 = 10.0;

/// Length of a piece of arithmetic, about a step of the training.
const PIECE: Duration = Duration::from_millis(3);

/// Maximum gap between neighbouring pieces. A longer gap means that an epoch ended in between.
const MAX_GAP: Duration = Duration::from_millis(1);

/// Number of readings per group mean. The median of group means ignores rare events, such as other load on the machine, but also slow
/// readings. It is therefore always printed together with the mean.
const GROUP: usize = 10;

/// Seed of the bootstrap resamples.
const SEED: u64 = 1;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let readings = match arguments.first().map(|text| text.parse()) {
        None => READINGS,
        Some(Ok(readings)) if readings >= GROUP => readings,
        Some(_) => {
            eprintln!("usage: disturbance [READINGS [DEVICE [LIBRARY]]], at least {GROUP} readings");
            return ExitCode::from(2);
        }
    };
    let start = || PieceObserver::start(arguments.get(1), arguments.get(2));
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let iterations = iterations_of(PIECE);
    for threads in [1, cores] {
        let mut observer = start();
        while observer.reading_count() < readings {
            observer.piece_start = Instant::now();
            work_on(threads, iterations);
            observer.end_piece();
        }
        observer.print(&format!("arithmetic, {threads} threads"));
    }
    let cell = training();
    let inputs = Inputs {
        cache: env::temp_dir().join(format!("mantissa-disturbance-{}", std::process::id())),
        ..Inputs::default()
    };
    let mut observer = start();
    while observer.reading_count() < readings {
        mantissa_workloads::run(
            &cell,
            &inputs,
            None,
            &mut mantissa_collectives::Single,
            &mut observer,
        )
        .expect("the training runs on the CPU");
    }
    observer.print("training steps");
    // Ignore an error, because a leftover folder has only a few kilobytes.
    let _ = fs::remove_dir_all(inputs.cache);
    ExitCode::SUCCESS
}

/// Pieces of work and the readings taken meanwhile.
struct PieceObserver {
    sampler: Sampler,
    /// Start times of the readings.
    readings: Arc<Mutex<Vec<Instant>>>,
    /// Start time of the current piece.
    piece_start: Instant,
    pieces: Vec<Piece>,
    gpu: bool,
}

#[derive(Clone, Copy)]
struct Piece {
    start: Instant,
    end: Instant,
}

impl PieceObserver {
    fn start(device: Option<&String>, library: Option<&String>) -> Self {
        let readings = Arc::default();
        let mut sources: Vec<Box<dyn Source>> = vec![
            Box::new(ReadingTimes(Arc::clone(&readings))),
            Box::new(HostMemory::default()),
        ];
        if let Some(device) = device {
            sources.push(Box::new(match library {
                Some(library) => GpuSource::open_with(Path::new(library), device),
                None => GpuSource::open(device),
            }));
        }
        Self {
            sampler: Sampler::start_every(PERIOD, sources),
            readings,
            piece_start: Instant::now(),
            pieces: vec![],
            gpu: device.is_some(),
        }
    }

    /// Returns the number of readings so far.
    fn reading_count(&self) -> usize {
        self.readings
            .lock()
            .expect("no thread panics with the lock")
            .len()
    }

    /// Records the end of a piece and starts the next one.
    fn end_piece(&mut self) {
        let end = Instant::now();
        self.pieces.push(Piece {
            start: self.piece_start,
            end,
        });
        self.piece_start = end;
    }

    /// Stops sampling and prints the slowdown of the work `what`.
    fn print(self, what: &str) {
        let window = 0.0..self.sampler.seconds();
        let trace = self.sampler.stop();
        let readings = self.readings.lock().expect("no thread panics with the lock");
        let mut read = excesses(&self.pieces, &readings, &[]);
        let mut placebo = excesses(&self.pieces, &midpoints(&readings), &readings);
        // Use equally many readings and placebos, so their intervals are comparable.
        let count = read.len().min(placebo.len());
        read.truncate(count);
        placebo.truncate(count);
        if count < GROUP {
            println!("{what}: fewer than {GROUP} readings fell in consecutive pieces");
            return;
        }
        println!("{what}, {count} readings, at {RATE:.0} Hz slower by");
        println!("  reading: {}", shares(&read, RATE));
        println!("  placebo: {}", shares(&placebo, RATE));
        if self.gpu {
            let rate = 1.0 / mantissa_telemetry::PERIOD.as_secs_f64();
            println!("  reading, at most, at {rate:.0} Hz: {}", shares(&read, rate));
        }
        println!("  {}", trace.rate(window));
        trace
            .missing()
            .iter()
            .for_each(|reason| println!("  missing: {reason}"));
    }
}

impl Observer for PieceObserver {
    fn progress(&mut self, progress: Progress) {
        if progress.phase == Phase::Measure && progress.done > 0 {
            self.end_piece();
        } else {
            self.piece_start = Instant::now();
        }
    }
}

/// Returns the extra time of the work around each moment, in seconds. A reading can slow down two pieces: the one that contains the moment and, by
/// evicted caches, the next one. The extra time is the total time of these two minus half the total time of the other four: the two pieces
/// before and the two after. Skips a moment if the six pieces are not consecutive, or if they contain another moment or one of `others`.
fn excesses(pieces: &[Piece], moments: &[Instant], others: &[Instant]) -> Vec<f64> {
    let contains_any = |piece: &Piece, moments: &[Instant]| {
        let before = |moment: Instant| moments.partition_point(|at| *at < moment);
        before(piece.start) < before(piece.end)
    };
    let around = pieces.windows(6).filter(|six| {
        let consecutive = six.windows(2).all(|two| two[1].start - two[0].end < MAX_GAP);
        consecutive
            && six
                .iter()
                .map(|piece| contains_any(piece, moments))
                .eq([false, false, true, false, false, false])
            && !six.iter().any(|piece| contains_any(piece, others))
    });
    let seconds = |piece: &Piece| (piece.end - piece.start).as_secs_f64();
    let excess = |six: &[Piece]| {
        let sum = |pieces: &[Piece]| pieces.iter().map(seconds).sum::<f64>();
        sum(&six[2..4]) - (sum(&six[..2]) + sum(&six[4..])) / 2.0
    };
    around.map(excess).collect()
}

/// Returns the moments half-way between two readings.
fn midpoints(readings: &[Instant]) -> Vec<Instant> {
    let half_way = |two: &[Instant]| two[0] + (two[1] - two[0]) / 2;
    readings.windows(2).map(half_way).collect()
}

/// Formats the mean of the extra times in `excesses` (at least [`GROUP`]) and the median of their group means, as shares of the time at `rate`
/// readings per second.
fn shares(excesses: &[f64], rate: f64) -> String {
    let sample = Sample::new(excesses.iter().copied()).expect("times are finite");
    let interval = bca_interval(&sample, SEED, |values| mean(values));
    let groups = median(excesses.chunks_exact(GROUP).map(mean)).expect("there is a group");
    format!(
        "mean {}, median of means of {GROUP} {}",
        share(mean(excesses), interval, rate),
        share(groups.value, groups.interval, rate)
    )
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn share(seconds: f64, interval: Option<Interval>, rate: f64) -> String {
    let percent = |seconds: f64| 100.0 * seconds * rate;
    let interval = interval.map_or_else(String::new, |interval| {
        let (low, high) = (percent(interval.low), percent(interval.high));
        format!(" (95 % interval {low:+.3} to {high:+.3} %)")
    });
    format!("{:+.3} %{interval}", percent(seconds))
}

/// Source that records when it is read. It must be the first source of the sampler, so that a reading begins with it.
struct ReadingTimes(Arc<Mutex<Vec<Instant>>>);

impl Source for ReadingTimes {
    fn read(&mut self, _: &mut Reading) {
        self.0
            .lock()
            .expect("no thread panics with the lock")
            .push(Instant::now());
    }

    fn missing(&self) -> Vec<String> {
        vec![]
    }
}

/// Training of some seconds.
const TRAINING: &str = r#"
title = "Disturbance"
question = "Does a sampler slow a training step?"

[axes]
batch = [2]
sequence = [32]

[[workload]]
name = "encoder"
task = "train"
model = "distilbert"
dataset = "synthetic-reviews"
epochs = 40
learning_rate = 1e-3

[workload.model_size]
n_layers = 2
dim = 64
n_heads = 4
hidden_dim = 256
max_position_embeddings = 32

[workload.split]
train = 200
validation = 8
test = 8
"#;

fn training() -> Cell {
    let suite = parse("disturbance", "disturbance.toml", TRAINING).expect("the suite is valid");
    let options = PlanOptions {
        profile: Profile::Smoke,
        backend: Backend::Flex,
        overrides: vec![],
        suite_inputs: false,
        data: vec![],
        weights: StartingWeights::None,
        models: Default::default(),
        filter: None,
    };
    let plan = plan(&[suite], &options).expect("the suite has a plan");
    plan.cells.into_iter().next().expect("the plan has a cell").cell
}

/// Returns the number of iterations that take about `length` on one core.
fn iterations_of(length: Duration) -> u64 {
    const TRIAL: u64 = 50_000_000;
    let trial = || {
        let start = Instant::now();
        work(TRIAL);
        start.elapsed().as_secs_f64()
    };
    let seconds = (0..3).map(|_| trial()).fold(f64::INFINITY, f64::min);
    (TRIAL as f64 * length.as_secs_f64() / seconds) as u64
}

/// Runs the iterations on each thread and waits for all threads.
fn work_on(threads: usize, iterations: u64) {
    thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(|| work(iterations)))));
}

/// Runs a chain of dependent operations: Marsaglia's 64-bit xorshift.
fn work(iterations: u64) {
    let mut state = black_box(1_u64);
    for _ in 0..iterations {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
    }
    black_box(state);
}
