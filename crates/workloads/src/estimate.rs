//! Estimates the memory of a cell before it runs, from the shapes of the model's parameters, the setting, and the tensors that each
//! operation of a forward pass saves.

mod formats;
mod forward;
mod kv_cache;
mod ledger;

use mantissa_core::{Cell, OptimizerKind, Task, TrainTask};

use crate::models::{BuiltInModel, Network, with_model};
use formats::{bytes, f32_layers, wide};

/// Assumed vocabulary size if it depends on data that is not read yet: that of `bert-base-uncased`.
const VOCABULARY_SIZE: u32 = 30_522;
/// Assumed number of text classes before the data is read.
const TEXT_CLASSES: u32 = 2;
/// Assumed number of image classes before the data is read.
const IMAGE_CLASSES: u32 = 10;

/// Estimated memory breakdown of a cell in bytes, with the parts of [`MemoryParts`](crate::MemoryParts) and the cached keys and values of a
/// generation. A part that a cell does not have is 0.
///
/// The estimate counts the bytes of tensors. It ignores rounding by an allocator and the temporary memory of operations. On the CPU, the
/// allocator also counts the bookkeeping of burn's graph: some 50 kB per transformer block, independent of the batch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemoryEstimate {
    /// Bytes of the parameters.
    pub weights: u64,
    /// Bytes of the low-precision copies of parameters that forward passes read.
    pub weight_copies: u64,
    /// Bytes of all other tensors that the forward pass of a micro-batch saves for its backward pass.
    pub activations: u64,
    /// Bytes of the gradients after a backward pass.
    pub gradients: u64,
    /// Bytes of the optimizer state after a step.
    pub optimizer: u64,
    /// Bytes of the cached keys and values when the last token is generated.
    pub keys_and_values: u64,
}

impl MemoryEstimate {
    /// Returns the sum of all parts. A training never needs the full sum at once: activations are freed while gradients are computed.
    pub fn total(&self) -> u64 {
        self.weights
            + self.weight_copies
            + self.activations
            + self.gradients
            + self.optimizer
            + self.keys_and_values
    }
}

/// Estimates the memory of a cell. Returns `None` for a kernel.
///
/// Vocabulary size and number of classes come from the model's size if it defines them. Otherwise, the estimate assumes a vocabulary of 30,522,
/// two text classes and ten image classes.
pub fn estimate(cell: &Cell) -> Option<MemoryEstimate> {
    let classes = match cell.workload.model()?.takes_images() {
        true => IMAGE_CLASSES,
        false => TEXT_CLASSES,
    };
    estimate_for(cell, (VOCABULARY_SIZE, classes))
}

/// Same as [`estimate`] for data that is already read, with its `vocabulary_size` and number of `classes`.
pub(crate) fn estimate_for(cell: &Cell, (vocabulary_size, classes): (u32, u32)) -> Option<MemoryEstimate> {
    let precision = cell.setting.precision();
    let model = BuiltInModel::of(cell, (vocabulary_size, classes))?;
    let parameters = with_model!(model, model => count_parameters(model, cell));
    let weights_only = MemoryEstimate {
        weights: parameters.all * bytes(precision.parameters()),
        weight_copies: match precision.is_mixed() {
            true => parameters.multiplied * bytes(precision.compute()),
            false => 0,
        },
        ..MemoryEstimate::default()
    };
    Some(match &cell.workload.task {
        Task::Train(task) => MemoryEstimate {
            activations: forward::activations(cell, task, (vocabulary_size, classes)),
            gradients: parameters.all * bytes(wide(precision.parameters())),
            optimizer: state_tensors(cell, task) * parameters.all * bytes(precision.parameters()),
            ..weights_only
        },
        Task::Generate(task) => MemoryEstimate {
            keys_and_values: kv_cache::keys_and_values(cell, task),
            ..weights_only
        },
        Task::Evaluate(_) | Task::Kernel(_) => weights_only,
    })
}

/// Parameter counts of a model.
struct Parameters {
    all: u64,
    /// Number of values that layers read in the matmul format.
    multiplied: u64,
}

/// Counts the parameters of a cell's model.
fn count_parameters<M: Network>(model: M, cell: &Cell) -> Parameters {
    let model = model.with_f32_layers(f32_layers(cell));
    let mut counted = Parameters {
        all: 0,
        multiplied: 0,
    };
    for spec in model.parameters() {
        let values = spec.shape.iter().product::<usize>() as u64;
        counted.all += values;
        if model.multiplies(&spec.name) {
            counted.multiplied += values;
        }
    }
    counted
}

/// Returns the number of state tensors that an optimizer keeps per parameter. They have the format of the parameters.
fn state_tensors(cell: &Cell, task: &TrainTask) -> u64 {
    match cell.setting.optimizer() {
        // First and second moment.
        OptimizerKind::Adam | OptimizerKind::AdamW | OptimizerKind::Lamb => 2,
        // Momentum buffer, unless the momentum is 0.
        OptimizerKind::Sgd | OptimizerKind::Lars => u64::from(task.momentum != 0.0),
    }
}

#[cfg(test)]
mod tests {
    use mantissa_core::{
        Axis, Backend, BertSize, BloomSize, CacheState, DatasetKind, DistilBertSize, EvaluateTask,
        GenerateTask, Gpt2Size, ImageNetResNetSize, Kernel, KernelTask, LlamaSize, MatmulShape, Model,
        ResNetSize, Setting, Split, Updates, VitSize, Workload,
    };

    use super::*;

    fn cell(task: Task, axes: &[(Axis, &str)]) -> Cell {
        let workload = Workload {
            name: "small".into(),
            task,
        };
        let mut setting = Setting::of(&workload, Backend::Flex);
        for (axis, text) in axes {
            setting.set(*axis, axis.parse(text).unwrap()).unwrap();
        }
        Cell::new("small", workload, setting, 1)
    }

    fn training(model: Model, dataset: DatasetKind, axes: &[(Axis, &str)]) -> Cell {
        let task = TrainTask {
            model,
            dataset,
            split: Split {
                join: false,
                train: None,
                validation: 0,
                test: None,
                seed: 1,
            },
            epochs: 1,
            learning_rate: 1e-3,
            weight_decay: 0.0,
            momentum: 0.9,
            drop_last: false,
            observe_every: 0,
            sensitivity: false,
            updates: Updates::default(),
        };
        cell(Task::Train(task), axes)
    }

    fn distilbert(n_layers: u32, [dim, heads, hidden, positions]: [u32; 4], dropout: f64) -> Model {
        Model::Distilbert(DistilBertSize {
            n_layers,
            dim,
            n_heads: heads,
            hidden_dim: hidden,
            max_position_embeddings: positions,
            dropout,
            attention_dropout: dropout,
            seq_classif_dropout: dropout,
        })
    }

    /// Returns the estimate for one transformer block of width 4 with two heads, and a batch of two texts of three tokens.
    fn tiny(dropout: f64, axes: &[(Axis, &str)]) -> MemoryEstimate {
        let sizes = [(Axis::Batch, "2"), (Axis::Sequence, "3")];
        let model = distilbert(1, [4, 2, 8, 8], dropout);
        let axes = [&sizes[..], axes].concat();
        estimate(&training(model, DatasetKind::SyntheticReviews, &axes)).unwrap()
    }

    #[test]
    fn tiny_training_matches_a_count_by_hand() {
        // Parameters in the order of the sum below: 30,522 token embeddings and 8 position embeddings of width 4; a norm; the block; the two
        // layers of the head.
        let parameters = 122_088 + 32 + 8 + (4 * 20 + 8 + 40 + 36 + 8) + 20 + 10;
        // Saved values in the order of the sum below: 6 ids; 24 inputs of the norm with 12 statistics; the inputs of the block's projections, and
        // 72 outputs; 36 attention weights; the input of the layer after attention; a norm; the input of the feed-forward layer; 48 values before
        // GELU and 48 after it; a norm; the head's 8 values three times, 4 logits, 2 sums and 2 labels.
        let f32_values = 6 + 36 + 24 + 72 + 36 + 24 + 36 + 24 + 96 + 36 + 24 + 8;
        let expected = MemoryEstimate {
            weights: 4 * parameters,
            weight_copies: 0,
            activations: 4 * f32_values,
            gradients: 4 * parameters,
            optimizer: 8 * parameters,
            keys_and_values: 0,
        };
        assert_eq!(tiny(0.0, &[(Axis::Precision, "32-true")]), expected);
        assert_eq!(expected.total(), 16 * parameters + 1688);

        // Each projection saves a bf16 copy of its input. The second attention matmul saves a bf16 copy of the attention weights. Norms, softmax
        // and loss stay in f32.
        let mixed = tiny(0.0, &[(Axis::Precision, "bf16-mixed")]);
        let in_bf16 = 3 * 24 + 72 + 36 + 24 + 24 + 96 + 24;
        let full = 6 + 36 + 36 + 36 + 36 + 8;
        let expected = MemoryEstimate {
            weight_copies: 2 * (80 + 40 + 36 + 20 + 10),
            activations: 2 * in_bf16 + 4 * full,
            ..expected
        };
        assert_eq!(mixed, expected);

        let true_bf16 = tiny(0.0, &[(Axis::Precision, "bf16-true")]);
        // Norm statistics and the loss are still in f32, and gradients are accumulated in f32.
        let f32_values = 6 + 3 * 12 + 8;
        let expected = MemoryEstimate {
            weights: 2 * parameters,
            weight_copies: 0,
            activations: 2 * (24 + 24 + 72 + 36 + 24 + 24 + 24 + 96 + 24 + 24) + 4 * f32_values,
            gradients: 4 * parameters,
            optimizer: 4 * parameters,
            keys_and_values: 0,
        };
        assert_eq!(true_bf16, expected);
    }

    #[test]
    fn dropout_saves_attention_weights_and_checkpointing_only_segment_inputs() {
        let activations = |dropout, axes: &[(Axis, &str)]| tiny(dropout, axes).activations;
        let plain = activations(0.0, &[]);
        // The attention weights after dropout are saved in addition to the softmax output. Masks are not saved.
        assert_eq!(activations(0.1, &[]), plain + 4 * 36);
        // The hidden states after the embeddings and after the block, in f32.
        for precision in ["32-true", "bf16-mixed"] {
            let axes = [(Axis::Precision, precision), (Axis::Checkpointing, "on")];
            assert_eq!(activations(0.1, &axes), 2 * 24 * 4);
        }
        // The fused kernel does not save attention weights.
        assert_eq!(activations(0.0, &[(Axis::Attention, "fused")]), plain - 4 * 36);
    }

    #[test]
    fn a_layer_that_is_kept_in_f32_has_no_copy_of_its_weights() {
        let kept = |patterns| {
            let axes = [(Axis::Precision, "bf16-mixed"), (Axis::KeepF32, patterns)];
            tiny(0.0, &axes)
        };
        let whole = kept("distilbert+pre_classifier+classifier");
        assert_eq!(whole.weight_copies, 0);
        // With all layers kept in f32, the estimate equals that of `32-true`.
        assert_eq!(whole, tiny(0.0, &[(Axis::Precision, "32-true")]));
        let head = kept("classifier");
        assert_eq!(head.weight_copies, 2 * (80 + 40 + 36 + 20));
    }

    #[test]
    fn vocabulary_and_classes_of_the_data_are_counted() {
        let model = distilbert(1, [4, 2, 8, 8], 0.0);
        let cell = training(model, DatasetKind::SyntheticReviews, &[(Axis::Batch, "2")]);
        let of = |vocabulary_size, classes| estimate_for(&cell, (vocabulary_size, classes)).unwrap();
        assert_eq!(estimate(&cell), Some(of(VOCABULARY_SIZE, TEXT_CLASSES)));
        // A token adds a row of the embedding table. A class adds a row of the head and a bias. The rows have width 4.
        assert_eq!(of(101, 2).weights, of(100, 2).weights + 4 * 4);
        assert_eq!(of(100, 3).weights, of(100, 2).weights + 4 * (4 + 1));
    }

    #[test]
    fn optimizers_keep_zero_to_two_tensors_per_parameter() {
        let of = |optimizer, momentum| {
            let mut cell = training(
                Model::Resnet(ResNetSize::RESNET20),
                DatasetKind::SyntheticImages,
                &[(Axis::Optimizer, optimizer)],
            );
            if let Task::Train(task) = &mut cell.workload.task {
                task.momentum = momentum;
            }
            let estimate = estimate(&cell).unwrap();
            estimate.optimizer / estimate.weights
        };
        assert_eq!(["adam", "adamw", "lamb"].map(|name| of(name, 0.9)), [2; 3]);
        assert_eq!(["sgd", "lars"].map(|name| of(name, 0.9)), [1; 2]);
        assert_eq!(["sgd", "lars"].map(|name| of(name, 0.0)), [0; 2]);
    }

    /// Asserts that an estimate is not above the recorded value, and at most `share` below it. Recorded values are from the CPU, whose allocator
    /// also counts burn's tensor handles and graphs.
    fn assert_near(name: &str, estimated: u64, recorded: u64, share: f64) {
        let ratio = estimated as f64 / recorded as f64;
        assert!(
            (1.0 - share..=1.0).contains(&ratio),
            "{name}: estimated {estimated}, recorded {recorded}"
        );
    }

    #[test]
    fn estimates_are_near_recorded_values() {
        // Bytes of weights, copies, activations, gradients and optimizer state. Those of activations were recorded on 1 December 2026 with a
        // batch of 64, and the others in reports/20261122T054956Z-imdb-twelve-settings. The vocabulary has 30,522 tokens.
        let recorded = [
            ("64-true", [16_505_040, 0, 103_329_514, 16_505_040, 32_996_000]),
            ("32-true", [8_257_480, 0, 51_735_846, 8_257_480, 16_500_896]),
            (
                "16-mixed",
                [8_257_480, 220_866, 34_979_014, 8_257_480, 16_500_896],
            ),
            (
                "bf16-mixed",
                [8_257_480, 220_866, 34_978_694, 8_257_480, 16_500_896],
            ),
            ("bf16-true", [4_133_700, 0, 26_034_788, 8_257_480, 8_253_344]),
        ];
        for (precision, [weights, copies, activations, gradients, optimizer]) in recorded {
            let axes = [
                (Axis::Precision, precision),
                (Axis::Batch, "64"),
                (Axis::Sequence, "64"),
            ];
            let mut model = distilbert(2, [64, 4, 256, 64], 0.1);
            if let Model::Distilbert(size) = &mut model {
                size.seq_classif_dropout = 0.2;
            }
            let got = estimate(&training(model, DatasetKind::Reviews, &axes)).unwrap();
            assert_near(precision, got.weights, weights, 0.003);
            assert_near(precision, got.activations, activations, 0.01);
            assert_near(precision, got.gradients, gradients, 0.003);
            assert_near(precision, got.optimizer, optimizer, 0.003);
            match copies {
                0 => assert_eq!(got.weight_copies, 0),
                // The recorded value includes a handle and a name for each of 28 copied vectors.
                copies => assert_near(precision, got.weight_copies, copies, 0.07),
            }
        }
        // Smoke profile of suites/articles: a ResNet of 8 layers and 4 channels, 64 images.
        for (precision, activations) in [("32-true", 19_532_299), ("16-mixed", 14_554_091)] {
            let axes = [(Axis::Precision, precision), (Axis::Batch, "64")];
            let model = Model::Resnet(ResNetSize { depth: 8, width: 4 });
            let got = estimate(&training(model, DatasetKind::SyntheticImages, &axes)).unwrap();
            assert_near(precision, got.activations, activations, 0.01);
        }
        // A ViT of two blocks, 64 images of 17 tokens.
        for (precision, activations) in [
            ("32-true", 5_016_660),
            ("16-mixed", 3_812_036),
            ("bf16-true", 2_591_154),
        ] {
            let axes = [(Axis::Precision, precision), (Axis::Batch, "64")];
            let model = Model::Vit(VitSize {
                image_size: 32,
                patch_size: 8,
                hidden_size: 32,
                num_hidden_layers: 2,
                num_attention_heads: 4,
                intermediate_size: 64,
                ..VitSize::BASE
            });
            let got = estimate(&training(model, DatasetKind::SyntheticImages, &axes)).unwrap();
            assert_near(precision, got.activations, activations, 0.05);
        }
    }

    #[test]
    fn estimates_of_language_models_are_near_recorded_values() {
        // Activations of one micro-batch on the CPU: two blocks of width 64 with four heads, 16 texts of 64 tokens.
        let gpt2 = |dropout| {
            Model::Gpt2(Gpt2Size {
                vocab_size: 2000,
                n_positions: 64,
                n_embd: 64,
                n_layer: 2,
                n_head: 4,
                n_inner: 256,
                layer_norm_epsilon: 1e-5,
                embd_pdrop: dropout,
                attn_pdrop: dropout,
                resid_pdrop: dropout,
            })
        };
        let bloom = Model::Bloom(BloomSize {
            vocab_size: 2000,
            hidden_size: 64,
            n_layer: 2,
            n_head: 4,
            ..BloomSize::BLOOM_560M
        });
        let llama = Model::Llama(LlamaSize {
            vocab_size: 2000,
            hidden_size: 64,
            intermediate_size: 172,
            num_hidden_layers: 2,
            num_attention_heads: 4,
            num_key_value_heads: 2,
            head_dim: 16,
            ..LlamaSize::LLAMA2_7B
        });
        let (fused, kept) = (
            (Axis::Attention, "fused"),
            (Axis::KeepF32, "model.layers.*.mlp+lm_head"),
        );
        let default = (Axis::Accumulate, "1");
        let recorded = [
            (gpt2(0.1), "32-true", default, 21_332_884),
            (gpt2(0.1), "bf16-mixed", default, 16_751_780),
            (gpt2(0.0), "bf16-mixed", fused, 13_577_316),
            (bloom.clone(), "64-true", default, 38_872_792),
            (bloom, "bf16-mixed", default, 16_999_684),
            (llama.clone(), "64-true", default, 45_784_180),
            (llama.clone(), "bf16-true", default, 16_292_206),
            (llama.clone(), "bf16-mixed", fused, 16_945_632),
            (llama, "16-mixed", kept, 22_069_360),
        ];
        for (model, precision, other, activations) in recorded {
            let sizes = [(Axis::Batch, "16"), (Axis::Sequence, "64")];
            let axes = [&sizes[..], &[(Axis::Precision, precision), other]].concat();
            let got = estimate(&training(model.clone(), DatasetKind::SyntheticText, &axes)).unwrap();
            assert_near(
                &format!("{} {precision}", model.name()),
                got.activations,
                activations,
                0.01,
            );
        }
    }

    #[test]
    fn generation_keeps_keys_and_values_of_all_tokens_but_the_last() {
        let task = |model| {
            Task::Generate(GenerateTask {
                model,
                prompt_tokens: 10,
                new_tokens: 7,
                temperature: 0.0,
                min_samples: 1,
                max_samples: 1,
                max_seconds: 1.0,
                max_noise: 0.1,
            })
        };
        let of = |model, precision| {
            let axes = [(Axis::Precision, precision), (Axis::Batch, "3")];
            estimate(&cell(task(model), &axes)).unwrap()
        };
        let grouped = Model::Llama(LlamaSize {
            num_key_value_heads: 8,
            ..LlamaSize::LLAMA2_7B
        });
        let llama = of(grouped, "bf16-true");
        assert_eq!(llama.keys_and_values, 2 * 32 * 3 * 8 * 16 * 128 * 2);
        assert_eq!(llama.total(), llama.weights + llama.keys_and_values);
        let gpt2 = of(Model::Gpt2(Gpt2Size::SMALL), "bf16-mixed");
        assert_eq!(gpt2.keys_and_values, 2 * 12 * 3 * 12 * 16 * 64 * 2);
        assert_eq!(gpt2.weights, 4 * 124_439_808);
        let bloom = of(Model::Bloom(BloomSize::BLOOM_560M), "32-true");
        assert_eq!(bloom.keys_and_values, 2 * 24 * 3 * 16 * 16 * 64 * 4);
        assert_eq!((bloom.weights, bloom.weight_copies), (4 * 559_214_592, 0));
    }

    #[test]
    fn evaluation_estimate_contains_only_weights_and_copies() {
        let task = EvaluateTask {
            model: Model::ResnetImagenet(ImageNetResNetSize::RESNET50),
            dataset: DatasetKind::Images,
            test: None,
        };
        let got = estimate(&cell(Task::Evaluate(task), &[(Axis::Precision, "16-mixed")])).unwrap();
        // The head has 10 classes instead of 1000. Norms do not have a low-precision copy.
        let parameters = 25_557_032 - 990 * 2049;
        assert_eq!(got.weights, 4 * parameters);
        assert_eq!(got.weight_copies, 2 * (parameters - 2 * 26_560));
        assert_eq!(got.total(), got.weights + got.weight_copies);

        let task = KernelTask {
            kernel: Kernel::Matmul(MatmulShape::SQUARE),
            min_samples: 3,
            max_samples: 9,
            max_seconds: 1.0,
            max_noise: 0.01,
            cache: CacheState::Cold,
        };
        assert_eq!(estimate(&cell(Task::Kernel(task), &[])), None);
    }

    #[test]
    fn estimates_grow_with_batch_size_and_format_width() {
        let models = [
            (Model::Bert(BertSize::BASE), DatasetKind::SyntheticReviews),
            (Model::Llama(LlamaSize::LLAMA2_7B), DatasetKind::SyntheticText),
            (Model::Gpt2(Gpt2Size::SMALL), DatasetKind::SyntheticText),
            (Model::Bloom(BloomSize::BLOOM_560M), DatasetKind::SyntheticReviews),
            (Model::Bloom(BloomSize::BLOOM_560M), DatasetKind::SyntheticText),
            (
                Model::ResnetImagenet(ImageNetResNetSize::RESNET50),
                DatasetKind::SyntheticImages,
            ),
            (Model::Vit(VitSize::BASE), DatasetKind::SyntheticImages),
        ];
        for (model, dataset) in models {
            let of = |precision, batch| {
                let sizes = [(Axis::Batch, batch), (Axis::Sequence, "128")];
                let axes = [&sizes[..], &[(Axis::Precision, precision)]].concat();
                estimate(&training(model.clone(), dataset, &axes)).unwrap()
            };
            let name = model.name();
            let (small, large) = (of("32-true", "1").activations, of("32-true", "2").activations);
            assert!(large > small && large <= 2 * small, "{name}: {small} {large}");
            let totals = ["bf16-true", "32-true", "64-true"].map(|precision| of(precision, "2").total());
            assert!(totals.is_sorted(), "{name}: {totals:?}");
        }
    }
}
