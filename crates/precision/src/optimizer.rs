//! Optimizers over flat parameters, with the update rules of PyTorch (SGD, Adam, AdamW) and timm (LARS, LAMB). These libraries define the
//! points at which state and update are rounded to the format of the parameters. Rates and norms are at least f32.

use burn::{backend::Dispatch, tensor::Tensor};
use mantissa_core::{Format, OptimizerKind};

use crate::{
    AdamRates, GradientSum, ParameterSet,
    backend::PrecisionBackend,
    dtypes::dtype,
    tensor_ops::{ordered_sum, round, times, wide},
};

/// LARS trust coefficient: share of a parameter's norm by which a step may move the parameter (arXiv 1708.03888, table 2).
const LARS_TRUST: f64 = 1e-3;

/// Added to the denominator of LARS' trust ratio to keep it finite, as in timm.
const LARS_EPSILON: f64 = 1e-8;

/// Settings of an optimizer. Rates that a rule does not use are ignored.
#[derive(Debug, Clone, PartialEq)]
pub struct OptimizerSettings {
    /// Update rule.
    pub kind: OptimizerKind,
    /// Learning rate.
    pub learning_rate: f64,
    /// Momentum of `sgd` and `lars`, without dampening.
    pub momentum: f64,
    /// Decay of Adam's and LAMB's running mean of gradients.
    pub beta1: f64,
    /// Decay of Adam's and LAMB's running mean of squared gradients.
    pub beta2: f64,
    /// Added to Adam's and LAMB's denominator. In f16, values below 3·10⁻⁸ round to zero.
    pub epsilon: f64,
    /// Weight decay. `adamw` applies it to the parameters (decoupled). `lars` adds it to the gradient, and `lamb` to the update; both do so
    /// for matrices only.
    pub weight_decay: f64,
    /// Maximum joint norm of all gradients. Larger gradients are scaled down before the update: see [`GradientSum::clip`].
    pub clip_norm: Option<f64>,
}

impl OptimizerSettings {
    /// Returns PyTorch's defaults for `kind` at a learning rate, without clipping.
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
            clip_norm: None,
        }
    }
}

/// An optimizer and its state.
///
/// ```
/// use mantissa_precision::{
///     GradientSum, Optimizer, OptimizerKind, OptimizerSettings, ParameterSet, Precision,
/// };
///
/// let bias = ("bias".to_owned(), vec![1], vec![1.0]);
/// let format = Precision::True32.parameters();
/// let mut parameters = ParameterSet::new([bias], format, &burn::tensor::Device::flex());
/// let settings = OptimizerSettings::new(OptimizerKind::Sgd, 0.5);
/// let mut optimizer = Optimizer::new(settings, parameters.len());
///
/// let leaves = parameters.track();
/// let mut gradients = GradientSum::new(parameters.len());
/// gradients.add(leaves.vector("bias").powi_scalar(2), &leaves); // whose gradient at 1 is 2
/// optimizer.step(&mut parameters, gradients);
/// assert_eq!(parameters.freeze().vector("bias").into_scalar::<f32>(), 0.0);
/// ```
#[derive(Debug, Clone)]
pub struct Optimizer {
    settings: OptimizerSettings,
    /// Steps so far, for LAMB's bias correction as in timm. Adam instead counts the steps in which a parameter had a gradient.
    steps: i32,
    state: Vec<State>,
    /// Norm of the gradients of the last step before clipping; `None` without clipping.
    norm: Option<Tensor<1>>,
}

/// Running means of one parameter, or its velocity for SGD and LARS; absent until the first gradient.
#[derive(Debug, Clone)]
struct State {
    /// Steps counted by Adam.
    steps: i32,
    first: Option<Tensor<1>>,
    second: Option<Tensor<1>>,
}

impl Optimizer {
    /// Creates an optimizer for `parameters` tensors.
    pub fn new(settings: OptimizerSettings, parameters: usize) -> Self {
        let state = (0..parameters)
            .map(|_| State {
                steps: 0,
                first: None,
                second: None,
            })
            .collect();
        Self {
            settings,
            steps: 0,
            state,
            norm: None,
        }
    }

    /// Sets the learning rate of future steps.
    pub fn set_learning_rate(&mut self, learning_rate: f64) {
        self.settings.learning_rate = learning_rate;
    }

    /// Returns the same optimizer with its state rounded to a format.
    pub fn in_format(&self, format: Format) -> Self {
        let rounded = |tensor: &Tensor<1>| round(tensor.clone(), dtype(format));
        let state = self.state.iter().map(|state| State {
            first: state.first.as_ref().map(rounded),
            second: state.second.as_ref().map(rounded),
            ..state.clone()
        });
        Self {
            settings: self.settings.clone(),
            steps: self.steps,
            state: state.collect(),
            norm: self.norm.clone(),
        }
    }

    /// Takes the norm of the gradients of the last step before clipping, a vector of one element. Returns `None`
    /// without clipping, or if the norm was already taken.
    pub fn take_norm(&mut self) -> Option<Tensor<1>> {
        self.norm.take()
    }

    /// Iterates over the state: index of a parameter, name of the moment, and its values.
    pub fn state(&self) -> impl Iterator<Item = (usize, &'static str, &Tensor<1>)> {
        self.state.iter().enumerate().flat_map(|(index, state)| {
            let moments = [("first moment", &state.first), ("second moment", &state.second)];
            moments
                .into_iter()
                .filter_map(move |(name, value)| Some((index, name, value.as_ref()?)))
        })
    }

    /// Applies one update. Gradients are clipped, then rounded to the precision of their parameter. Divide out the loss
    /// scale before the call, as [`LossScaler::step`](crate::LossScaler::step) does.
    pub fn step(&mut self, parameters: &mut ParameterSet, mut gradients: GradientSum) {
        if let Some(max_norm) = self.settings.clip_norm {
            self.norm = gradients.clip(max_norm);
        }
        self.steps += 1;
        let mut gradients = gradients.into_parts();
        parameters.update(|index, dimensions, value| match gradients[index].take() {
            None => value,
            Some(gradient) => {
                let dtype = value.dtype();
                let rounded = |gradient| round(gradient, dtype);
                let is_matrix = dimensions > 1;
                match self.settings.kind {
                    OptimizerKind::Sgd => self.sgd(index, value, rounded(gradient)),
                    OptimizerKind::Adam | OptimizerKind::AdamW => self.adam(index, value, gradient),
                    OptimizerKind::Lars => self.lars(index, value, rounded(gradient), is_matrix),
                    OptimizerKind::Lamb => self.lamb(index, value, rounded(gradient), is_matrix),
                }
            }
        });
    }

    /// Applies layer-wise adaptive rate scaling (arXiv 1708.03888): a matrix moves by a share of its norm. Vectors (biases,
    /// weights of norm layers) are neither scaled nor decayed.
    fn lars(&mut self, index: usize, value: Tensor<1>, gradient: Tensor<1>, is_matrix: bool) -> Tensor<1> {
        if !is_matrix {
            return self.sgd(index, value, gradient);
        }
        let decay = self.settings.weight_decay;
        let (value_norm, gradient_norm) = (norm(&value), norm(&gradient));
        let denominator = gradient_norm.clone() + value_norm.clone().mul_scalar(decay);
        let ratio = value_norm.clone().mul_scalar(LARS_TRUST) / denominator.add_scalar(LARS_EPSILON);
        let ratio = one_where_zero(ratio, [value_norm, gradient_norm]);
        let gradient = scale(scaled_add(gradient, value.clone(), decay), ratio);
        self.sgd(index, value, gradient)
    }

    fn sgd(&mut self, index: usize, value: Tensor<1>, gradient: Tensor<1>) -> Tensor<1> {
        let settings = &self.settings;
        if settings.momentum == 0.0 {
            return scaled_add(value, gradient, -settings.learning_rate);
        }
        let state = &mut self.state[index];
        let velocity = match state.first.take() {
            Some(velocity) => scaled_add(gradient, times(velocity, settings.momentum), 1.0),
            None => gradient,
        };
        state.first = Some(velocity.clone());
        scaled_add(value, velocity, -settings.learning_rate)
    }

    fn adam(&mut self, index: usize, value: Tensor<1>, gradient: Tensor<1>) -> Tensor<1> {
        let settings = &self.settings;
        let decay = match settings.kind {
            OptimizerKind::AdamW => settings.learning_rate * settings.weight_decay,
            _ => 0.0,
        };
        self.state[index].steps += 1;
        let steps = self.state[index].steps;
        let rates = AdamRates {
            keep: 1.0 - decay,
            share1: 1.0 - settings.beta1,
            decay2: settings.beta2,
            share2: 1.0 - settings.beta2,
            correction1: 1.0 - settings.beta1.powi(steps),
            correction2: (1.0 - settings.beta2.powi(steps)).sqrt(),
            epsilon: settings.epsilon,
            learning_rate: settings.learning_rate,
        };
        let state = &mut self.state[index];
        let mean = |mean: &mut Option<Tensor<1>>| {
            let mean = mean.take().unwrap_or_else(|| value.zeros_like());
            mean.into_dispatch()
        };
        let (first, second) = (mean(&mut state.first), mean(&mut state.second));
        let value = value.into_dispatch();
        let (value, first, second) = Dispatch::adam(value, first, second, gradient.into_dispatch(), rates);
        let [value, first, second] = [value, first, second].map(Tensor::from_dispatch);
        (state.first, state.second) = (Some(first), Some(second));
        value
    }

    /// Applies Adam's update scaled to the norm of its matrix (arXiv 1904.00962). Vectors are neither scaled nor
    /// decayed.
    fn lamb(&mut self, index: usize, value: Tensor<1>, gradient: Tensor<1>, is_matrix: bool) -> Tensor<1> {
        let learning_rate = self.settings.learning_rate;
        let update = self.adam_update(index, gradient, self.steps);
        if !is_matrix {
            return scaled_add(value, update, -learning_rate);
        }
        let update = scaled_add(update, value.clone(), self.settings.weight_decay);
        let (value_norm, update_norm) = (norm(&value), norm(&update));
        let ratio = value_norm.clone() / update_norm.clone();
        let ratio = one_where_zero(ratio, [value_norm, update_norm]);
        scaled_add(value, scale(update, ratio), -learning_rate)
    }

    /// Computes Adam's update for a learning rate of 1: the mean of the gradients over the root of the mean of their squares, both means
    /// bias-corrected for `steps` steps.
    fn adam_update(&mut self, index: usize, gradient: Tensor<1>, steps: i32) -> Tensor<1> {
        let settings = &self.settings;
        let state = &mut self.state[index];
        let previous = |mean: &mut Option<Tensor<1>>| mean.take().unwrap_or_else(|| gradient.zeros_like());
        let (first, second) = (previous(&mut state.first), previous(&mut state.second));
        let dtype = gradient.dtype();
        let rounded = |tensor| round(tensor, dtype);
        let gradient = wide(gradient.clone());

        let first = wide(first);
        let first = rounded(first.clone() + (gradient.clone() - first).mul_scalar(1.0 - settings.beta1));
        let square = gradient.clone().mul_scalar(1.0 - settings.beta2) * gradient;
        let second = rounded(wide(times(second, settings.beta2)) + square);
        (state.first, state.second) = (Some(first.clone()), Some(second.clone()));

        let correction = (1.0 - settings.beta2.powi(steps)).sqrt();
        let root = wide(rounded(wide(second).sqrt())).div_scalar(correction);
        let denominator = rounded(wide(rounded(root)).add_scalar(settings.epsilon));
        let first = times(first, 1.0 / (1.0 - settings.beta1.powi(steps)));
        rounded(wide(first) / wide(denominator))
    }
}

/// Returns the Euclidean norm, `[1]`, in at least f32: squares of 16-bit values overflow or underflow.
fn norm(vector: &Tensor<1>) -> Tensor<1> {
    let vector = wide(vector.clone());
    ordered_sum(vector.clone() * vector).sqrt()
}

/// Returns a ratio of norms, or 1 where one of them is zero.
fn one_where_zero(ratio: Tensor<1>, norms: [Tensor<1>; 2]) -> Tensor<1> {
    norms
        .into_iter()
        .fold(ratio, |ratio, norm| ratio.mask_fill(norm.equal_elem(0.0), 1.0))
}

/// Multiplies every element by a factor `[1]` of at least f32 and rounds once.
fn scale(vector: Tensor<1>, factor: Tensor<1>) -> Tensor<1> {
    let dtype = vector.dtype();
    round(wide(vector) * factor, dtype)
}

/// Computes `a + factor · b`, rounded once.
fn scaled_add(a: Tensor<1>, b: Tensor<1>, factor: f64) -> Tensor<1> {
    let dtype = a.dtype();
    round(wide(a) + wide(b).mul_scalar(factor), dtype)
}
