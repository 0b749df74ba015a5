//! Which matmul kernels this process ran: written where they are launched, read into the record.

use std::{
    borrow::Cow,
    collections::BTreeSet,
    sync::{Mutex, MutexGuard, PoisonError},
};

static LAUNCHED: Mutex<BTreeSet<Launch>> = Mutex::new(BTreeSet::new());

/// A kernel that ran at least once.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Launch {
    /// Its name.
    pub kernel: Cow<'static, str>,
    /// What its registers hold: `tf32 × tf32 → f32`.
    pub arithmetic: Cow<'static, str>,
    /// Class of its multiplication instructions in the machine code of CUDA devices: `HMMA.TF32`.
    pub instructions: Option<&'static str>,
    /// Whether it is more precise than what was asked for and ran on rounded operands, because the device has no unit
    /// for the format.
    pub emulated: bool,
}

fn launched() -> MutexGuard<'static, BTreeSet<Launch>> {
    LAUNCHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Notes a launch.
pub(crate) fn note(launch: Launch) {
    launched().insert(launch);
}

/// Does what is not part of a cell's own work: the kernels that it launches are forgotten. Whatever was asked for must have
/// run before and behind it.
pub fn aside<T>(work: impl FnOnce() -> T) -> T {
    let before = launched().clone();
    let result = work();
    *launched() = before;
    result
}

/// What was launched since the last call.
pub(crate) fn take() -> BTreeSet<Launch> {
    std::mem::take(&mut launched())
}

/// The kernels in one line; none if there are none.
pub(crate) fn names(launches: &BTreeSet<Launch>) -> Option<String> {
    let name = |launch: &Launch| match launch.instructions {
        Some(instructions) => format!("{} ({}, {instructions})", launch.kernel, launch.arithmetic),
        None => format!("{} ({})", launch.kernel, launch.arithmetic),
    };
    let names: Vec<String> = launches.iter().map(name).collect();
    (!names.is_empty()).then(|| names.join("; "))
}
