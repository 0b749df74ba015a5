//! Traits that connect a trainer with labelled data sets of any kind.

use mantissa_core::DataSource;

/// One part of a labelled data set: training, validation or test.
pub trait Part {
    /// Batch of examples on the host.
    type Batch: Labelled;

    /// Returns the number of examples.
    fn len(&self) -> usize;

    /// Returns true if there are no examples.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the examples with these indices, in this order.
    ///
    /// # Panics
    /// If an index is out of range.
    fn batch(&self, indices: &[usize]) -> Self::Batch;

    /// Returns the vocabulary size if the examples are texts.
    fn words(&self) -> Option<u32> {
        None
    }
}

/// Batch of examples with labels.
pub trait Labelled {
    /// Returns the labels: the class of every example, from 0, or the target tokens.
    fn labels(&self) -> &[i32];

    /// Returns the number of examples.
    fn examples(&self) -> usize {
        self.labels().len()
    }

    /// Returns the inputs and labels as named tensors, for other programs.
    fn tensors(&self) -> Vec<Named<'_>> {
        vec![Named::whole("labels", vec![self.labels().len()], self.labels())]
    }

    /// Returns the number of labels of each example, in the order of the examples.
    fn label_counts(&self) -> Vec<u32> {
        vec![1; self.examples()]
    }
}

/// Named tensor in row-major order.
#[derive(Debug)]
pub struct Named<'a> {
    /// Name of the tensor.
    pub name: &'static str,
    /// Shape of the tensor.
    pub shape: Vec<usize>,
    /// Values of the tensor.
    pub numbers: Numbers<'a>,
}

/// Values of a tensor.
#[derive(Debug)]
pub enum Numbers<'a> {
    /// Integers: token ids, positions, classes.
    Whole(&'a [i32]),
    /// Floats: pixels.
    Real(&'a [f32]),
}

impl<'a> Named<'a> {
    /// Creates a tensor of integers.
    pub fn whole(name: &'static str, shape: Vec<usize>, numbers: &'a [i32]) -> Self {
        Self {
            name,
            shape,
            numbers: Numbers::Whole(numbers),
        }
    }
}

/// Labelled data set, split into parts.
#[derive(Debug)]
pub struct Dataset<P> {
    /// Training part.
    pub train: P,
    /// Validation part; may be empty.
    pub validation: P,
    /// Test part.
    pub test: P,
    /// Number of classes.
    pub classes: u32,
    /// Origin of the data.
    pub source: DataSource,
}
