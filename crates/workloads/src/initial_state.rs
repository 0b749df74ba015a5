//! Initial weights of a model: from the user's checkpoint, or random ones from the seed.

use std::time::Instant;

use burn::tensor::{DType, Device, Tensor};
use mantissa_core::{Cell, Event, EventKind, Format, Values};
use mantissa_inputs::weights::Checkpoint;
use mantissa_precision::{Moments, ParameterSet, data_of, dtype};

use crate::{
    Inputs, ReadWeights, WorkloadError,
    models::{Network, Norms},
    outcome::sync,
    weights::fit,
};

/// State of a model on a device.
pub(crate) struct InitialState {
    pub parameters: ParameterSet,
    /// Running statistics of the batch norms, in at least f32 since they accumulate.
    pub running: Norms,
    /// Weights read from a checkpoint; absent if all weights are from the seed.
    pub read: Option<ReadWeights>,
    /// Notes about how a checkpoint was read, and which parameters were initialized from the seed.
    pub events: Vec<Event>,
}

/// Purpose of a model, which determines the weights that a checkpoint may lack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The head and the running statistics may be missing.
    Training,
    /// Nothing may be missing.
    Testing,
}

/// Creates a model's state on a device, in a format.
pub(crate) fn initial_state<M: Network>(
    model: &M,
    (cell, format, purpose): (&Cell, Format, Purpose),
    inputs: &Inputs,
    device: &Device,
) -> Result<InitialState, WorkloadError> {
    let Some(path) = inputs.weights_of(&cell.workload.name) else {
        let drawn = model.initial(cell.seed);
        return Ok(InitialState {
            parameters: ParameterSet::new(drawn, format, device),
            running: initial_running_statistics(model, format, device),
            read: None,
            events: vec![],
        });
    };
    let begun = Instant::now();
    let checkpoint = Checkpoint::open(path)?;
    let fitted = fit(&checkpoint, model, purpose == Purpose::Training)?;
    let mut failed = None;
    let read = fitted.parameters(cell.seed, format).map_while(|weight| {
        let weight = weight.map_err(|error| failed = Some(error));
        weight.ok()
    });
    let parameters = ParameterSet::new(read, format, device);
    if let Some(error) = failed {
        return Err(error);
    }
    let mut running = initial_running_statistics(model, format, device);
    let has_norms = running.is_empty() || fitted.has_norms();
    for (norm, [mean, variance]) in fitted.running(format)? {
        let entry = running.iter_mut().find(|(name, _)| *name == norm);
        let (_, moments) = entry.expect("`fit` returns only norms of the model");
        let dtype = moments.mean.dtype();
        let vector = |values: Values| {
            let count = values.len();
            Tensor::from_data(data_of(values, [count]), (device, dtype))
        };
        *moments = Moments {
            mean: vector(mean),
            variance: vector(variance),
        };
    }
    sync(device)?;
    let mut missing = fitted.missing_parts();
    if !has_norms {
        missing.push("running statistics");
    }
    let missing = (!missing.is_empty())
        .then(|| format!("missing in the checkpoint, initialized: {}", missing.join(", ")));
    let notes = fitted.notes().iter().cloned().chain(missing);
    let events = notes.map(|note| Event::new(EventKind::Weights, note));
    Ok(InitialState {
        parameters,
        running,
        read: Some(ReadWeights::Here {
            bytes: fitted.bytes(),
            seconds: begun.elapsed().as_secs_f64(),
        }),
        events: events.collect(),
    })
}

/// Returns initial running statistics.
pub(crate) fn initial_running_statistics<M: Network>(model: &M, format: Format, device: &Device) -> Norms {
    let dtype = match dtype(format) {
        DType::F64 => DType::F64,
        _ => DType::F32,
    };
    let norms = model.norms().into_iter();
    norms
        .map(|(name, channels)| (name, Moments::unit(channels, dtype, device)))
        .collect()
}
