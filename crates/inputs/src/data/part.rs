//! What a trainer needs of a labelled data set, whatever it holds.

use mantissa_core::DataSource;

/// One part of a labelled data set.
pub trait Part {
    /// Some of its examples, as the host holds them.
    type Batch: Labelled;

    /// Number of examples.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The examples of these numbers, in this order.
    ///
    /// # Panics
    /// If there is no such example.
    fn batch(&self, indices: &[usize]) -> Self::Batch;

    /// Ids of the vocabulary, where examples are texts.
    fn words(&self) -> Option<u32> {
        None
    }
}

/// Examples, and what is asked about them.
pub trait Labelled {
    /// The answers: the class of every example, from 0, or the words that are asked for.
    fn labels(&self) -> &[i32];

    /// Number of examples.
    fn examples(&self) -> usize {
        self.labels().len()
    }

    /// The same by name, for other programs: as models take them, and what is asked.
    fn tensors(&self) -> Vec<Named<'_>> {
        vec![Named::whole("labels", vec![self.labels().len()], self.labels())]
    }

    /// How many of the answers belong to each example; they stand in the order of examples.
    fn answers(&self) -> Vec<u32> {
        vec![1; self.examples()]
    }
}

/// Numbers with a name and a shape, in row-major order.
#[derive(Debug)]
pub struct Named<'a> {
    /// What they are.
    pub name: &'static str,
    /// Their shape.
    pub shape: Vec<usize>,
    /// They themselves.
    pub numbers: Numbers<'a>,
}

/// Numbers as examples have them.
#[derive(Debug)]
pub enum Numbers<'a> {
    /// Token ids, places, classes.
    Whole(&'a [i32]),
    /// Pixels.
    Real(&'a [f32]),
}

impl<'a> Named<'a> {
    /// Of whole numbers.
    pub fn whole(name: &'static str, shape: Vec<usize>, numbers: &'a [i32]) -> Self {
        Self {
            name,
            shape,
            numbers: Numbers::Whole(numbers),
        }
    }
}

/// A labelled data set, divided.
#[derive(Debug)]
pub struct Dataset<P> {
    /// For training.
    pub train: P,
    /// For validation; may be empty.
    pub validation: P,
    /// For the test.
    pub test: P,
    /// Number of classes.
    pub classes: u32,
    /// Where it came from.
    pub source: DataSource,
}
