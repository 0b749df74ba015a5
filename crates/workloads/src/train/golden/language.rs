//! Shared tests of text models. `peers/pytorch/golden/tiny.py` documents the format of the expected numbers.

use std::cell::RefCell;

use super::*;
use crate::{
    data::Tokenized,
    models::{KvCache, Stage},
};

/// All texts in one micro-batch.
pub(super) const ALL: [Rows; 1] = [(0, 3)];
/// All texts in two micro-batches.
pub(super) const PIECES: [Rows; 2] = [(0, 2), (2, 3)];

/// Label of a position without a prediction.
const IGNORED_LABEL: i32 = -100;

/// Prediction target of a tested model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    /// Class of each text.
    Class,
    /// Token after each token.
    NextToken,
    /// Tokens at masked positions.
    MaskedToken,
}

/// Tested model with the expected numbers, both from golden files.
pub(super) struct Golden<M> {
    pub numbers: Value,
    weights: String,
    target: Target,
    task: TrainTask,
    model: M,
}

/// Reads an integer of a configuration.
pub(super) fn size(config: &Value, key: &str) -> u32 {
    config[key].as_u64().unwrap() as u32
}

/// Reads a number of a configuration.
pub(super) fn number(config: &Value, key: &str) -> f64 {
    config[key].as_f64().unwrap()
}

impl<M: Network<Part = Tokenized>> Golden<M> {
    /// Loads the golden files of this name. `make` creates the model from the configuration in them.
    pub(super) fn new(name: &str, target: Target, make: impl FnOnce(&Value) -> (Model, M)) -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
        let text = std::fs::read(folder.join(format!("{name}.json"))).unwrap();
        let numbers: Value = serde_json::from_slice(&text).unwrap();
        let (of_task, model) = make(&numbers["config"]);
        // Use a smaller loss scale than the initial one of `16-mixed`, with which some gradients overflow.
        let updates = Updates {
            loss_scale: Some(1024.0),
            ..Updates::default()
        };
        Self {
            weights: format!("{name}.safetensors"),
            target,
            task: TrainTask {
                updates,
                ..task(of_task, 0.05)
            },
            model,
            numbers,
        }
    }

    /// Calls `run` with a trainer of the model.
    pub(super) fn with<T>(&self, axes: &[(Axis, &str)], run: impl FnOnce(&mut Trainer<M>) -> T) -> T {
        let axes = [&[(Axis::Optimizer, "sgd"), (Axis::Sequence, "8")], axes].concat();
        with_golden(
            &self.task,
            &axes,
            (self.model.clone(), self.weights.as_str()),
            run,
        )
    }

    /// Returns the texts of these rows with their labels.
    pub(super) fn batch(&self, (first, end): Rows) -> TokenBatch {
        if self.target == Target::Class {
            return batch(&self.numbers, (first, end));
        }
        let labels = &self.numbers["labels"].as_array().unwrap()[first..end];
        let labels: Vec<Vec<i32>> = labels.iter().map(ints).collect();
        let sequence = labels[0].len();
        let shift = usize::from(self.target == Target::NextToken);
        let mut predicted = vec![];
        for (row, labels) in labels.iter().enumerate() {
            let positions = (row * sequence..).zip(&labels[shift..]);
            predicted.extend(positions.filter(|(_, label)| **label != IGNORED_LABEL));
        }
        assert!(!predicted.is_empty());
        let ids = &self.numbers["input_ids"].as_array().unwrap()[first..end];
        TokenBatch {
            ids: ids.iter().flat_map(ints).collect(),
            lengths: lengths(&self.numbers)[first..end].to_vec(),
            rows: predicted.iter().map(|(place, _)| *place as i32).collect(),
            labels: predicted.iter().map(|(_, label)| **label).collect(),
        }
    }

    /// Returns all texts, with a prediction for every token, or for every text if the target is a class.
    pub(super) fn everything(&self) -> TokenBatch {
        let whole = self.batch(ALL[0]);
        if self.target == Target::Class {
            return whole;
        }
        let sequence = whole.ids.len() / whole.lengths.len();
        let tokens = whole.lengths.iter().zip((0i32..).step_by(sequence));
        let rows: Vec<i32> = tokens.flat_map(|(length, row)| row..row + length).collect();
        TokenBatch {
            labels: vec![0; rows.len()],
            rows,
            ..whole
        }
    }

    /// Returns the logits of a batch's predictions.
    pub(super) fn logits(&self, precision: &str, batch: &TokenBatch) -> Vec<f64> {
        self.with(&[(Axis::Precision, precision)], |trainer| {
            let parameters = trainer.working().freeze();
            let (logits, _) = trainer.predict(&parameters, batch);
            logits.into_data().iter::<f64>().collect()
        })
    }

    /// Returns the reference logits for [`Self::everything`]. Logits of padding tokens are left out.
    pub(super) fn wanted(&self, format: &str) -> Vec<f64> {
        let texts = self.numbers[format]["logits"].as_array().unwrap();
        if self.target == Target::Class {
            return texts.iter().flat_map(floats).collect();
        }
        let texts = texts.iter().zip(lengths(&self.numbers));
        let tokens = texts.flat_map(|(text, length)| &text.as_array().unwrap()[..length as usize]);
        tokens.flat_map(floats).collect()
    }

    pub(super) fn assert_logits(&self) {
        for (precision, format, tolerance) in [("64-true", "float64", 1e-10), ("32-true", "float32", 1e-5)] {
            let wanted = self.wanted(format);
            assert!(!wanted.is_empty());
            assert_close(
                &self.logits(precision, &self.everything()),
                &wanted,
                tolerance,
                precision,
            );
        }
    }

    pub(super) fn assert_loss_and_gradients(&self) {
        self.with(&[(Axis::Precision, "64-true")], |trainer| {
            let batch = self.batch(ALL[0]);
            let share = 1.0 / batch.labels.len() as f64;
            let mut sum = GradientSum::new(trainer.parameters.len());
            let loss = trainer.backward(&trainer.working(), &batch, share, &mut sum);
            let loss = share * loss.summed.into_data().iter::<f64>().sum::<f64>();
            let wanted = &self.numbers["float64"];
            assert_close(&[loss], &[number(wanted, "loss")], 1e-11, "loss");
            assert_gradients(trainer, &sum, &wanted["gradients"]);
        });
    }

    /// Asserts that padding tokens do not change any bit of the logits at other positions.
    pub(super) fn assert_padding_is_not_read(&self) {
        let clean = self.everything();
        let mut other = clean.clone();
        let sequence = clean.ids.len() / clean.lengths.len();
        let texts = other.ids.chunks_mut(sequence).zip(&clean.lengths);
        for id in texts.flat_map(|(text, length)| &mut text[*length as usize..]) {
            *id += 5;
        }
        let scrambled = other.ids.iter().zip(&clean.ids).filter(|(a, b)| a != b);
        assert!(scrambled.count() > 0, "the texts do not have padding");
        for precision in ["64-true", "32-true"] {
            assert_eq!(
                self.logits(precision, &other),
                self.logits(precision, &clean),
                "{precision}"
            );
        }
    }

    /// Returns the losses before each of three updates and after the last, over micro-batches of these rows.
    pub(super) fn losses(&self, axes: &[(Axis, &str)], parts: &[Rows]) -> Vec<f64> {
        self.with(axes, |trainer| {
            let pieces: Vec<_> = parts.iter().map(|rows| self.batch(*rows)).collect();
            (0..4).map(|_| trainer.step(&pieces).unwrap().loss).collect()
        })
    }

    /// Asserts that each layer alone in bf16 changes the loss, and that the loss is that of f32 if all layers are kept in f32. `patterns` must
    /// match all layers.
    pub(super) fn assert_every_layer_follows_the_setting(&self, patterns: &str) {
        let first = |kept: Option<&str>, precision| {
            self.with(&[(Axis::Precision, precision)], |trainer| {
                if let Some(layer) = kept {
                    trainer.model = trainer.model.clone().keep_in_f32_except(layer);
                }
                trainer.step(&[self.batch(ALL[0])]).unwrap().loss
            })
        };
        let exact = first(None, "32-true");
        let layers = self.model.layers();
        assert!(!layers.is_empty());
        for layer in &layers {
            assert_ne!(first(Some(layer), "bf16-mixed"), exact, "{layer} alone in bf16");
        }
        let kept = [(Axis::Precision, "bf16-mixed"), (Axis::KeepF32, patterns)];
        assert_eq!(
            self.losses(&kept, &ALL),
            self.losses(&[], &ALL),
            "all layers kept in f32"
        );
    }

    pub(super) fn assert_mixed_is_near_f32(&self) {
        let exact = self.losses(&[], &ALL);
        for (precision, tolerance) in [("bf16-mixed", 0.1), ("16-mixed", 0.01)] {
            let losses = self.losses(&[(Axis::Precision, precision)], &ALL);
            assert_ne!(losses, exact, "{precision}");
            assert_close(&losses, &exact, tolerance, precision);
        }
    }

    pub(super) fn assert_checkpointing_does_not_change_any_bit(&self, parts: &[Rows]) {
        for precision in ["64-true", "32-true", "bf16-mixed", "16-mixed"] {
            let of = |checkpointing| {
                let axes = [(Axis::Precision, precision), (Axis::Checkpointing, checkpointing)];
                self.losses(&axes, parts)
            };
            assert_eq!(of("on"), of("off"), "{precision}");
        }
    }

    /// Generates tokens greedily after the prompt. Returns the tokens and their logits. With a cache, the prompt is read in pieces of `piece`
    /// tokens. Without a cache, all tokens are read again for each new token.
    fn generated(&self, precision: &str, piece: Option<usize>) -> (Vec<i32>, Vec<Vec<f64>>) {
        self.with(&[(Axis::Precision, precision)], |trainer| {
            let parameters = trainer.working().freeze();
            let cache = RefCell::new(KvCache::default());
            // Logits after the last token.
            let logits = |ids: &[i32]| -> Vec<f64> {
                let batch = TokenBatch {
                    ids: ids.to_vec(),
                    lengths: vec![ids.len() as i32],
                    rows: vec![ids.len() as i32 - 1],
                    labels: vec![0],
                };
                let input = M::upload(&batch, trainer.device);
                let stage = Stage::Testing(&trainer.running);
                let pass = trainer.model.pass(&parameters, &trainer.compute, stage);
                let pass = match piece {
                    Some(_) => pass.with_cache(&cache),
                    None => pass,
                };
                let logits = trainer.model.forward(&pass, &input);
                logits.into_data().iter::<f64>().collect()
            };
            let mut ids = ints(&self.numbers["prompt"]);
            let (prompt, mut steps) = (ids.len(), vec![]);
            let mut last = vec![];
            for piece in ids.chunks(piece.unwrap_or(prompt)) {
                last = logits(piece);
            }
            for _ in 0..self.numbers["float64"]["greedy"].as_array().unwrap().len() {
                let best = (0..).zip(&last).max_by(|(_, a), (_, b)| a.total_cmp(b));
                let (next, _) = best.unwrap();
                ids.push(next);
                let next_logits = match piece {
                    Some(_) => logits(&[next]),
                    None => logits(&ids),
                };
                steps.push(std::mem::replace(&mut last, next_logits));
            }
            let cached = piece.map_or(0, |_| ids.len());
            assert_eq!(cache.borrow().tokens(), cached);
            (ids.split_off(prompt), steps)
        })
    }

    /// Asserts that greedy decoding generates the tokens of the reference, with and without a cache.
    pub(super) fn assert_greedy_decoding(&self) {
        let wanted = &self.numbers["float64"];
        let logits = wanted["steps"].as_array().unwrap();
        assert!(!logits.is_empty());
        for (precision, tolerance) in [("64-true", 1e-10), ("32-true", 1e-5)] {
            for piece in [None, Some(5), Some(3), Some(1)] {
                let context = format!("{precision}, {piece:?} tokens of the prompt at once");
                let (tokens, steps) = self.generated(precision, piece);
                assert_eq!(tokens, ints(&wanted["greedy"]), "{context}");
                for (step, wanted) in steps.iter().zip(logits) {
                    assert_close(step, &floats(wanted), tolerance, &context);
                }
            }
        }
    }
}
