//! What holds the memory of a training: the allocator is asked after each part of a step, apart from every timed one.

use mantissa_precision::{GradientSum, PrecisionBackend};

use super::{Trainer, sync};
use crate::{
    MemoryParts, Observer, WorkloadError,
    data::{TextDataset, TokenBatch},
    outcome::allocator,
};

/// Reads the parts in a step over one micro-batch that changes no parameter; absent where nobody counts bytes.
pub(super) fn parts<B: PrecisionBackend>(
    trainer: &mut Trainer<'_, B>,
    data: &TextDataset,
    observer: &dyn Observer,
) -> Result<Option<MemoryParts>, WorkloadError> {
    let device = trainer.device;
    let source = if allocator::<B>(device).is_some() {
        "device allocator, in use"
    } else {
        "allocations of the program, in use"
    };
    let in_use = || {
        sync::<B>(device)?;
        let of_device = allocator::<B>(device).map(|bytes| bytes.in_use);
        Ok::<_, WorkloadError>(of_device.or_else(|| observer.heap_bytes()))
    };
    trainer.rest();
    let Some(start) = in_use()? else {
        return Ok(None);
    };
    // Nobody who counted once stops counting.
    let now = || in_use().map(Option::unwrap_or_default);
    let since = |start: u64| now().map(|bytes| bytes.saturating_sub(start));

    let copies: Vec<_> = trainer
        .parameters
        .iter()
        .map(|(_, value)| value.clone() * 1.0)
        .collect();
    let weights = since(start)?;
    drop(copies);

    // Where the formats are one, nothing is copied: what the allocator would show are the handles.
    let precision = trainer.compute.precision();
    let weight_copies = if precision.compute() == precision.parameters() {
        0
    } else {
        let start = now()?;
        let parameters = trainer.parameters.iter();
        let multiplied = parameters.filter(|(name, _)| trainer.model.multiplied(name));
        let copies: Vec<_> = multiplied
            .map(|(_, value)| trainer.compute.operand(value.clone()))
            .collect();
        let held = since(start)?;
        drop(copies);
        held
    };

    let batch = first_batch(trainer, data);
    let start = now()?;
    let tracked = trainer.parameters.track();
    let (loss, right) = trainer.loss(&tracked, &batch);
    let activations = since(start)?.saturating_sub(weight_copies);

    let mut sum = GradientSum::new(trainer.parameters.len());
    sum.add(loss, &tracked);
    drop((tracked, right));
    let with_gradients = now()?;
    drop(sum);
    let gradients = with_gradients.saturating_sub(now()?);

    let mut sum = GradientSum::new(trainer.parameters.len());
    let tracked = trainer.parameters.track();
    sum.add(trainer.loss(&tracked, &batch).0, &tracked);
    drop(tracked);
    trainer.optimizer.step(&mut trainer.parameters, sum);
    let with_state = now()?;
    trainer.rest();
    let optimizer = with_state.saturating_sub(now()?);
    Ok(Some(MemoryParts {
        weights,
        weight_copies,
        activations,
        gradients,
        optimizer,
        source,
    }))
}

fn first_batch<B: PrecisionBackend>(trainer: &Trainer<'_, B>, data: &TextDataset) -> TokenBatch {
    let size = (trainer.cell.setting.batch() as usize).min(data.train.len());
    let indices: Vec<usize> = (0..size).collect();
    data.train.batch(&indices, trainer.sequence())
}
