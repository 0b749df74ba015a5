//! Sampler thread that reads the sources periodically.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        mpsc::{self, Receiver, RecvTimeoutError, Sender},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use mantissa_core::{Event, EventKind};

use crate::{PERIOD, Peaks, Reading, Source, Throttling, Trace};

/// Time between two scheduled full readings, and the sampling period if no source changes faster. Brief readings in
/// between leave out quantities that are expensive to read or change slowly:
/// - host memory: takes about 30 µs, and the system keeps its peak
/// - processes: the driver walks a list
/// - utilisation: its own sampling period is 1/6 s to 1 s (NVML reference)
/// - ECC errors
const FULL_PERIOD: Duration = Duration::from_millis(100);

/// Maximum time to wait for a reading, after which the run continues without it. A faulty driver can block a call
/// forever.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// Running sampler. Its thread ends when the sampler is dropped.
///
/// A source that blocks or panics ends the trace, which records the reason. The run continues.
pub struct Sampler {
    commands: Sender<Command>,
    done: Receiver<()>,
    thread: Option<JoinHandle<()>>,
    trace: Arc<Mutex<Trace>>,
    start: Instant,
    read_timeout: Duration,
}

/// Command to the sampler thread.
enum Command {
    /// The peak of host memory was reset.
    HostPeakReset,
    /// Take a full reading now and notify the sender.
    Read(Sender<()>),
    Stop,
}

impl Sampler {
    /// Starts sampling every [`PERIOD`], or less often if no source changes that fast. Returns after the first reading,
    /// which is the baseline of device memory. Start the sampler before the device is used.
    pub fn start(sources: Vec<Box<dyn Source>>) -> Self {
        let fast = sources.iter().any(|source| source.changes_fast());
        Self::start_every(if fast { PERIOD } else { FULL_PERIOD }, sources)
    }

    /// Starts sampling like [`Sampler::start`], with another period.
    pub fn start_every(period: Duration, sources: Vec<Box<dyn Source>>) -> Self {
        Self::start_with_timeout(period, READ_TIMEOUT, sources)
    }

    fn start_with_timeout(period: Duration, read_timeout: Duration, sources: Vec<Box<dyn Source>>) -> Self {
        let (commands, received) = mpsc::channel();
        let (first_sender, first) = mpsc::channel();
        let (done_sender, done) = mpsc::channel();
        let trace = Arc::new(Mutex::new(Trace::new(period.as_secs_f64())));
        let start = Instant::now();
        let reader = Reader {
            sources,
            trace: Arc::clone(&trace),
            start,
            period: period.max(Duration::from_micros(1)),
            full: None,
        };
        let thread = thread::Builder::new()
            .name("telemetry".into())
            .spawn(move || reader.run(&received, &first_sender, &done_sender));
        let sampler = Self {
            commands,
            done,
            thread: thread.ok(),
            trace,
            start,
            read_timeout,
        };
        if first.recv_timeout(read_timeout).is_err() {
            lock(&sampler.trace).discard_baseline();
        }
        sampler
    }

    /// Returns the start of the sampler, which is time 0 of the series.
    pub fn started(&self) -> Instant {
        self.start
    }

    /// Returns the seconds since the start, which are the `x` of the series.
    pub fn seconds(&self) -> f64 {
        self.start.elapsed().as_secs_f64()
    }

    /// Returns true if a reading since `since` (seconds since the start) or the last reading shows a throttled clock. The
    /// last reading counts regardless of its age, because the next one may be late on a busy machine.
    pub fn is_throttled(&self, since: f64) -> bool {
        let now = self.seconds();
        let trace = lock(&self.trace);
        trace.is_throttled() || matches!(trace.throttled(since, now), Throttling::Yes(_))
    }

    /// Takes a full reading and returns the memory peaks up to now.
    pub fn peaks(&self) -> Peaks {
        let (sender, done) = mpsc::channel();
        // If the thread has ended or is blocked, return the peaks of the earlier readings.
        if self.commands.send(Command::Read(sender)).is_ok() {
            let _ = done.recv_timeout(self.read_timeout);
        }
        lock(&self.trace).peaks()
    }

    /// Returns a handle for other threads.
    pub fn handle(&self) -> TraceHandle {
        TraceHandle(Arc::clone(&self.trace))
    }

    /// Resets the peak of host memory, where the system supports it.
    pub fn reset_host_peak(&self) {
        if crate::host::reset_peak() {
            // The receiver is gone only if the thread has ended, which `stop` detects.
            let _ = self.commands.send(Command::HostPeakReset);
        }
    }

    /// Takes a last reading and returns the trace. If the thread cannot finish, the trace contains the reason.
    pub fn stop(self) -> Trace {
        // The receiver is gone only if the thread has ended, which the wait below detects.
        let _ = self.commands.send(Command::Stop);
        let end = match (&self.thread, self.done.recv_timeout(self.read_timeout)) {
            (None, _) => Err("cannot start the sampler thread".to_owned()),
            (_, Ok(())) => Ok(()),
            (_, Err(RecvTimeoutError::Timeout)) => Err(format!(
                "a reading that started before {:.1} s did not return",
                (self.start.elapsed().saturating_sub(self.read_timeout)).as_secs_f64()
            )),
            (_, Err(RecvTimeoutError::Disconnected)) => Err("a source panicked".to_owned()),
        };
        let mut trace = std::mem::take(&mut *lock(&self.trace));
        if let Err(reason) = end {
            trace.missing.push(format!("sampler: {reason}"));
            trace.events.push(Event::new(
                EventKind::Telemetry,
                format!("the sampler ended early: {reason}"),
            ));
        }
        trace
    }
}

/// Handle to the trace for a thread that must not block because it is about to end the process.
#[derive(Clone)]
pub struct TraceHandle(Arc<Mutex<Trace>>);

impl TraceHandle {
    /// Returns the peaks up to now; `None` while a reading is being stored.
    pub fn peaks(&self) -> Option<Peaks> {
        self.0.try_lock().ok().map(|trace| trace.peaks())
    }

    /// Returns the events up to now; `None` while a reading is being stored.
    pub fn events(&self) -> Option<Vec<Event>> {
        self.0.try_lock().ok().map(|trace| trace.events())
    }
}

/// Returns true if a reading that begins now is brief; `full` is the start of the last full reading. With the
/// tolerance of half a period, a scheduled full reading is full even if it starts slightly early.
fn is_brief(now: Duration, full: Duration, period: Duration) -> bool {
    now.saturating_sub(full) + period / 2 < FULL_PERIOD
}

/// State of the sampler thread.
struct Reader {
    sources: Vec<Box<dyn Source>>,
    trace: Arc<Mutex<Trace>>,
    start: Instant,
    period: Duration,
    /// Start of the last full reading.
    full: Option<Duration>,
}

impl Reader {
    fn run(mut self, commands: &Receiver<Command>, first: &Sender<()>, done: &Sender<()>) {
        // Readings are scheduled at multiples of the period, so a late one does not shift the others.
        let mut due = Duration::ZERO;
        loop {
            match commands.recv_timeout(due.saturating_sub(self.start.elapsed())) {
                Err(RecvTimeoutError::Timeout) => {
                    self.read(Some(due));
                    // The receiver is gone after the first reading.
                    let _ = first.send(());
                    let points = self.start.elapsed().as_nanos() / self.period.as_nanos() + 1;
                    let points = u32::try_from(points).unwrap_or(u32::MAX);
                    due = self.period.saturating_mul(points);
                }
                Ok(Command::HostPeakReset) => lock(&self.trace).reset_host_peak(),
                Ok(Command::Read(done)) => {
                    self.read(None);
                    // The sender may have reached its time limit.
                    let _ = done.send(());
                }
                Ok(Command::Stop) | Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        self.read(None);
        // The receiver is gone if the sampler was dropped or reached its time limit.
        let _ = done.send(());
    }

    fn read(&mut self, due: Option<Duration>) {
        let begun = self.start.elapsed();
        // The first reading and readings without a scheduled time are full.
        let brief = due.is_some() && self.full.is_some_and(|full| is_brief(begun, full, self.period));
        if !brief {
            self.full = Some(begun);
        }
        let mut reading = Reading {
            seconds: begun.as_secs_f64(),
            late_seconds: due.map(|due| begun.saturating_sub(due).as_secs_f64()),
            brief,
            ..Reading::default()
        };
        for source in &mut self.sources {
            source.read(&mut reading);
        }
        reading.taken_seconds = Some(self.start.elapsed().saturating_sub(begun).as_secs_f64());
        let mut trace = lock(&self.trace);
        trace.push(reading);
        if !brief {
            trace.missing = self.sources.iter().flat_map(|source| source.missing()).collect();
            trace.events = self.sources.iter().flat_map(|source| source.events()).collect();
        }
    }
}

/// Locks the trace, even if a thread panicked while it held the lock. The trace then still contains only complete readings.
fn lock(trace: &Mutex<Trace>) -> MutexGuard<'_, Trace> {
    trace.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use mantissa_core::SeriesName;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    /// Source whose power rises by one watt per reading.
    struct Script(f64);

    impl Source for Script {
        fn read(&mut self, reading: &mut Reading) {
            self.0 += 1.0;
            reading.power_watts = Some(self.0);
        }

        fn missing(&self) -> Vec<String> {
            vec!["energy: not in the script".into()]
        }
    }

    /// Source that calls a function, which blocks or panics, at every reading after the first.
    struct FailingSource(usize, fn());

    impl Source for FailingSource {
        fn read(&mut self, reading: &mut Reading) {
            self.0 += 1;
            if self.0 > 1 {
                (self.1)();
            }
            reading.power_watts = Some(5.0);
        }

        fn missing(&self) -> Vec<String> {
            vec![]
        }
    }

    #[test]
    fn a_reading_that_starts_slightly_early_is_still_full() {
        let ms = Duration::from_millis;
        // With a period of 100 ms, every reading is full; with 10 ms, every tenth.
        assert!(!is_brief(ms(199), ms(101), FULL_PERIOD));
        assert!(!is_brief(ms(197), ms(102), ms(10)) && is_brief(ms(187), ms(102), ms(10)));
        // The reading after a late full one is brief, so two full readings do not follow each other.
        assert!(is_brief(ms(200), ms(160), FULL_PERIOD));
    }

    #[test]
    fn a_sampler_stopped_immediately_has_two_readings() {
        let trace = Sampler::start_every(HOUR, vec![Box::new(Script(0.0))]).stop();
        let series = trace.series();
        assert_eq!(series[0].name, SeriesName::PowerWatts);
        assert_eq!(series[0].y, [Some(1.0), Some(2.0)]);
        assert_eq!(trace.missing(), ["energy: not in the script"]);
    }

    #[test]
    fn one_reading_per_period_until_the_stop() {
        let start = Instant::now();
        let sampler = Sampler::start_every(Duration::from_millis(1), vec![Box::new(Script(0.0))]);
        while sampler.seconds() < 0.05 {
            thread::sleep(Duration::from_millis(1));
        }
        let trace = sampler.stop();
        let (series, periods) = (trace.series(), start.elapsed().as_millis() as usize);
        let count = series[0].y.len();
        assert!(
            (3..=periods + 10).contains(&count),
            "{count} readings in {periods} ms"
        );
        assert!(series[0].x.is_sorted());
        let rate = trace.rate(0.0..0.05);
        assert!(rate.period_seconds.unwrap() >= 0.0005, "{rate}");
        assert!(rate.reading_seconds.is_some() && rate.late_p99_seconds.is_some());
    }

    #[test]
    fn all_sources_contribute_to_one_reading() {
        let sources: Vec<Box<dyn Source>> =
            vec![Box::new(Script(0.0)), Box::new(crate::HostMemory::default())];
        let trace = Sampler::start_every(HOUR, sources).stop();
        let names: Vec<SeriesName> = trace.series().into_iter().map(|series| series.name).collect();
        assert!(names.contains(&SeriesName::PowerWatts));
        assert_eq!(names.contains(&SeriesName::HostBytes), cfg!(target_os = "linux"));
    }

    #[test]
    fn full_readings_are_taken_every_100_ms_and_at_both_ends() {
        struct Briefs(Arc<Mutex<Vec<bool>>>);
        impl Source for Briefs {
            fn read(&mut self, reading: &mut Reading) {
                self.0.lock().unwrap().push(reading.brief);
            }
            fn missing(&self) -> Vec<String> {
                vec![]
            }
        }
        let seen = Arc::new(Mutex::new(vec![]));
        let briefs: Box<dyn Source> = Box::new(Briefs(Arc::clone(&seen)));
        let sampler = Sampler::start_every(Duration::from_millis(1), vec![briefs]);
        while sampler.seconds() < 0.35 {
            thread::sleep(Duration::from_millis(1));
        }
        let seconds = sampler.seconds();
        sampler.stop();
        let seen = seen.lock().unwrap();
        let full = seen.iter().filter(|brief| !**brief).count();
        assert!(!seen[0] && !seen[seen.len() - 1]);
        assert!(
            (2..=2 + (seconds / 0.1) as usize + 1).contains(&full),
            "{full} in {seconds} s"
        );
    }

    #[test]
    fn a_blocking_source_does_not_block_the_run() {
        let blocked = FailingSource(0, || thread::sleep(HOUR));
        let read_timeout = Duration::from_millis(100);
        let sampler =
            Sampler::start_with_timeout(Duration::from_millis(1), read_timeout, vec![Box::new(blocked)]);
        thread::sleep(Duration::from_millis(20));
        let trace = sampler.stop();
        assert_eq!(trace.series()[0].y, [Some(5.0)], "earlier readings are kept");
        assert!(trace.missing()[0].contains("did not return"));
        assert_eq!(trace.events().len(), 1);
    }

    #[test]
    fn a_late_first_reading_is_not_a_memory_baseline() {
        struct Late;
        impl Source for Late {
            fn read(&mut self, reading: &mut Reading) {
                thread::sleep(Duration::from_millis(100));
                reading.device_bytes = Some(7);
            }
            fn missing(&self) -> Vec<String> {
                vec![]
            }
        }
        let read_timeout = Duration::from_millis(1);
        let mut sampler = Sampler::start_with_timeout(HOUR, read_timeout, vec![Box::new(Late)]);
        sampler.read_timeout = READ_TIMEOUT;
        assert_eq!(sampler.stop().device_peak_bytes(), None);
    }

    #[test]
    fn a_panicking_source_ends_only_the_trace() {
        let sources: Vec<Box<dyn Source>> = vec![Box::new(FailingSource(0, || panic!("of the test")))];
        let trace = Sampler::start_every(HOUR, sources).stop();
        assert_eq!(trace.series()[0].y, [Some(5.0)]);
        assert_eq!(trace.missing(), ["sampler: a source panicked"]);
    }
}
