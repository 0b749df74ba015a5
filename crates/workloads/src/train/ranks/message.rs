//! Messages between an asynchronous parameter server and its workers.
//!
//! Both run the same program on the same cell, which [`super::Ranks::agree`] checks. A message therefore has no names or lengths.

use mantissa_collectives::Gradient;
use mantissa_core::Format;

/// Task for a worker: the group of micro-batches of an optimizer step, and the parameters for its gradient.
#[derive(Debug, PartialEq)]
pub(super) struct TaskMessage {
    /// Index of the group in its epoch.
    pub(super) group: u64,
    /// Number in the training of the first example of the task.
    pub(super) first_example: u64,
    /// Loss scale.
    pub(super) scale: f64,
    /// Values of all parameters.
    pub(super) parameters: Gradient,
}

impl TaskMessage {
    /// Message after the last task of an epoch.
    pub(super) const END: [u8; 0] = [];

    pub(super) fn encode(&self) -> Vec<u8> {
        let header = [
            self.group.to_le_bytes(),
            self.first_example.to_le_bytes(),
            self.scale.to_le_bytes(),
        ];
        [header.as_flattened(), &self.parameters.to_bytes()].concat()
    }

    /// Decodes a message with parameters in a format. Returns `None` after the last task of an epoch.
    pub(super) fn decode(message: &[u8], format: Format) -> Option<Self> {
        let mut reader = Reader(message);
        (!message.is_empty()).then(|| Self {
            group: u64::from_le_bytes(reader.next()),
            first_example: u64::from_le_bytes(reader.next()),
            scale: f64::from_le_bytes(reader.next()),
            parameters: Gradient::from_bytes(format, reader.0),
        })
    }
}

/// Result of a task.
#[derive(Debug, PartialEq)]
pub(super) struct GradientMessage {
    /// Number of labels of the micro-batches.
    pub(super) labels: u64,
    /// Number of examples of the micro-batches.
    pub(super) examples: u64,
    /// Number of correct predictions.
    pub(super) hits: u64,
    /// Mean loss.
    pub(super) loss: f64,
    /// Factor of the gradient.
    pub(super) scale: f64,
    /// For each parameter, whether it has a gradient.
    pub(super) present: Vec<bool>,
    /// Gradients of these parameters.
    pub(super) gradient: Gradient,
}

impl GradientMessage {
    pub(super) fn encode(&self) -> Vec<u8> {
        let header = [
            self.labels.to_le_bytes(),
            self.examples.to_le_bytes(),
            self.hits.to_le_bytes(),
            self.loss.to_le_bytes(),
            self.scale.to_le_bytes(),
        ];
        let present: Vec<u8> = self.present.iter().map(|present| u8::from(*present)).collect();
        [header.as_flattened(), &present, &self.gradient.to_bytes()].concat()
    }

    /// Decodes a message with the gradient in a format.
    pub(super) fn decode(message: &[u8], parameters: usize, format: Format) -> Self {
        let mut reader = Reader(message);
        let [labels, examples, hits] = [(); 3].map(|()| u64::from_le_bytes(reader.next()));
        let [loss, scale] = [(); 2].map(|()| f64::from_le_bytes(reader.next()));
        let (present, gradient) = reader.0.split_at(parameters);
        Self {
            labels,
            examples,
            hits,
            loss,
            scale,
            present: present.iter().map(|present| *present == 1).collect(),
            gradient: Gradient::from_bytes(format, gradient),
        }
    }
}

/// Rest of a message.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn next(&mut self) -> [u8; 8] {
        let (next, rest) = self
            .0
            .split_first_chunk()
            .expect("the message has a whole header");
        self.0 = rest;
        *next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_decoded_to_what_was_encoded() {
        let task = TaskMessage {
            group: 3,
            first_example: 7,
            scale: 65536.0,
            parameters: Gradient::from_f64(Format::Bf16, [1.5, -2.0, 0.0]),
        };
        assert_eq!(TaskMessage::decode(&task.encode(), Format::Bf16), Some(task));
        assert_eq!(TaskMessage::decode(&TaskMessage::END, Format::F32), None);
        let gradient = GradientMessage {
            labels: 8,
            examples: 4,
            hits: 5,
            loss: 0.25,
            scale: 2.0,
            present: vec![true, false, true],
            gradient: Gradient::F32(vec![1.0, f32::INFINITY]),
        };
        assert_eq!(
            GradientMessage::decode(&gradient.encode(), 3, Format::F32),
            gradient
        );
    }
}
