//! Invented series of one process, and the figures that show them.

use crate::support::{RunBuilder, cell, matmul, record, run, suite};
use mantissa_core::{Axis, Event, EventKind, Samples, Series, SeriesName, Status};
use mantissa_report::{Figure, Run};

/// Creates the sensor readings of a GPU over a minute. The clock is throttled from 35 s to 41 s, and one power reading is missing.
pub fn trace() -> Vec<Series> {
    let mut series = [
        SeriesName::HostBytes,
        SeriesName::DeviceBytes,
        SeriesName::ProcessBytes,
        SeriesName::AllocatorInUseBytes,
        SeriesName::PowerWatts,
        SeriesName::SmClockHz,
        SeriesName::MemoryClockHz,
        SeriesName::TemperatureCelsius,
        SeriesName::ThrottleReasons,
        SeriesName::Utilisation,
    ]
    .map(Series::new);
    for tick in 0..600_u32 {
        let seconds = f64::from(tick) / 10.0;
        let busy = seconds > 4.0;
        let throttled = (35.0..41.0).contains(&seconds);
        let wave = (seconds * 2.0).sin();
        let in_use = if busy { 3.1e9 + 0.4e9 * wave } else { 0.2e9 };
        let readings = [
            0.9e9 + 4e6 * seconds,
            if busy { 5.2e9 } else { 0.6e9 },
            if busy { 4.6e9 } else { 0.1e9 },
            in_use,
            if busy { 610.0 + 60.0 * wave } else { 80.0 },
            if throttled { 1.2e9 } else { 1.98e9 },
            2.6e9,
            34.0 + 40.0 * (1.0 - (-seconds / 15.0).exp()),
            if throttled { 4.0 } else { 0.0 },
            if busy { 0.97 } else { 0.03 },
        ];
        for (series, reading) in series.iter_mut().zip(readings) {
            let missing = series.name == SeriesName::PowerWatts && (200..230).contains(&tick);
            series.push(seconds, if missing { f64::NAN } else { reading });
        }
    }
    series.into()
}

/// Creates 400 launches of about 2 ms: three outliers, and twelve under a throttled clock.
pub fn launches() -> Vec<Series> {
    let mut times = Series::new(SeriesName::LaunchSeconds);
    let mut throttled = Series::new(SeriesName::Throttled);
    for launch in 1..=400_u32 {
        let noise = f64::from(launch * 7_919 % 1_000) / 1_000.0;
        let is_throttled = (200..212).contains(&launch);
        let is_outlier = [57, 58, 333].contains(&launch);
        let seconds = 2e-3 * (1.0 + 0.04 * noise) * if is_throttled { 1.3 } else { 1.0 };
        times.push(f64::from(launch), if is_outlier { 0.011 } else { seconds });
        throttled.push(f64::from(launch), f64::from(u8::from(is_throttled)));
    }
    vec![times, throttled]
}

/// Creates a run of one cell with sensor traces and all launches.
pub fn run_with_traces() -> Run {
    let mut run = run(vec![suite("s", "Observed", &[], &[Axis::Size])]);
    let cell = cell("s", &matmul(), &[(Axis::Size, "64")]);
    let mut record = record(&cell, Status::Ok, None);
    record.events.push(Event {
        kind: EventKind::Throttled,
        step: None,
        value: Some(60.0),
        detail: "software power cap".into(),
    });
    let samples = Samples {
        series: [trace(), launches()].concat(),
        test_correct: None,
        ranges: vec![],
        trials: vec![],
        staleness: vec![],
    };
    run.add(record, Some(samples));
    run
}

/// Returns the SVG of a figure by name.
pub fn svg_of(drawn: &[Figure], id: &str) -> String {
    let figure = drawn.iter().find(|figure| figure.id == id);
    figure.expect("the figure is drawn").canvas.svg().unwrap()
}
