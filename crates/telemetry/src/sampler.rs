//! The thread that reads the sources until it is told to stop.

use std::{
    sync::mpsc::{self, RecvTimeoutError, Sender},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use crate::{Reading, Source, Trace};

/// Time between two readings. NVML's own sensors change every 20 ms at the fastest (power on an A100 or H100: 25 to
/// 100 ms, arXiv 2312.02741), and a reading takes well under a hundredth of this.
pub const PERIOD: Duration = Duration::from_millis(20);

/// A running sampler. Dropped, its thread ends by itself.
pub struct Sampler {
    orders: Sender<Order>,
    thread: JoinHandle<Trace>,
    start: Instant,
}

/// What the thread is told.
enum Order {
    /// The high-water mark of host memory was started anew.
    HostPeakForgotten,
    Stop,
}

impl Sampler {
    /// Starts sampling every [`PERIOD`]; the first reading is taken before the thread's first pause, so start it before
    /// the device is touched: that reading is what was there before.
    pub fn start(sources: Vec<Box<dyn Source>>) -> Self {
        Self::start_every(PERIOD, sources)
    }

    /// As [`Sampler::start`], with another period.
    pub fn start_every(period: Duration, mut sources: Vec<Box<dyn Source>>) -> Self {
        let (orders, told) = mpsc::channel();
        let start = Instant::now();
        let mut trace = Trace::default();
        trace.push(start.elapsed().as_secs_f64(), look(&mut sources));
        let thread = std::thread::spawn(move || {
            let mut due = start + period;
            // Readings keep their grid: a late one does not shift the rest.
            loop {
                match told.recv_timeout(due.saturating_duration_since(Instant::now())) {
                    Err(RecvTimeoutError::Timeout) => {
                        trace.push(start.elapsed().as_secs_f64(), look(&mut sources));
                        due = (due + period).max(Instant::now());
                    }
                    Ok(Order::HostPeakForgotten) => trace.forget_host_peak(),
                    Ok(Order::Stop) | Err(RecvTimeoutError::Disconnected) => break,
                }
            }
            trace.push(start.elapsed().as_secs_f64(), look(&mut sources));
            trace.missing = sources.iter().flat_map(|source| source.missing()).collect();
            trace
        });
        Self {
            orders,
            thread,
            start,
        }
    }

    /// Seconds since the start: the `x` of the series.
    pub fn seconds(&self) -> f64 {
        self.start.elapsed().as_secs_f64()
    }

    /// Lets the high-water mark of host memory begin here, where the system can do that.
    pub fn forget_host_peak(&self) {
        if crate::host::forget_peak() {
            // The receiver is gone only if the thread panicked, which `stop` finds out.
            let _ = self.orders.send(Order::HostPeakForgotten);
        }
    }

    /// Takes a last reading and hands over the trace; an empty one if a source panicked.
    pub fn stop(self) -> Trace {
        // The receiver is gone only if the thread panicked, which `join` reports too.
        let _ = self.orders.send(Order::Stop);
        self.thread.join().unwrap_or_default()
    }
}

fn look(sources: &mut [Box<dyn Source>]) -> Reading {
    let mut reading = Reading::default();
    for source in sources {
        source.read(&mut reading);
    }
    reading
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Power that rises by one watt a reading.
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

    #[test]
    fn a_sampler_stopped_at_once_still_has_its_first_and_last_reading() {
        let trace = Sampler::start_every(Duration::from_secs(3600), vec![Box::new(Script(0.0))]).stop();
        let series = trace.series();
        assert_eq!(series[0].name, "power_watts");
        assert_eq!(series[0].y, [Some(1.0), Some(2.0)]);
        assert_eq!(trace.missing(), ["energy: not in the script"]);
    }

    #[test]
    fn readings_come_one_a_period_until_the_stop() {
        let sampler = Sampler::start_every(Duration::from_millis(1), vec![Box::new(Script(0.0))]);
        while sampler.seconds() < 0.05 {
            std::thread::sleep(Duration::from_millis(1));
        }
        let series = sampler.stop().series();
        let count = series[0].y.len();
        assert!((3..=60).contains(&count), "{count} readings in 50 ms");
        assert!(series[0].x.is_sorted());
    }

    #[test]
    fn sources_fill_in_one_reading_together() {
        let sources: Vec<Box<dyn Source>> =
            vec![Box::new(Script(0.0)), Box::new(crate::HostMemory::default())];
        let trace = Sampler::start_every(Duration::from_secs(3600), sources).stop();
        let names: Vec<String> = trace.series().into_iter().map(|series| series.name).collect();
        assert!(names.contains(&"power_watts".to_owned()));
        assert_eq!(
            names.contains(&"host_bytes".to_owned()),
            cfg!(target_os = "linux")
        );
    }
}
