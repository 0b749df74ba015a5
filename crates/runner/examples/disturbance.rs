//! How much does sampling slow what it watches, on this machine? Small pieces of work are timed one after another, some
//! a moment with and some a moment without a sampler, so close together that what else happens on the machine meets both
//! alike: a loop of arithmetic on one core and on all of them, and the steps of a small training. Printed are the median
//! of the ratios of neighbouring moments with its 95 % interval, and the time that the sampler's thread spent on a core.
//!
//! `cargo run --release -p mantissa-runner --example disturbance [PAIRS] [DEVICE [LIBRARY]]`: a device by UUID or
//! PCI bus id is sampled too, through the NVML of this machine or of a file (the stand-in of `tests/nvml`).

use std::{
    env, fs,
    hint::black_box,
    path::Path,
    process::ExitCode,
    thread,
    time::{Duration, Instant},
};

use mantissa_analysis::{Sample, median};
use mantissa_core::{Backend, Cell, DatasetKind, Profile};
use mantissa_suite::{PlanOptions, parse, plan};
use mantissa_telemetry::{GpuSource, HostMemory, Rate, Sampler, Source};
use mantissa_workloads::{Inputs, Observer, Phase, Progress};

/// Moments with a sampler that are compared with a neighbour without one.
const PAIRS: usize = 500;

/// Length of a moment: long enough for some twenty readings, and for the start and the end of the sampler, which are
/// not part of it, to be rare.
const MOMENT: f64 = 0.2;

/// Length of a piece of arithmetic, as long as a step of the training.
const PIECE: Duration = Duration::from_millis(10);

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let pairs = match arguments.first().map(|text| text.parse()) {
        None => PAIRS,
        Some(Ok(pairs)) if pairs > 0 => pairs,
        Some(_) => {
            eprintln!("usage: disturbance [PAIRS] [DEVICE [LIBRARY]]");
            return ExitCode::from(2);
        }
    };
    let sources = || sources(arguments.get(1), arguments.get(2));
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let iterations = iterations_of(PIECE);
    for threads in [1, cores] {
        let mut pieces = Pieces::new(&sources);
        while pieces.ratios.len() < pairs {
            work_on(threads, iterations);
            pieces.done();
        }
        pieces.tell(&format!("arithmetic, {threads} threads"));
    }
    let cell = training();
    let inputs = Inputs {
        cache: env::temp_dir().join(format!("mantissa-disturbance-{}", std::process::id())),
        ..Inputs::default()
    };
    let mut pieces = Pieces::new(&sources);
    while pieces.ratios.len() < pairs {
        mantissa_workloads::run(&cell, &inputs, &mut pieces).expect("it trains on the CPU");
    }
    pieces.tell("training steps");
    // Left behind, it costs a few kilobytes.
    let _ = fs::remove_dir_all(inputs.cache);
    ExitCode::SUCCESS
}

/// Pieces of work, in moments with and without a sampler.
struct Pieces<'a> {
    sources: &'a dyn Fn() -> Vec<Box<dyn Source>>,
    /// Since when the piece runs that is under way.
    since: Instant,
    /// Seconds and pieces of the moment that is under way.
    moment: (f64, u32),
    /// Moments so far. The order is without, with, with, without: a drift of the clock favours neither.
    moments: usize,
    sampler: Option<(Sampler, f64)>,
    /// Seconds a piece of the moment before, if the one under way is compared with it.
    neighbour: Option<f64>,
    ratios: Vec<f64>,
    /// Parts of the time that the sampler's thread was on a core.
    shares: Vec<f64>,
    last: Option<(Rate, Vec<String>)>,
}

impl<'a> Pieces<'a> {
    fn new(sources: &'a dyn Fn() -> Vec<Box<dyn Source>>) -> Self {
        Self {
            sources,
            since: Instant::now(),
            moment: (0.0, 0),
            moments: 0,
            sampler: None,
            neighbour: None,
            ratios: vec![],
            shares: vec![],
            last: None,
        }
    }

    /// A piece has come to its end, and the next one begins.
    fn done(&mut self) {
        self.moment.0 += self.since.elapsed().as_secs_f64();
        self.moment.1 += 1;
        if self.moment.0 >= MOMENT {
            self.turn();
        }
        self.since = Instant::now();
    }

    /// Ends a moment and begins the next.
    fn turn(&mut self) {
        let (seconds, pieces) = std::mem::take(&mut self.moment);
        let mean = seconds / f64::from(pieces);
        match self.neighbour.take() {
            None => self.neighbour = Some(mean),
            Some(before) if self.sampler.is_some() => self.ratios.push(mean / before),
            Some(before) => self.ratios.push(before / mean),
        }
        self.moments += 1;
        let wanted = matches!(self.moments % 4, 1 | 2);
        match self.sampler.take() {
            Some((sampler, start)) if !wanted => {
                let share = sampler_seconds().map(|seconds| seconds / (sampler.seconds() - start));
                self.shares.extend(share);
                let window = start..sampler.seconds();
                let trace = sampler.stop();
                self.last = Some((trace.rate(window), trace.missing().to_vec()));
            }
            None if wanted => {
                let sampler = Sampler::start((self.sources)());
                let start = sampler.seconds();
                self.sampler = Some((sampler, start));
            }
            as_it_is => self.sampler = as_it_is,
        }
    }

    fn tell(&self, what: &str) {
        let ratio = median(self.ratios.iter().copied()).expect("there are pairs");
        let percent = |ratio: f64| 100.0 * (ratio - 1.0);
        let interval = ratio.interval.map_or_else(String::new, |interval| {
            format!(
                " (95 % interval {:+.3} to {:+.3} %)",
                percent(interval.low),
                percent(interval.high)
            )
        });
        println!(
            "{what}: {:+.3} % with the sampler{interval}, {} pairs",
            percent(ratio.value),
            self.ratios.len()
        );
        if let Some(shares) = Sample::new(self.shares.iter().copied()) {
            println!(
                "  its thread was on a core {:.3} % of the time",
                100.0 * shares.median()
            );
        }
        if let Some((rate, missing)) = &self.last {
            println!("  last: {rate}");
            missing.iter().for_each(|reason| println!("  missing: {reason}"));
        }
    }
}

impl Observer for Pieces<'_> {
    fn progress(&mut self, progress: Progress) {
        if progress.phase == Phase::Measure && progress.done > 0 {
            self.done();
        } else {
            self.since = Instant::now();
        }
    }
}

/// How long the sampler's thread has been on a core so far, seconds: the first number of its `schedstat`, in
/// nanoseconds, where the system has one.
fn sampler_seconds() -> Option<f64> {
    let tasks = fs::read_dir("/proc/self/task").ok()?;
    let mut folders = tasks.filter_map(|task| Some(task.ok()?.path()));
    let folder = folders.find(|folder| {
        fs::read_to_string(folder.join("comm")).is_ok_and(|name| name.trim() == "telemetry")
    })?;
    let line = fs::read_to_string(folder.join("schedstat")).ok()?;
    let nanoseconds: f64 = line.split(' ').next()?.parse().ok()?;
    Some(nanoseconds / 1e9)
}

fn sources(device: Option<&String>, library: Option<&String>) -> Vec<Box<dyn Source>> {
    let mut sources: Vec<Box<dyn Source>> = vec![Box::new(HostMemory::default())];
    if let Some(device) = device {
        sources.push(Box::new(match library {
            Some(library) => GpuSource::open_with(Path::new(library), device),
            None => GpuSource::open(device),
        }));
    }
    sources
}

/// A training of some seconds.
const TRAINING: &str = r#"
title = "Disturbance"
question = "Does a sampler slow a training step?"

[axes]
batch = [8]
sequence = [64]

[[workload]]
name = "encoder"
task = "train"
model = "distilbert"
dataset = "synthetic-reviews"
epochs = 20
learning_rate = 1e-3

[workload.model_size]
n_layers = 2
dim = 64
n_heads = 4
hidden_dim = 256
max_position_embeddings = 64

[workload.split]
train = 96
validation = 8
test = 8
"#;

fn training() -> Cell {
    let suite = parse("disturbance", "disturbance.toml", TRAINING).expect("the suite above is one");
    let options = PlanOptions {
        profile: Profile::Smoke,
        backend: Backend::Flex,
        overrides: vec![],
        dataset: DatasetKind::SyntheticReviews,
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
