//! Saves the weights of a trained model.

use std::path::Path;

use burn::tensor::{DType, Tensor};
use mantissa_core::Values;
use mantissa_inputs::weights::{Weight, save_weights};

use super::trainer::Trainer;
use crate::{WorkloadError, models::Network, outcome::read};

/// Writes the parameters and the running statistics of the batch norms to a safetensors file, under the names of published checkpoints.
///
/// # Errors
/// An error of the device, or the file cannot be written.
pub(super) fn save<M: Network>(trainer: &Trainer<'_, M>, path: &Path) -> Result<(), WorkloadError> {
    let mut weights: Vec<Weight> = vec![];
    for (spec, (name, value)) in trainer
        .model
        .parameters()
        .into_iter()
        .zip(trainer.parameters.iter())
    {
        assert_eq!(spec.name, name, "parameters are in the order of the model");
        weights.push((spec.name, spec.shape, values(value)?));
    }
    for (norm, moments) in &trainer.running {
        for (part, tensor) in [
            ("running_mean", &moments.mean),
            ("running_var", &moments.variance),
        ] {
            let values = values(tensor)?;
            weights.push((format!("{norm}.{part}"), vec![values.len()], values));
        }
    }
    save_weights(path, &weights).map_err(|error| {
        WorkloadError::device(format!(
            "cannot write the weights to `{}`: {error}",
            path.display()
        ))
    })
}

fn values(tensor: &Tensor<1>) -> Result<Values, WorkloadError> {
    Ok(match tensor.dtype() {
        DType::F64 => Values::F64(read(tensor.clone())?),
        _ => Values::F32(read(tensor.clone())?),
    })
}
