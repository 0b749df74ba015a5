//! GPUs for invented runs.

use mantissa_core::{Axis, Cell, Gpu};
use mantissa_report::Run;

/// Creates a GPU of which only the name is known.
pub fn gpu(name: &str) -> Gpu {
    Gpu {
        name: name.to_owned(),
        uuid: None,
        memory_bytes: None,
        compute_capability: None,
        driver: None,
        cuda: None,
        sm_clock_max_hz: None,
        power_limit_watts: None,
        ecc: None,
        persistence: None,
    }
}

/// Sets the backend of every cell to CUDA.
pub fn on_cuda(run: &mut Run) {
    let on_gpu = |cell: &mut Cell| {
        let backend = Axis::Backend.parse("cuda").unwrap();
        cell.setting.set(Axis::Backend, backend).unwrap();
    };
    let planned = run.plan.cells.iter_mut().map(|planned| &mut planned.cell);
    planned.for_each(on_gpu);
    run.records.iter_mut().for_each(|record| on_gpu(&mut record.cell));
}
