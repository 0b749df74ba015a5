//! How much does sampling slow what it watches, on this machine? Pieces of work of some milliseconds follow each other while a
//! sampler reads now and then: a loop of arithmetic on one core and on all of them, and the steps of a small
//! training. Where a reading began, that piece and the next are compared with the two before them and the two after: what
//! else happens on the machine meets all of them alike. Printed is how much longer a reading makes the work, as a share of the
//! time: the mean, which is what adds up over a run, with a bootstrap interval, and the median of means, which leaves out
//! what falls upon few readings. Beside them stands a placebo: the same comparison, as often, at moments half-way between two
//! readings, at which nothing is read. A reading costs what it shows beyond that.
//!
//! `cargo run --release -p mantissa-worker --example disturbance [READINGS [DEVICE [LIBRARY]]]`: a device by UUID or
//! PCI bus id is sampled too, through the NVML of this machine or of a file (the stand-in of `tests/nvml`). Beside one,
//! readings come a hundred times a second, nine of ten of them brief: the share is then also told as if each
//! were whole, which bounds it.

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

/// Readings whose neighbourhood is looked at.
const READINGS: usize = 3000;

/// Time between two readings, as beside a run on a CPU: each is whole, and pieces without one lie between those with.
const PERIOD: Duration = Duration::from_millis(100);

/// Readings a second.
const RATE: f64 = 10.0;

/// Length of a piece of arithmetic, as long as a step of the training.
const PIECE: Duration = Duration::from_millis(3);

/// Pieces that follow each other further apart than this are not neighbours: an epoch ended between.
const GAP: Duration = Duration::from_millis(1);

/// Readings of which a mean is taken. The median of such means leaves out what falls upon one reading in ten: a neighbour of
/// the machine, but also a reading that takes long now and then. So it never stands alone.
const GROUP: usize = 10;

/// Seed of the resamples behind an interval.
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
    let watch = || Watch::start(arguments.get(1), arguments.get(2));
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let iterations = iterations_of(PIECE);
    for threads in [1, cores] {
        let mut watch = watch();
        while watch.read() < readings {
            watch.since = Instant::now();
            work_on(threads, iterations);
            watch.done();
        }
        watch.tell(&format!("arithmetic, {threads} threads"));
    }
    let cell = training();
    let inputs = Inputs {
        cache: env::temp_dir().join(format!("mantissa-disturbance-{}", std::process::id())),
        ..Inputs::default()
    };
    let mut watch = watch();
    while watch.read() < readings {
        mantissa_workloads::run(&cell, &inputs, None, &mut watch).expect("it trains on the CPU");
    }
    watch.tell("training steps");
    // Left behind, it costs a few kilobytes.
    let _ = fs::remove_dir_all(inputs.cache);
    ExitCode::SUCCESS
}

/// Work and the readings beside it.
struct Watch {
    sampler: Sampler,
    /// When readings began.
    readings: Arc<Mutex<Vec<Instant>>>,
    /// Since when the piece runs that is under way.
    since: Instant,
    pieces: Vec<Piece>,
    gpu: bool,
}

#[derive(Clone, Copy)]
struct Piece {
    start: Instant,
    end: Instant,
}

impl Watch {
    fn start(device: Option<&String>, library: Option<&String>) -> Self {
        let readings = Arc::default();
        let mut sources: Vec<Box<dyn Source>> = vec![
            Box::new(Moments(Arc::clone(&readings))),
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
            since: Instant::now(),
            pieces: vec![],
            gpu: device.is_some(),
        }
    }

    /// Readings so far.
    fn read(&self) -> usize {
        self.readings.lock().expect("nothing panics that holds it").len()
    }

    /// A piece of work has come to its end, and the next one begins.
    fn done(&mut self) {
        let end = Instant::now();
        self.pieces.push(Piece {
            start: self.since,
            end,
        });
        self.since = end;
    }

    fn tell(self, what: &str) {
        let window = 0.0..self.sampler.seconds();
        let trace = self.sampler.stop();
        let readings = self.readings.lock().expect("nothing panics that holds it");
        let mut read = excesses(&self.pieces, &readings, &[]);
        let mut placebo = excesses(&self.pieces, &between(&readings), &readings);
        // As many of each: then one interval can be held against the other.
        let count = read.len().min(placebo.len());
        read.truncate(count);
        placebo.truncate(count);
        if count < GROUP {
            println!("{what}: fewer than {GROUP} readings fell among pieces that follow each other");
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

impl Observer for Watch {
    fn progress(&mut self, progress: Progress) {
        if progress.phase == Phase::Measure && progress.done > 0 {
            self.done();
        } else {
            self.since = Instant::now();
        }
    }
}

/// By how many seconds the work around each of some moments took longer: the piece in which it lies and the next, which inherits
/// what a reading left in the caches, against the mean of the two before and the two after. No other of the moments, and no
/// reading of `others`, lies in any of the six.
fn excesses(pieces: &[Piece], moments: &[Instant], others: &[Instant]) -> Vec<f64> {
    let meets = |piece: &Piece, moments: &[Instant]| {
        let before = |moment: Instant| moments.partition_point(|at| *at < moment);
        before(piece.start) < before(piece.end)
    };
    let around = pieces.windows(6).filter(|six| {
        let together = six.windows(2).all(|two| two[1].start - two[0].end < GAP);
        together
            && six
                .iter()
                .map(|piece| meets(piece, moments))
                .eq([false, false, true, false, false, false])
            && !six.iter().any(|piece| meets(piece, others))
    });
    let seconds = |piece: &Piece| (piece.end - piece.start).as_secs_f64();
    let excess = |six: &[Piece]| {
        let sum = |pieces: &[Piece]| pieces.iter().map(seconds).sum::<f64>();
        sum(&six[2..4]) - (sum(&six[..2]) + sum(&six[4..])) / 2.0
    };
    around.map(excess).collect()
}

/// The moments half-way between two readings.
fn between(readings: &[Instant]) -> Vec<Instant> {
    let half_way = |two: &[Instant]| two[0] + (two[1] - two[0]) / 2;
    readings.windows(2).map(half_way).collect()
}

/// The mean of [`GROUP`] or more excesses and the median of their means, as shares of the time if there are so many a second.
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

/// A source that knows only when it is read. It is the first, so that a reading begins with it.
struct Moments(Arc<Mutex<Vec<Instant>>>);

impl Source for Moments {
    fn read(&mut self, _: &mut Reading) {
        self.0
            .lock()
            .expect("nothing panics that holds it")
            .push(Instant::now());
    }

    fn missing(&self) -> Vec<String> {
        vec![]
    }
}

/// A training of some seconds.
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
    let suite = parse("disturbance", "disturbance.toml", TRAINING).expect("the suite above is one");
    let options = PlanOptions {
        profile: Profile::Smoke,
        backend: Backend::Flex,
        overrides: vec![],
        data: vec![],
        weights: StartingWeights::None,
        models: Default::default(),
        filter: None,
    };
    let plan = plan(&[suite], &options).expect("it has a plan");
    plan.cells.into_iter().next().expect("of one cell").cell
}

/// How many iterations take about this long on one core.
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

/// Returns when every thread has done its iterations.
fn work_on(threads: usize, iterations: u64) {
    thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(|| work(iterations)))));
}

/// A chain of operations each of which waits for the one before: Marsaglia's 64-bit xorshift.
fn work(iterations: u64) {
    let mut state = black_box(1_u64);
    for _ in 0..iterations {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
    }
    black_box(state);
}
