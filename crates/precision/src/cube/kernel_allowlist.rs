//! Restriction of the candidate kernels that may be launched.
//!
//! A kernel that compiles and launches can still write wrong results on a GPU on which it was never tested. [`permit`] therefore restricts a
//! process to the candidates that passed a check on this GPU, and [`permit_only`] to the one candidate that it checks. A process that calls
//! neither can launch all candidates.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
};

use burn::tensor::DType;
use mantissa_core::{CandidateKernel, CheckedOperation};

static RULE: OnceLock<Rule> = OnceLock::new();

/// Environment variable with a comma-separated list. Candidates whose name contains an entry are excluded.
pub(crate) const EXCLUDED_VARIABLE: &str = "MANTISSA_WITHOUT";

enum Rule {
    /// Permits candidates that passed a check, by operation and dtype of the operands.
    Passed(HashMap<(CheckedOperation, DType), HashSet<String>>),
    /// Permits only the candidate that is being checked.
    Only(Trial),
}

/// Check of one candidate.
pub(crate) struct Trial {
    candidate: String,
    log: Mutex<TrialLog>,
}

/// Launches and rejections of a candidate since the last call of [`Trial::take`].
#[derive(Debug, Default)]
pub(crate) struct TrialLog {
    pub(crate) launched: BTreeSet<CandidateKernel>,
    pub(crate) refused: Vec<String>,
}

impl Trial {
    fn log(&self) -> MutexGuard<'_, TrialLog> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns launches and rejections since the last call.
    pub(crate) fn take(&self) -> TrialLog {
        std::mem::take(&mut self.log())
    }

    /// Launches the candidate that is being checked, and logs the launch or the rejection. Returns `None` if it is rejected.
    pub(super) fn launch<T>(
        &self,
        (operation, operands): (CheckedOperation, DType),
        launch: impl FnOnce() -> Result<T, String>,
    ) -> Option<T> {
        match launch() {
            Ok(result) => {
                self.log().launched.insert(CandidateKernel {
                    operation,
                    operands: format!("{operands:?}").to_lowercase(),
                    candidate: self.candidate.clone(),
                });
                Some(result)
            }
            Err(reason) => {
                self.log().refused.push(reason);
                None
            }
        }
    }

    pub(super) fn is_for(&self, candidate: &str) -> bool {
        self.candidate == candidate
    }
}

/// Permits the candidates that passed a check.
pub(crate) fn permit(passed: impl IntoIterator<Item = CandidateKernel>) {
    let mut by_operation: HashMap<_, HashSet<String>> = HashMap::new();
    for kernel in passed {
        if let Some(dtype) = dtype(&kernel.operands) {
            by_operation
                .entry((kernel.operation, dtype))
                .or_default()
                .insert(kernel.candidate);
        }
    }
    let _ = RULE.set(Rule::Passed(by_operation));
}

/// Permits only one candidate, in order to check it.
pub(crate) fn permit_only(candidate: &str) -> &'static Trial {
    let trial = Trial {
        candidate: candidate.to_owned(),
        log: Mutex::default(),
    };
    match RULE.get_or_init(|| Rule::Only(trial)) {
        Rule::Only(trial) => trial,
        Rule::Passed(_) => unreachable!("a process either checks a candidate or runs a cell"),
    }
}

fn dtype(name: &str) -> Option<DType> {
    [DType::F64, DType::F32, DType::BF16, DType::F16]
        .into_iter()
        .find(|dtype| format!("{dtype:?}").eq_ignore_ascii_case(name))
}

/// Returns the trial of this process, if the process checks a candidate.
pub(super) fn trial() -> Option<&'static Trial> {
    match RULE.get()? {
        Rule::Only(trial) => Some(trial),
        Rule::Passed(_) => None,
    }
}

/// Returns an error for a candidate that must not be launched for operands of this dtype.
pub(super) fn check(operation: CheckedOperation, operands: DType, candidate: &str) -> Result<(), String> {
    match RULE.get() {
        Some(Rule::Passed(passed))
            if !passed
                .get(&(operation, operands))
                .is_some_and(|passed| passed.contains(candidate)) =>
        {
            Err(format!(
                "{candidate} has not passed `mantissa check-kernels` for {operands:?} operands"
            ))
        }
        _ => Ok(()),
    }
}

/// Returns true unless [`EXCLUDED_VARIABLE`] excludes a candidate.
pub(crate) fn is_enabled(candidate: &str) -> bool {
    static EXCLUDED_PARTS: OnceLock<Vec<String>> = OnceLock::new();
    let excluded =
        EXCLUDED_PARTS.get_or_init(|| parse_list(&std::env::var(EXCLUDED_VARIABLE).unwrap_or_default()));
    !excluded.iter().any(|part| candidate.contains(part.as_str()))
}

fn parse_list(list: &str) -> Vec<String> {
    let parts = list.split(',').map(str::trim);
    parts.filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dtype_names_round_trip() {
        for name in ["f64", "f32", "bf16", "f16"] {
            let dtype = dtype(name).unwrap();
            assert_eq!(format!("{dtype:?}").to_lowercase(), name);
        }
        assert_eq!(dtype("f8"), None);
    }

    #[test]
    fn a_list_is_parsed_without_empty_parts() {
        assert_eq!(parse_list("tma, specialized,"), ["tma", "specialized"]);
        assert_eq!(parse_list(""), [""; 0]);
    }
}
