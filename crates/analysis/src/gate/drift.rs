//! Common shift of the cells of a metric, attributed to the machine or to the program.

use std::collections::BTreeMap;

use mantissa_core::{MetricName, Unit};

use super::compared::Compared;
use crate::{Sample, Scale, Welch};

/// Minimum number of cells for a common shift. Also the minimum number of fences (usual run-to-run noise of a cell) for a median fence.
pub const GATE_MIN_DRIFT_CELLS: usize = 8;

/// Maximum common shift that is attributed to clocks or other load on the machine, and subtracted. If the smallest floor (smallest relevant
/// change) of the cells is less, this floor is the maximum.
pub const GATE_MAX_DRIFT: f64 = 0.03;

/// A common shift beyond this multiple of the median fence is attributed to the program. In the recorded runs, one shift in fifty exceeded
/// this limit.
const GATE_FENCE_MULTIPLE: f64 = 2.0;

/// A common shift beyond this share (a factor of 1.5) is attributed to the program. Recorded runs of the same program never differ by as
/// much.
pub const GATE_MIN_PROGRAM_SHIFT: f64 = 0.5;

/// Common shift of the cells of a metric.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct CommonShift {
    /// Shift to subtract, as a logarithm.
    pub shift: f64,
    /// True if it is unknown whether the machine or the program caused the shift.
    pub doubtful: bool,
}

/// Computes the common shift of each metric over the cells whose runs were not interleaved. Omits shifts that are attributed to the
/// program, and metrics that do not drift, such as memory.
pub(super) fn common_shifts(
    family: &[Compared<'_>],
    tests: &[Option<Welch>],
) -> BTreeMap<MetricName, CommonShift> {
    let mut shifts: BTreeMap<MetricName, Vec<(&Compared<'_>, f64)>> = BTreeMap::new();
    for (compared, test) in family.iter().zip(tests) {
        let drifts = !compared.turns
            && compared.floor.scale == Scale::Ratio
            && !compared.metric.is_learned()
            && !compared.metric.is_counted()
            && compared.metric.unit() != Unit::Bytes;
        if let (true, Some(test)) = (drifts, test) {
            let cells = shifts.entry(compared.metric).or_default();
            cells.push((compared, test.value.ln()));
        }
    }
    shifts
        .into_iter()
        .filter(|(_, cells)| cells.len() >= GATE_MIN_DRIFT_CELLS)
        .filter_map(|(metric, cells)| Some((metric, common_shift(&cells)?)))
        .collect()
}

/// Returns the shift of one metric, or `None` if it is attributed to the program. `cells`: comparisons with the logarithms of their ratios.
fn common_shift(cells: &[(&Compared<'_>, f64)]) -> Option<CommonShift> {
    let shift = Sample::new(cells.iter().map(|(_, shift)| *shift))?.median();
    let floors = cells.iter().map(|(compared, _)| compared.floor.size);
    let within = |share: f64| shift.abs() <= share.ln_1p();
    if within(floors.fold(GATE_MAX_DRIFT, f64::min)) {
        let doubtful = false;
        return Some(CommonShift { shift, doubtful });
    }
    let fences: Vec<f64> = cells.iter().filter_map(|(compared, _)| compared.fence).collect();
    let enough = fences.len() >= GATE_MIN_DRIFT_CELLS;
    let fences = Sample::new(fences).filter(|_| enough);
    let max_machine_shift = fences.map_or(GATE_MIN_PROGRAM_SHIFT, |fences| {
        GATE_FENCE_MULTIPLE * fences.median()
    });
    let doubtful = within(max_machine_shift.min(GATE_MIN_PROGRAM_SHIFT));
    doubtful.then_some(CommonShift { shift, doubtful })
}

#[cfg(test)]
mod tests {
    use mantissa_core::MetricName;

    use super::Compared;
    use crate::{
        Doubt, Rules, Verdict, gate,
        gate::test_data::{QUIET, compared, seconds},
    };

    #[test]
    fn small_common_shift_is_attributed_to_the_machine() {
        let scaled = |factor: f64| QUIET.map(|value| value * factor);
        let judge = |turns: bool, common: f64, one: f64| {
            let (common, one) = (scaled(common), scaled(one));
            let cell = |candidate| Compared {
                turns,
                ..seconds(&QUIET, candidate)
            };
            let mut family = vec![cell(&common); 20];
            family[3] = cell(&one);
            let rulings = gate(&family, Rules::default());
            (rulings[0].clone(), rulings[3].clone())
        };
        let (others, one) = judge(false, 1.018, 1.07);
        assert_eq!(
            (others.verdict, one.verdict),
            (Verdict::Unchanged, Verdict::Regressed)
        );
        assert!((others.drift - 1.018).abs() < 1e-12 && (one.change.unwrap().value - 1.07).abs() < 1e-12);
        let (others, one) = judge(true, 1.05, 1.05);
        assert_eq!(
            (others.verdict, one.verdict),
            (Verdict::Regressed, Verdict::Regressed)
        );
        assert_eq!(others.drift, 1.0);
        let (others, one) = judge(true, 1.018, 1.0);
        assert_eq!(
            (others.drift, one.drift, one.verdict),
            (1.0, 1.0, Verdict::Unchanged),
            "interleaved runs are not corrected"
        );
        let (_, one) = judge(false, 1.025, 0.995);
        assert_eq!(
            one.verdict,
            Verdict::Inconclusive(Doubt::TooNoisy),
            "an unchanged cell is not an improvement, and is inconclusive"
        );
        let heavier = scaled(1.018);
        let memory = Compared {
            turns: false,
            ..compared(MetricName::HostPeakBytes, &QUIET, &heavier)
        };
        assert_eq!(
            gate(&[memory; 20], Rules::default())[0].drift,
            1.0,
            "memory does not drift"
        );
    }

    #[test]
    fn large_common_shift_is_inconclusive_without_history() {
        let scaled = |factor: f64| QUIET.map(|value| value * factor);
        let judge = |common: f64, one: f64, fence: Option<f64>| {
            let (common, one) = (scaled(common), scaled(one));
            let cell = |candidate| Compared {
                turns: false,
                fence,
                ..seconds(&QUIET, candidate)
            };
            let mut family = vec![cell(&common); 20];
            family[3] = cell(&one);
            let rulings = gate(&family, Rules::default());
            (rulings[0].verdict, rulings[3].verdict)
        };
        let shared = Verdict::Inconclusive(Doubt::Shared);
        let (regressed, unchanged) = (Verdict::Regressed, Verdict::Unchanged);
        assert_eq!(judge(1.10, 1.10, None), (shared, shared));
        assert_eq!(
            judge(1.10, 1.25, None),
            (shared, shared),
            "the machine does not affect all cells alike"
        );
        assert_eq!(
            judge(1.10, 1.80, None),
            (shared, regressed),
            "the machine does not affect a cell that much"
        );
        assert_eq!(
            judge(0.90, 1.40, None),
            (shared, shared),
            "the change of the cell is not large enough to exclude the machine"
        );
        assert_eq!(
            judge(0.90, 1.0, None),
            (shared, shared),
            "the cell can be slower while the machine is faster"
        );
        assert_eq!(
            judge(1.60, 1.60, None),
            (regressed, regressed),
            "no machine drifts that far"
        );
        assert_eq!(
            judge(1.10, 1.10, Some(0.04)),
            (regressed, regressed),
            "this machine does not drift that far"
        );
        assert_eq!(
            judge(1.10, 1.10, Some(0.2)),
            (unchanged, unchanged),
            "this machine drifts that far"
        );
        assert_eq!(judge(1.02, 1.02, None), (unchanged, unchanged), "below the floor");
    }

    #[test]
    fn interleaved_cells_ignore_the_common_shift() {
        let (slower, same) = (QUIET.map(|value| value * 1.1), QUIET);
        let sequential = |candidate| Compared {
            turns: false,
            ..seconds(&QUIET, candidate)
        };
        let mut family = vec![sequential(&slower); 20];
        family[0] = seconds(&QUIET, &slower);
        family[1] = seconds(&QUIET, &same);
        let verdicts: Vec<_> = gate(&family, Rules::default())
            .iter()
            .map(|ruling| ruling.verdict)
            .collect();
        assert_eq!(
            verdicts[..3],
            [
                Verdict::Regressed,
                Verdict::Unchanged,
                Verdict::Inconclusive(Doubt::Shared)
            ]
        );
    }

    #[test]
    fn fences_limit_the_shift_attributed_to_the_machine() {
        let (slower, much_slower) = (QUIET.map(|value| value * 1.1), QUIET.map(|value| value * 1.7));
        let verdicts = |candidate, fence| {
            let cell = |fence| Compared {
                turns: false,
                fence,
                ..seconds(&QUIET, candidate)
            };
            let mut family = vec![cell(Some(fence)); 20];
            family[7] = cell(None);
            let rulings = gate(&family, Rules::default());
            [rulings[0].verdict, rulings[7].verdict]
        };
        assert_eq!(verdicts(&much_slower, 0.4), [Verdict::Regressed; 2]);
        assert_eq!(verdicts(&slower, 0.03), [Verdict::Regressed; 2]);
    }
}
