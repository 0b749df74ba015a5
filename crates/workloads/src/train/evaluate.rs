//! Evaluates a model on the validation or test split.

use super::{evaluation::Evaluation, trainer::Trainer};
use crate::{
    Observer, Phase, Share, WorkloadError,
    data::{Labelled, Part},
    models::Network,
    outcome::{progress, read},
};

/// Predicts every example of a split, in order.
pub(super) fn evaluate<M: Network>(
    trainer: &Trainer<'_, M>,
    part: &M::Part,
    observer: &mut dyn Observer,
    phase: Phase,
) -> Result<Evaluation, WorkloadError> {
    let indices: Vec<usize> = (0..part.len()).collect();
    let batches = indices.chunks(trainer.cell.setting.batch() as usize);
    let total = batches.len() as u64;
    let parameters = trainer.working().freeze();
    let predicts_tokens = trainer.cell.workload.predicts_tokens();
    let (mut loss, mut passages, mut correct) = (0.0, vec![], String::with_capacity(part.len()));
    for (done, indices) in batches.enumerate() {
        let batch = part.batch(indices);
        let (logits, labels) = trainer.predict(&parameters, &batch);
        let predicted = logits
            .clone()
            .argmax(1)
            .flatten::<1>(0, 1)
            .equal(labels.clone())
            .int();
        loss += read::<f64, _, _>(trainer.compute.cross_entropy_sum(logits, labels))?[0];
        let hits: Vec<i64> = read(predicted)?;
        correct.extend(hits.iter().map(|hit| if *hit == 1 { '1' } else { '0' }));
        if predicts_tokens {
            let correct = hits.iter().map(|hit| *hit == 1);
            passages.extend(Share::by_passage(&batch.label_counts(), correct));
        }
        if phase == Phase::Evaluate {
            progress(observer, trainer.device, phase, done as u64 + 1, total);
        }
    }
    Ok(Evaluation::new(loss, correct, passages))
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;
    use mantissa_core::*;

    use crate::{Inputs, Outcome, TaskMeasurements, train::testing::ByteCountObserver};

    /// Trains a model on passages of sixteen tokens.
    fn train_language_model(
        model: Model,
        dataset: DatasetKind,
        (train, epochs, learning_rate): (u32, u32, f64),
        inputs: Inputs,
    ) -> Outcome {
        let (_, task) = crate::train::testing::cell(&[], false);
        let task = TrainTask {
            model,
            dataset,
            split: Split {
                join: false,
                train: Some(train),
                validation: 4,
                test: Some(5),
                seed: 1,
            },
            epochs,
            learning_rate,
            ..task
        };
        let workload = Workload {
            name: "words".into(),
            task: Task::Train(task.clone()),
        };
        let mut setting = Setting::of(&workload, Backend::Flex);
        for (axis, text) in [(Axis::Sequence, "16"), (Axis::Batch, "3")] {
            setting.set(axis, axis.parse(text).unwrap()).unwrap();
        }
        let cell = Cell::new("words", workload, setting, 1);
        let cache = tempfile::tempdir().unwrap();
        let inputs = Inputs {
            cache: cache.path().to_owned(),
            ..inputs
        };
        let outcome = crate::train::train(
            &cell,
            &task,
            &inputs,
            &Device::flex(),
            &mut mantissa_collectives::Single,
            &mut ByteCountObserver,
            crate::model_and_data::BuiltIn,
        );
        outcome.unwrap()
    }

    #[test]
    fn language_modelling_counts_tokens_and_texts_separately() {
        let size = Gpt2Size {
            vocab_size: 600,
            n_positions: 16,
            n_embd: 16,
            n_layer: 1,
            n_head: 2,
            n_inner: 32,
            embd_pdrop: 0.0,
            attn_pdrop: 0.0,
            resid_pdrop: 0.0,
            ..Gpt2Size::SMALL
        };
        let outcome = train_language_model(
            Model::Gpt2(size),
            DatasetKind::SyntheticText,
            (8, 2, 1e-9),
            Inputs::default(),
        );
        let TaskMeasurements::Train {
            examples,
            tokens,
            predicts_tokens,
            train,
            validation,
            test,
            validated_passages,
            tested_passages,
            ..
        } = outcome.measured
        else {
            panic!("{:?}", outcome.measured)
        };
        // Each text has sixteen tokens, of which fifteen are predicted.
        assert_eq!((predicts_tokens, examples, tokens), (true, 16, Some(256)));
        assert_eq!((train.n, validation.n, test.n), (8 * 15, 4 * 15, 5 * 15));
        assert_eq!((validated_passages.len(), tested_passages.len()), (4, 5));
        let hits = tested_passages.iter().map(|passage| passage.hits).sum::<u64>();
        assert_eq!(hits, test.hits);
        assert!(tested_passages.iter().all(|passage| passage.n == 15));
        assert!(outcome.samples.test_correct.is_none());
        // The learning rate is too small to learn, so all tokens stay about equally likely.
        for name in [SeriesName::TrainLoss, SeriesName::ValidationLoss] {
            let series = outcome.samples.get(name).unwrap();
            assert!(series.values().count() > 0);
            for loss in series.values() {
                assert!((loss - 600f64.ln()).abs() < 0.2, "{name} {loss}");
            }
        }
        let shares = outcome.samples.get(SeriesName::ValidationAccuracy).unwrap();
        assert!(shares.values().all(|share| (0.0..0.2).contains(&share)));
    }

    #[test]
    fn bert_learns_to_predict_masked_tokens() {
        let size = BertSize {
            hidden_size: 32,
            num_hidden_layers: 1,
            num_attention_heads: 2,
            intermediate_size: 64,
            max_position_embeddings: 16,
            hidden_dropout_prob: 0.0,
            attention_probs_dropout_prob: 0.0,
            layer_norm_eps: NORM_EPSILON,
        };
        // The text repeats the alphabet, so the neighbours of a letter determine the letter.
        let letters: Vec<String> = ('a'..='z').map(String::from).collect();
        let folder = tempfile::tempdir().unwrap();
        let write_file = |name: &str, text: String| {
            std::fs::write(folder.path().join(name), text).unwrap();
            folder.path().join(name)
        };
        let special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"].join("\n");
        let vocabulary = write_file("vocab.txt", format!("{special}\n{}", letters.join("\n")));
        let text = write_file("alphabet.txt", format!("{} ", letters.join(" ")).repeat(200));
        let inputs = Inputs {
            data: [(DatasetKind::Text, text)].into(),
            vocabulary: Some(vocabulary),
            ..Inputs::default()
        };
        let outcome = train_language_model(Model::Bert(size), DatasetKind::Text, (330, 40, 3e-3), inputs);
        let TaskMeasurements::Train {
            predicts_tokens,
            train,
            test,
            tested_passages,
            ..
        } = &outcome.measured
        else {
            panic!("{:?}", outcome.measured)
        };
        // Two of the fourteen tokens between the first and the last token of a passage are masked.
        assert_eq!((*predicts_tokens, train.n, test.n), (true, 330 * 2, 5 * 2));
        assert!(tested_passages.iter().all(|passage| passage.n == 2));
        // The chance level is one in thirty.
        assert!(test.hits >= 8, "{test:?}");
    }
}
