//! Optimizers over flat parameters, with PyTorch's update rules; state and update in the precision of the parameters.

use burn::tensor::Tensor;
use mantissa_core::OptimizerKind;

use crate::{GradientSum, ParameterSet, PrecisionBackend, compute::round};

/// What an optimizer is told. Rates that a rule does not know are ignored.
#[derive(Debug, Clone, PartialEq)]
pub struct OptimizerSettings {
    /// The rule.
    pub kind: OptimizerKind,
    /// Learning rate.
    pub learning_rate: f64,
    /// Momentum of `sgd`, without dampening.
    pub momentum: f64,
    /// Decay of Adam's running mean of gradients.
    pub beta1: f64,
    /// Decay of Adam's running mean of squared gradients.
    pub beta2: f64,
    /// Added to Adam's denominator. In f16 anything below 3·10⁻⁸ rounds to zero.
    pub epsilon: f64,
    /// Decoupled weight decay of `adamw`.
    pub weight_decay: f64,
}

impl OptimizerSettings {
    /// PyTorch's defaults for `kind` at a learning rate.
    pub fn new(kind: OptimizerKind, learning_rate: f64) -> Self {
        let weight_decay = if kind == OptimizerKind::AdamW { 0.01 } else { 0.0 };
        Self {
            kind,
            learning_rate,
            momentum: 0.0,
            beta1: 0.9,
            beta2: 0.999,
            epsilon: 1e-8,
            weight_decay,
        }
    }
}

/// An optimizer and its state.
#[derive(Debug)]
pub struct Optimizer<B: PrecisionBackend> {
    settings: OptimizerSettings,
    steps: i32,
    state: Vec<State<B>>,
}

/// Running means of one parameter; absent until the first gradient.
#[derive(Debug, Clone, Default)]
struct State<B: PrecisionBackend> {
    first: Option<Tensor<B, 1>>,
    second: Option<Tensor<B, 1>>,
}

impl<B: PrecisionBackend> Optimizer<B> {
    /// An optimizer for `parameters` tensors.
    ///
    /// # Panics
    /// On a rule that this version does not have; settings that name one are skipped before they get here.
    pub fn new(settings: OptimizerSettings, parameters: usize) -> Self {
        let state = (0..parameters)
            .map(|_| State {
                first: None,
                second: None,
            })
            .collect();
        match settings.kind {
            OptimizerKind::Sgd | OptimizerKind::Adam | OptimizerKind::AdamW => Self {
                settings,
                steps: 0,
                state,
            },
            other => panic!("optimizer `{other}` is not built"),
        }
    }

    /// Applies one update. Gradients are rounded to the precision of their parameter first.
    pub fn step(&mut self, parameters: &mut ParameterSet<B>, gradients: GradientSum<B>) {
        self.steps += 1;
        let mut gradients = gradients.into_parts();
        parameters.update(|index, value| match gradients[index].take() {
            None => value,
            Some(gradient) => {
                let gradient = round(gradient, value.dtype());
                match self.settings.kind {
                    OptimizerKind::Sgd => self.sgd(index, value, gradient),
                    _ => self.adam(index, value, gradient),
                }
            }
        });
    }

    fn sgd(&mut self, index: usize, value: Tensor<B, 1>, gradient: Tensor<B, 1>) -> Tensor<B, 1> {
        let settings = &self.settings;
        if settings.momentum == 0.0 {
            return value - gradient.mul_scalar(settings.learning_rate);
        }
        let state = &mut self.state[index];
        let velocity = match state.first.take() {
            Some(velocity) => velocity.mul_scalar(settings.momentum) + gradient,
            None => gradient,
        };
        state.first = Some(velocity.clone());
        value - velocity.mul_scalar(settings.learning_rate)
    }

    fn adam(&mut self, index: usize, value: Tensor<B, 1>, gradient: Tensor<B, 1>) -> Tensor<B, 1> {
        let settings = &self.settings;
        let value = match settings.kind {
            OptimizerKind::AdamW => value.mul_scalar(1.0 - settings.learning_rate * settings.weight_decay),
            _ => value,
        };
        let state = &mut self.state[index];
        let first = running_mean(state.first.take(), gradient.clone(), settings.beta1);
        let second = running_mean(state.second.take(), gradient.clone() * gradient, settings.beta2);
        (state.first, state.second) = (Some(first.clone()), Some(second.clone()));

        let step_size = settings.learning_rate / (1.0 - settings.beta1.powi(self.steps));
        let correction = (1.0 - settings.beta2.powi(self.steps)).sqrt();
        let denominator = second.sqrt().div_scalar(correction).add_scalar(settings.epsilon);
        value - (first / denominator).mul_scalar(step_size)
    }
}

/// `decay · mean + (1 − decay) · sample`, from zero.
fn running_mean<B: PrecisionBackend>(
    mean: Option<Tensor<B, 1>>,
    sample: Tensor<B, 1>,
    decay: f64,
) -> Tensor<B, 1> {
    let share = sample.mul_scalar(1.0 - decay);
    match mean {
        Some(mean) => mean.mul_scalar(decay) + share,
        None => share,
    }
}
