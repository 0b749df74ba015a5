//! Kernels with controlled arithmetic that this process ran. They are collected at each launch and written into the results.

use std::{
    borrow::Cow,
    collections::BTreeSet,
    sync::{Mutex, MutexGuard, PoisonError},
};

static LAUNCHED: Mutex<BTreeSet<Launch>> = Mutex::new(BTreeSet::new());

/// A kernel that ran at least once.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Launch {
    /// Name of the kernel.
    pub kernel: Cow<'static, str>,
    /// Formats of operands and sums in registers: `tf32 × tf32 → f32`.
    pub arithmetic: Cow<'static, str>,
    /// Class of the multiplication instructions in the machine code of CUDA devices, e.g. `HMMA.TF32`.
    pub instructions: Option<&'static str>,
    /// True if the device does not have a unit for the requested format, and the kernel emulates the format: the operands are rounded to it and
    /// multiplied in a wider format.
    pub emulated: bool,
}

fn launched() -> MutexGuard<'static, BTreeSet<Launch>> {
    LAUNCHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Records a launch.
pub(crate) fn record_kernel(launch: Launch) {
    launched().insert(launch);
}

/// Runs auxiliary work, such as a comparison with a reference, without recording its kernels. Before the call, all submitted work must be
/// finished. `work` must wait until the work that it submits is finished.
pub fn without_recording<T>(work: impl FnOnce() -> T) -> T {
    let before = launched().clone();
    let result = work();
    *launched() = before;
    result
}

/// Returns the kernels that were launched since the last call.
pub(crate) fn take() -> BTreeSet<Launch> {
    std::mem::take(&mut launched())
}

/// Formats the kernels as one line. Returns `None` for an empty set.
pub(crate) fn format_names(launches: &BTreeSet<Launch>) -> Option<String> {
    let name = |launch: &Launch| match launch.instructions {
        Some(instructions) => format!("{} ({}, {instructions})", launch.kernel, launch.arithmetic),
        None => format!("{} ({})", launch.kernel, launch.arithmetic),
    };
    let names: Vec<String> = launches.iter().map(name).collect();
    (!names.is_empty()).then(|| names.join("; "))
}
