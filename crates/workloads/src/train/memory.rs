//! Memory breakdown of a training. The allocator is read after each stage of an additional step that is not timed.

use burn::tensor::Device;
use mantissa_precision::GradientSum;

use super::{checkpointing, trainer::Trainer};
use crate::{
    MemoryParts, Observer, Phase, WorkloadError,
    data::{Dataset, Part},
    models::{Batch, Network},
    outcome::{allocator, progress, sync},
};

/// Measures the memory breakdown in a step over one micro-batch with a learning rate of 0. Returns `None` if the allocator does not count bytes.
pub(super) fn measure_parts<M: Network>(
    trainer: &mut Trainer<'_, M>,
    data: &Dataset<M::Part>,
    observer: &mut dyn Observer,
) -> Result<Option<MemoryParts>, WorkloadError> {
    trainer.disable_learning();
    let Some(mut meter) = Meter::new(trainer.device, observer) else {
        return Ok(None);
    };
    let copies = || -> Vec<_> {
        let parameters = trainer.parameters.iter();
        parameters.map(|(_, value)| value.clone() * 1.0).collect()
    };
    // Copy once before measuring, because cubecl uploads additional data at the first launch of a kernel and keeps this data in memory.
    drop(copies());
    meter.begin()?;
    let copied = copies();
    let weights = meter.since_begin()?;
    drop(copied);

    meter.begin()?;
    let working = trainer.working();
    // If parameters and matmuls have the same format, nothing is copied. Any increase in allocated bytes is then due to tensor handles.
    let precision = trainer.compute.precision();
    let specs = trainer.model.parameters();
    let multiplies = specs.iter().any(|spec| trainer.model.multiplies(&spec.name));
    let copied = multiplies && precision.compute() != precision.parameters();
    let weight_copies = if copied { meter.since_begin()? } else { 0 };

    let batch = first_batch(trainer, data);
    meter.begin()?;
    let activations = if trainer.cell.setting.checkpointing() {
        let kept = checkpointing::forward(trainer, &working, &batch);
        let bytes = meter.since_begin()?;
        drop(kept);
        bytes
    } else {
        let tracked = working.track();
        let loss = trainer.loss(&tracked, &batch);
        let bytes = meter.since_begin()?;
        drop((loss, tracked));
        bytes
    };

    let mut sum = GradientSum::new(trainer.parameters.len());
    drop(trainer.backward(&working, &batch, 1.0, &mut sum));
    // Read the gradients, because an out-of-memory error is reported only when a tensor is read.
    sum.all_finite().map_err(WorkloadError::device)?;
    let gradients = meter.freed_by(|| drop(sum))?;

    let mut sum = GradientSum::new(trainer.parameters.len());
    drop(trainer.backward(&working, &batch, 1.0, &mut sum));
    drop(working);
    trainer.optimizer.step(&mut trainer.parameters, sum);
    let optimizer = meter.freed_by(|| trainer.disable_learning())?;
    Ok(Some(MemoryParts {
        weights,
        weight_copies,
        activations,
        gradients,
        optimizer,
        source: meter.source,
    }))
}

/// Reads the allocated bytes. Synchronizes with the device before each reading.
struct Meter<'a> {
    device: &'a Device,
    observer: &'a mut dyn Observer,
    source: &'static str,
    begin: u64,
}

impl<'a> Meter<'a> {
    /// Creates a meter. Returns `None` if the allocator does not count bytes.
    fn new(device: &'a Device, observer: &'a mut dyn Observer) -> Option<Self> {
        let source = match allocator(device) {
            Some(_) => "device allocator, in use",
            None => observer
                .heap_bytes()
                .map(|_| "allocations of the program, in use")?,
        };
        Some(Self {
            device,
            observer,
            source,
            begin: 0,
        })
    }

    /// Returns the bytes in use. Reports progress as well, since the bytes may be a new peak.
    fn read(&mut self) -> Result<u64, WorkloadError> {
        sync(self.device)?;
        progress(self.observer, self.device, Phase::WarmUp, 1, 1);
        let device_bytes = allocator(self.device).map(|bytes| bytes.in_use);
        // `new` checked that one of the two counters is available.
        Ok(device_bytes
            .or_else(|| self.observer.heap_bytes())
            .unwrap_or_default())
    }

    fn begin(&mut self) -> Result<(), WorkloadError> {
        self.begin = self.read()?;
        Ok(())
    }

    /// Returns the increase since `begin` in bytes.
    fn since_begin(&mut self) -> Result<u64, WorkloadError> {
        Ok(self.read()?.saturating_sub(self.begin))
    }

    /// Calls `free` and returns the number of bytes that it frees.
    fn freed_by(&mut self, free: impl FnOnce()) -> Result<u64, WorkloadError> {
        let before = self.read()?;
        free();
        Ok(before.saturating_sub(self.read()?))
    }
}

fn first_batch<M: Network>(trainer: &Trainer<'_, M>, data: &Dataset<M::Part>) -> Batch<M> {
    let size = (trainer.cell.setting.batch() as usize).min(data.train.len());
    let indices: Vec<usize> = (0..size).collect();
    data.train.batch(&indices)
}
