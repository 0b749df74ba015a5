//! Compares the gradients of a replayed module with those that burn computes for the module.
//!
//! A recording does not contain `detach()`, so a replay passes gradients through all operations. A module that stops gradients would train
//! differently than its author intended. The comparison runs once, in f32 on the CPU, with a few examples and the initial parameters.

#[cfg(test)]
mod tests;

use burn::tensor::{Device, Tensor, TensorData};
use mantissa_precision::{Autocast, Compute, Constants, Precision, without_recording};

use super::{UserWorkload, model::UserModel, parameters::ModuleParameters};
use crate::WorkloadError;

/// Number of examples in the comparison.
const EXAMPLES: usize = 2;

/// Maximum relative difference between the gradients of a parameter. A different order of summation causes smaller differences.
const TOLERANCE: f64 = 0.01;

/// Additional tolerance relative to the largest gradient norm. Gradients that are zero in exact arithmetic consist only of rounding errors.
const FLOOR: f64 = 1e-5;

/// Gradients by parameter.
type Gradients = Vec<Vec<f32>>;

/// Compares the gradients of a module with those of burn.
///
/// # Errors
/// The gradients differ.
pub(super) fn check<W: UserWorkload>(
    model: &UserModel<W>,
    examples: &[(W::Example, u32)],
) -> Result<(), WorkloadError> {
    let comparison = Comparison {
        model,
        examples: examples
            .iter()
            .take(EXAMPLES)
            .map(|(example, _)| example)
            .collect(),
        values: ModuleParameters::of(&*model.workload, model.seed).values,
        device: Device::flex().autodiff(),
    };
    let differing = without_recording(|| comparison.differing_parameters());
    if differing.is_empty() {
        return Ok(());
    }
    Err(WorkloadError::data(format!(
        "the gradients of `{}` differ from those that burn computes: the module stops or changes gradients (`detach`), which cannot be recorded",
        differing.join("`, `")
    )))
}

struct Comparison<'a, W: UserWorkload> {
    model: &'a UserModel<W>,
    examples: Vec<&'a W::Example>,
    values: Vec<Vec<f32>>,
    device: Device,
}

impl<W: UserWorkload> Comparison<'_, W> {
    /// Returns the names of parameters whose gradients differ.
    fn differing_parameters(&self) -> Vec<&str> {
        let burns = self.burn_gradients();
        // Skip the module if burn's own gradients differ when computed twice: it then uses another random generator. Compare bits, since NaN is
        // not equal to NaN.
        if bits(&self.burn_gradients()) != bits(&burns) {
            return vec![];
        }
        let ours = self.replay_gradients();
        let largest = burns.iter().map(|gradient| norm(gradient.iter().copied()));
        let floor = FLOOR * largest.fold(0.0, f64::max);
        let pairs = burns.iter().zip(&ours).zip(&*self.model.specs);
        pairs
            .filter(|((burns, ours), _)| {
                let difference = norm(burns.iter().zip(*ours).map(|(burns, ours)| burns - ours));
                let scale = norm(burns.iter().copied()).max(norm(ours.iter().copied()));
                difference > TOLERANCE * scale + floor
            })
            .map(|(_, spec)| spec.name.as_str())
            .collect()
    }

    /// Computes gradients with burn's autodiff, without a recording.
    fn burn_gradients(&self) -> Gradients {
        let workload = &self.model.workload;
        self.device.seed(self.model.seed);
        let module = workload.model(&self.device);
        self.gradients(|vector| {
            let module = self.model.with_parameters(module, vector, None);
            self.device.seed(self.model.seed);
            workload.forward(&module, workload.input(&self.examples, &self.device))
        })
    }

    /// Computes gradients by replaying a recording in f32.
    fn replay_gradients(&self) -> Gradients {
        let constants = Constants::new(self.model.seed);
        let autocast = Autocast::new(Compute::from(Precision::True32)).training(true);
        let replay = || {
            self.gradients(|vector| {
                self.device.seed(self.model.seed);
                let on = (&constants, &self.device);
                self.model.logits(autocast, on, &self.examples, vector)
            })
        };
        // The first replay computes the constants, which may consume random numbers. Use the gradients of the second one.
        replay();
        replay()
    }

    /// Computes the gradients of a weighted sum of the logits with fixed weights.
    fn gradients(&self, logits: impl FnOnce(&dyn Fn(usize) -> Tensor<1>) -> Tensor<2>) -> Gradients {
        let leaf = |values: &Vec<f32>| {
            let data = TensorData::new(values.clone(), [values.len()]);
            Tensor::<1>::from_data(data, &self.device).require_grad()
        };
        let leaves: Vec<_> = self.values.iter().map(leaf).collect();
        let logits = logits(&|index| leaves[index].clone());
        let [rows, classes] = logits.dims();
        let weights = (0..rows * classes).map(|number| (1.7 * number as f32 + 0.3).sin());
        let weights = TensorData::new(weights.collect::<Vec<_>>(), [rows, classes]);
        let weighted = logits * Tensor::from_data(weights, &self.device);
        // Add a zero that depends on a parameter, in case the logits do not depend on any parameter.
        let anchor = leaves[0].clone().sum().mul_scalar(0.0);
        let gradients = (weighted.sum() + anchor).backward();
        let values = |leaf: &Tensor<1>| match leaf.grad(&gradients) {
            Some(gradient) => gradient.into_data().iter::<f32>().collect(),
            None => vec![0.0; leaf.dims()[0]],
        };
        leaves.iter().map(values).collect()
    }
}

fn bits(gradients: &Gradients) -> Vec<u32> {
    gradients.iter().flatten().map(|value| value.to_bits()).collect()
}

fn norm(values: impl Iterator<Item = f32>) -> f64 {
    values.map(|value| f64::from(value).powi(2)).sum::<f64>().sqrt()
}
