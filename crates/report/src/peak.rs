//! Throughput relative to the measured peak, which is the throughput of the run's fastest kernel in the same arithmetic on a GPU.

use std::collections::HashMap;

use mantissa_core::{Accumulator, Backend, ExecutedVerdict, MatmulPrecision, MetricName, Precision};

use crate::{Row, shape};

/// Backend and arithmetic. Kernels that agree in both share a measured peak.
type Arithmetic = (Backend, Precision, MatmulPrecision, Accumulator);

/// Sets the peak share of every kernel row on a GPU.
pub(crate) fn set_peak_shares(rows: &mut [&mut Row<'_>]) {
    let mut peaks: HashMap<Arithmetic, f64> = HashMap::new();
    for (arithmetic, throughput) in rows.iter().filter_map(|row| arithmetic_and_throughput(row)) {
        let peak = peaks.entry(arithmetic).or_default();
        *peak = peak.max(throughput);
    }
    for row in rows {
        row.peak_share =
            arithmetic_and_throughput(row).map(|(arithmetic, throughput)| throughput / peaks[&arithmetic]);
    }
}

/// Returns the arithmetic and the throughput of a kernel row on a GPU that executed the requested arithmetic.
fn arithmetic_and_throughput(row: &Row<'_>) -> Option<(Arithmetic, f64)> {
    shape::kernel(&row.cell.workload)?;
    // Leave out kernels that executed another arithmetic than requested: their throughput is not comparable.
    row.verdict()
        .filter(|verdict| *verdict == ExecutedVerdict::AsRequested)?;
    let setting = &row.cell.setting;
    let throughput = row.metric(MetricName::FlopsPerSecond)?.value;
    let arithmetic = (
        setting.backend(),
        setting.precision(),
        setting.matmul(),
        setting.accumulator(),
    );
    (setting.backend() != Backend::Flex).then_some((arithmetic, throughput))
}
