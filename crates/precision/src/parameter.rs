//! A model's parameters: flat tensors under the names that checkpoints use.
//!
//! Every parameter is kept as a vector, so that optimizers, gradient sums and rounding know one shape only; a model
//! reshapes where it uses them, which costs nothing.

use burn::tensor::{Device, Tensor};
use mantissa_core::Format;

use crate::{
    Compute, Values,
    compute::{dtype, round},
    gradient,
    values::data_of,
};

/// Named parameters on a device, in order.
///
/// ```
/// use burn::tensor::{DType, Device};
/// use mantissa_precision::{Compute, ParameterSet, Precision};
///
/// let precision = Precision::MixedBf16;
/// let weight = ("weight".to_owned(), vec![1, 2], vec![0.1, 0.2]);
/// let parameters = ParameterSet::new([weight], precision.parameters(), &Device::flex());
/// assert_eq!(parameters.freeze().matrix("weight").dtype(), DType::F32);
///
/// // What forward passes read until the next update: each weight is rounded once.
/// let working = parameters.working(&Compute::from(precision), |name| name == "weight");
/// assert_eq!(working.freeze().matrix("weight").dtype(), DType::BF16);
/// ```
#[derive(Debug, Clone)]
pub struct ParameterSet {
    entries: Vec<Entry>,
}

#[derive(Debug, Clone)]
struct Entry {
    name: String,
    shape: Vec<usize>,
    value: Tensor<1>,
}

impl ParameterSet {
    /// Puts `(name, shape, values)` on a device, rounded to `format`. Values are in row-major order.
    pub fn new<V: Into<Values>>(
        parts: impl IntoIterator<Item = (String, Vec<usize>, V)>,
        format: Format,
        device: &Device,
    ) -> Self {
        let entries = parts
            .into_iter()
            .map(|(name, shape, values)| {
                let values = values.into().for_format(format);
                let data = data_of(values, [shape.iter().product::<usize>()]);
                let stored = data.dtype();
                let value = Tensor::from_data(data, (device, stored));
                Entry {
                    name,
                    shape,
                    value: round(value, dtype(format)),
                }
            })
            .collect();
        Self { entries }
    }

    /// Number of parameters, biases and embeddings included.
    pub fn count(&self) -> usize {
        self.entries
            .iter()
            .map(|entry| entry.shape.iter().product::<usize>())
            .sum()
    }

    /// Number of tensors.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Names and values, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Tensor<1>)> {
        self.entries
            .iter()
            .map(|entry| (entry.name.as_str(), &entry.value))
    }

    /// Whether every element is finite, read from the device once.
    ///
    /// # Errors
    /// What the device reports.
    pub fn all_finite(&self) -> Result<bool, String> {
        gradient::all_finite(self.entries.iter().map(|entry| &entry.value))
    }

    /// The parameters as forward passes read them: those whose name is `multiplied` in the format of matmul-class
    /// operations, once for all micro-batches of an optimizer step; the others as they are. Gradients of a copy are those of
    /// its parameter, rounded as they would be on their way through the cast.
    pub fn working(&self, compute: &Compute, multiplied: impl Fn(&str) -> bool) -> Self {
        let working = |entry: &Entry| match multiplied(&entry.name) {
            true => Entry {
                value: compute.operand(entry.value.clone()),
                ..entry.clone()
            },
            false => entry.clone(),
        };
        Self {
            entries: self.entries.iter().map(working).collect(),
        }
    }

    /// The parameters rounded to a format.
    pub fn in_format(&self, format: Format) -> Self {
        let rounded = |entry: &Entry| Entry {
            value: round(entry.value.clone(), dtype(format)),
            ..entry.clone()
        };
        Self {
            entries: self.entries.iter().map(rounded).collect(),
        }
    }

    /// The parameters as leaves of a fresh graph.
    pub fn track(&self) -> Tracked {
        let leaf = |entry: &Entry| Entry {
            name: entry.name.clone(),
            shape: entry.shape.clone(),
            value: Tensor::<1>::from_inner(entry.value.clone()).require_grad(),
        };
        Tracked {
            entries: self.entries.iter().map(leaf).collect(),
        }
    }

    /// The parameters without a graph, for inference.
    pub fn freeze(&self) -> Tracked {
        Tracked {
            entries: self.entries.clone(),
        }
    }

    /// Replaces each value by what `update(index, dimensions of its shape, value)` makes of it.
    pub(crate) fn update(&mut self, mut update: impl FnMut(usize, usize, Tensor<1>) -> Tensor<1>) {
        // Values are handed over, so that an update may happen in place.
        let entries = std::mem::take(&mut self.entries).into_iter().enumerate();
        let updated = entries.map(|(index, entry)| Entry {
            value: update(index, entry.shape.len(), entry.value),
            ..entry
        });
        self.entries = updated.collect();
    }
}

/// Parameters as a forward pass sees them.
#[derive(Debug, Clone)]
pub struct Tracked {
    entries: Vec<Entry>,
}

impl Tracked {
    fn entry(&self, name: &str) -> &Entry {
        self.entries
            .iter()
            .find(|entry| entry.name == name)
            .unwrap_or_else(|| panic!("no parameter `{name}`"))
    }

    /// The parameter of this name as a vector.
    ///
    /// # Panics
    /// If there is none: models name their own parameters.
    pub fn vector(&self, name: &str) -> Tensor<1> {
        self.entry(name).value.clone()
    }

    /// The parameter of this name as a matrix.
    ///
    /// # Panics
    /// If there is none, or it is no matrix.
    pub fn matrix(&self, name: &str) -> Tensor<2> {
        let entry = self.entry(name);
        let shape: [usize; 2] = entry
            .shape
            .as_slice()
            .try_into()
            .unwrap_or_else(|_| panic!("parameter `{name}` is no matrix"));
        entry.value.clone().reshape(shape)
    }

    /// Values in order.
    pub(crate) fn values(&self) -> impl Iterator<Item = &Tensor<1>> {
        self.entries.iter().map(|entry| &entry.value)
    }
}
