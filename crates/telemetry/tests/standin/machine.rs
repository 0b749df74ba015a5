//! Simulated machine whose NVML reads its values from a script.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
};

use mantissa_telemetry::{GpuSource, Library, Reading, Source, Trace};

/// Readings per second of simulated time.
pub(crate) const HERTZ: u32 = 100;

/// Interval of full readings.
const FULL_EVERY: u32 = 10;

/// UUID of the device in [`ONE`].
pub(crate) const UUID: &str = "GPU-11111111-2222-3333-4444-555555555555";

/// Script of a device, to which a test adds lines.
pub(crate) const ONE: &str = "
    driver 550.54.15
    device GPU-11111111-2222-3333-4444-555555555555 00000000:17:00.0 Stand-in A
";

/// Copy of the simulated NVML with its own script.
pub(crate) struct Machine {
    library: PathBuf,
}

impl Machine {
    /// Creates a machine; prints a message and returns `None` if there is no C compiler for the library.
    pub(crate) fn new(script: &str) -> Option<Self> {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let compiled = compiled_library()?;
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        // The loader identifies a library by its file, so each machine needs its own copy.
        let library = compiled.with_file_name(format!("nvml-{}-{number}.so", std::process::id()));
        fs::copy(compiled, &library).unwrap();
        let script_file = format!("{}.script", library.display());
        fs::write(script_file, script).unwrap();
        Some(Self { library })
    }

    pub(crate) fn library(&self) -> Library {
        Library::at(&self.library).unwrap()
    }

    pub(crate) fn source(&self, id: &str) -> GpuSource {
        GpuSource::open_with(&self.library, id)
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // Ignore errors, because a leftover file is harmless.
        let _ = fs::remove_file(format!("{}.script", self.library.display()));
        let _ = fs::remove_file(&self.library);
    }
}

/// Compiles the library once per test run.
fn compiled_library() -> Option<&'static Path> {
    static LIBRARY: OnceLock<Option<PathBuf>> = OnceLock::new();
    let compile = || {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/nvml/nvml.c");
        let library = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("nvml-{}.so", std::process::id()));
        let status = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .args([&library, &source])
            .arg("-ldl")
            .status();
        let Err(error) = status.map(|status| assert!(status.success(), "cc cannot compile nvml.c")) else {
            return Some(library);
        };
        let required = std::env::var("MANTISSA_REQUIRE").unwrap_or_default();
        assert!(
            !required.split(',').any(|name| name == "cc"),
            "a required C compiler is missing: {error}"
        );
        println!("skipped: no C compiler: {error}");
        None
    };
    LIBRARY.get_or_init(compile).as_deref()
}

/// Reads a source for some seconds of simulated time.
pub(crate) fn record(source: &mut GpuSource, seconds: u32) -> Trace {
    let mut trace = Trace::new(1.0 / f64::from(HERTZ));
    for index in 0..=seconds * HERTZ {
        let mut reading = Reading {
            seconds: f64::from(index) / f64::from(HERTZ),
            brief: index % FULL_EVERY != 0,
            ..Reading::default()
        };
        source.read(&mut reading);
        trace.push(reading);
    }
    trace
}

/// Takes one reading at a simulated time.
pub(crate) fn at(source: &mut GpuSource, seconds: f64) -> Reading {
    let mut reading = Reading {
        seconds,
        ..Reading::default()
    };
    source.read(&mut reading);
    reading
}

/// Takes one reading of a device with these lines in its script. Returns it with the missing quantities; `None` without
/// a C compiler.
pub(crate) fn once(lines: &str) -> Option<(Reading, Vec<String>)> {
    let machine = Machine::new(&format!("{ONE}{lines}"))?;
    let mut source = machine.source(UUID);
    let reading = at(&mut source, 0.0);
    Some((reading, source.missing()))
}

/// Returns the reason for which a quantity is missing.
pub(crate) fn reason<'a>(missing: &'a [String], what: &str) -> Option<&'a str> {
    let reasons = missing.iter().filter_map(|line| line.split_once(": "));
    reasons
        .filter(|(name, _)| *name == what)
        .map(|(_, reason)| reason)
        .next()
}
