//! Memory breakdown of a training, read from the allocator after each part of a separate step that is not timed.

use burn::tensor::Device;
use mantissa_precision::GradientSum;

use super::{Trainer, checkpointing};
use crate::{
    MemoryParts, Observer, Phase, WorkloadError,
    data::{Dataset, Part},
    models::{Batch, Network},
    outcome::{allocator, progress, sync},
};

/// Measures the parts in a step over one micro-batch that does not change the parameters. Returns `None` if bytes are not counted.
pub(super) fn parts<M: Network>(
    trainer: &mut Trainer<'_, M>,
    data: &Dataset<M::Part>,
    observer: &mut dyn Observer,
) -> Result<Option<MemoryParts>, WorkloadError> {
    trainer.rest();
    let Some(mut meter) = Meter::of(trainer.device, observer) else {
        return Ok(None);
    };
    let copies = || -> Vec<_> {
        let parameters = trainer.parameters.iter();
        parameters.map(|(_, value)| value.clone() * 1.0).collect()
    };
    // Twice, because cubecl keeps data that it uploads for the first launch of a kernel.
    drop(copies());
    meter.begin()?;
    let copied = copies();
    let weights = meter.since_begin()?;
    drop(copied);

    meter.begin()?;
    let working = trainer.working();
    // If both formats are equal, nothing is copied, and the allocator would count only handles.
    let precision = trainer.compute.precision();
    let specs = trainer.model.parameters();
    let multiplies = specs.iter().any(|spec| trainer.model.multiplies(&spec.name));
    let copied = multiplies && precision.compute() != precision.parameters();
    let weight_copies = if copied { meter.since_begin()? } else { 0 };

    let batch = first_batch(trainer, data);
    meter.begin()?;
    let activations = if trainer.cell.setting.checkpointing() {
        let kept = checkpointing::forward(trainer, &working, &batch);
        let held = meter.since_begin()?;
        drop(kept);
        held
    } else {
        let tracked = working.track();
        let loss = trainer.loss(&tracked, &batch);
        let held = meter.since_begin()?;
        drop((loss, tracked));
        held
    };

    let mut sum = GradientSum::new(trainer.parameters.len());
    drop(trainer.backward(&working, &batch, 1.0, &mut sum));
    // A device without enough memory for a tensor reports an error only when the tensor is read.
    sum.all_finite().map_err(WorkloadError::Device)?;
    let gradients = meter.freed_by(|| drop(sum))?;

    let mut sum = GradientSum::new(trainer.parameters.len());
    drop(trainer.backward(&working, &batch, 1.0, &mut sum));
    drop(working);
    trainer.optimizer.step(&mut trainer.parameters, sum);
    let optimizer = meter.freed_by(|| trainer.rest())?;
    Ok(Some(MemoryParts {
        weights,
        weight_copies,
        activations,
        gradients,
        optimizer,
        source: meter.source,
    }))
}

/// Meter of the bytes in use. It synchronizes with the device before each reading.
struct Meter<'a> {
    device: &'a Device,
    observer: &'a mut dyn Observer,
    source: &'static str,
    begin: u64,
}

impl<'a> Meter<'a> {
    /// Returns `None` if bytes are not counted.
    fn of(device: &'a Device, observer: &'a mut dyn Observer) -> Option<Self> {
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

    /// Returns the bytes in use. Also reports progress, since they may be a peak.
    fn read(&mut self) -> Result<u64, WorkloadError> {
        sync(self.device)?;
        progress(self.observer, self.device, Phase::WarmUp, 1, 1);
        let of_device = allocator(self.device).map(|bytes| bytes.in_use);
        // A counter that was available once stays available.
        Ok(of_device
            .or_else(|| self.observer.heap_bytes())
            .unwrap_or_default())
    }

    fn begin(&mut self) -> Result<(), WorkloadError> {
        self.begin = self.read()?;
        Ok(())
    }

    fn since_begin(&mut self) -> Result<u64, WorkloadError> {
        Ok(self.read()?.saturating_sub(self.begin))
    }

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
