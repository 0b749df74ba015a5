//! Parameters of a model: flat tensors under the names that checkpoints use.
//!
//! Each parameter is a vector, so optimizers, gradient sums and rounding need to support only one shape. A model reshapes the parameters
//! that it reads, which does not copy.

use burn::tensor::{Device, Tensor};
use mantissa_core::Format;

use crate::{Compute, Values, dtypes::dtype, gradient, tensor_ops::round, values::data_of};

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
/// // Copy for forward passes until the next update: each weight is rounded once.
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
    /// Creates parameters from `(name, shape, values)` on a device, rounded to `format`. Values are in row-major order.
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

    /// Returns the number of scalar parameters, including biases and embeddings.
    pub fn count(&self) -> usize {
        self.entries
            .iter()
            .map(|entry| entry.shape.iter().product::<usize>())
            .sum()
    }

    /// Returns the number of parameter tensors.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns true if there are no tensors.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Iterates over names and values, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Tensor<1>)> {
        self.entries
            .iter()
            .map(|entry| (entry.name.as_str(), &entry.value))
    }

    /// Returns true if all elements are finite. Reads from the device once.
    ///
    /// # Errors
    /// Any error that the device reports.
    pub fn all_finite(&self) -> Result<bool, String> {
        gradient::all_finite(self.entries.iter().map(|entry| &entry.value))
    }

    /// Returns a copy of the parameters for forward passes. Parameters for whose name `is_matmul_operand` is true are cast to the format of
    /// matmuls; the others are unchanged. One copy serves all micro-batches of an optimizer step. Its gradients are used as gradients of
    /// the parameters and have the same rounding as with a cast inside the graph.
    pub fn working(&self, compute: &Compute, is_matmul_operand: impl Fn(&str) -> bool) -> Self {
        let working = |entry: &Entry| match is_matmul_operand(&entry.name) {
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

    /// Returns the parameters rounded to a format.
    pub fn in_format(&self, format: Format) -> Self {
        let rounded = |entry: &Entry| Entry {
            value: round(entry.value.clone(), dtype(format)),
            ..entry.clone()
        };
        Self {
            entries: self.entries.iter().map(rounded).collect(),
        }
    }

    /// Returns the parameters as leaves of a new autodiff graph.
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

    /// Returns the parameters without an autodiff graph, for inference.
    pub fn freeze(&self) -> Tracked {
        Tracked {
            entries: self.entries.clone(),
        }
    }

    /// Replaces all values, in order. They are rounded to the format of the values that they replace.
    pub fn replace(&mut self, values: impl IntoIterator<Item = Tensor<1>>) {
        let mut values = values.into_iter();
        self.update(|_, _, value| {
            let new = values.next().expect("there is a value for every parameter");
            assert_eq!(new.dims(), value.dims(), "the new values have the same shape");
            round(new, value.dtype())
        });
    }

    /// Replaces each value by the result of `update(index, dimensions of its shape, value)`.
    pub(crate) fn update(&mut self, mut update: impl FnMut(usize, usize, Tensor<1>) -> Tensor<1>) {
        // Values are moved into the closure, which allows in-place updates.
        let entries = std::mem::take(&mut self.entries).into_iter().enumerate();
        let updated = entries.map(|(index, entry)| Entry {
            value: update(index, entry.shape.len(), entry.value),
            ..entry
        });
        self.entries = updated.collect();
    }
}

/// Parameters as the input of a forward pass.
#[derive(Debug, Clone)]
pub struct Tracked {
    entries: Vec<Entry>,
}

impl Tracked {
    fn entry(&self, name: &str) -> &Entry {
        self.entries
            .iter()
            .find(|entry| entry.name == name)
            .unwrap_or_else(|| panic!("unknown parameter `{name}`"))
    }

    /// Returns the parameter of this name as a vector.
    ///
    /// # Panics
    /// If it does not exist. Models use only names of their own parameters.
    pub fn vector(&self, name: &str) -> Tensor<1> {
        self.entry(name).value.clone()
    }

    /// Returns the parameter of this name as a matrix.
    ///
    /// # Panics
    /// If it does not exist or is not a matrix.
    pub fn matrix(&self, name: &str) -> Tensor<2> {
        let entry = self.entry(name);
        let shape: [usize; 2] = entry
            .shape
            .as_slice()
            .try_into()
            .unwrap_or_else(|_| panic!("parameter `{name}` is not a matrix"));
        entry.value.clone().reshape(shape)
    }

    /// Iterates over the values, in order.
    pub(crate) fn values(&self) -> impl Iterator<Item = &Tensor<1>> {
        self.entries.iter().map(|entry| &entry.value)
    }
}
