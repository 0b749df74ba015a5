//! Parameter values on the host.

use crate::Format;

/// Parameter values on the host in row-major order: f64 if they were created or read as f64, otherwise f32.
#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    /// Values of f32 and all narrower formats.
    F32(Vec<f32>),
    /// Values of f64.
    F64(Vec<f64>),
}

impl Values {
    /// Returns the number of values.
    pub fn len(&self) -> usize {
        match self {
            Self::F32(values) => values.len(),
            Self::F64(values) => values.len(),
        }
    }

    /// Returns true if there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Rounds f64 values to f32 unless `format` is f64.
    ///
    /// For 16-bit formats, values are rounded twice, first to f32 and then to the format. PyTorch does the same when it
    /// loads an f64 checkpoint into an f32 model.
    #[must_use]
    pub fn for_format(self, format: Format) -> Self {
        match self {
            Self::F64(values) if format != Format::F64 => {
                Self::F32(values.into_iter().map(|x| x as f32).collect())
            }
            values => values,
        }
    }

    /// Returns the values as f64.
    pub fn to_f64(&self) -> Vec<f64> {
        match self {
            Self::F32(values) => values.iter().copied().map(f64::from).collect(),
            Self::F64(values) => values.clone(),
        }
    }
}

impl From<Vec<f32>> for Values {
    fn from(values: Vec<f32>) -> Self {
        Self::F32(values)
    }
}

impl From<Vec<f64>> for Values {
    fn from(values: Vec<f64>) -> Self {
        Self::F64(values)
    }
}
