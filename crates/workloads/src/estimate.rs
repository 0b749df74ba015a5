//! What a cell will keep in memory, told before it runs: counted from the shapes of the model's parameters, from the setting, and
//! from what each operation of a forward pass keeps.

mod forward;
mod ledger;

use mantissa_core::{Cell, Format, OptimizerKind, Precision, Task, TrainTask};

use crate::{
    models::{Kept, Network},
    subject::{Asking, asked},
};

/// Words of a table that is as long as its data's vocabulary, which nobody has read yet: those of `bert-base-uncased`.
const WORDS: u32 = 30_522;
/// Classes of texts whose data nobody has read yet.
const CLASSES_OF_TEXTS: u32 = 2;
/// Classes of images whose data nobody has read yet.
const CLASSES_OF_IMAGES: u32 = 10;

/// Bytes that a cell keeps from one operation to another, part by part as [`MemoryParts`](crate::MemoryParts) has them; a part that
/// there is not is 0.
///
/// It is what tensors hold, not what an allocator rounds it up to, nor what an operation needs while it runs. On the CPU the allocator
/// counts the bookkeeping of burn's graph, too: some 50 kB a transformer block, whatever the batch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemoryEstimate {
    /// The parameters.
    pub weights: u64,
    /// Low-precision copies of parameters that forward passes read.
    pub weight_copies: u64,
    /// What else the forward pass of a micro-batch leaves for its backward pass.
    pub activations: u64,
    /// The gradients after a backward pass.
    pub gradients: u64,
    /// The optimizer's state after a step.
    pub optimizer: u64,
    /// Keys and values of the tokens that were read, once the last one is written.
    pub keys_and_values: u64,
}

impl MemoryEstimate {
    /// All of it. A training does not hold all at one time: its activations go while its gradients come.
    pub fn total(&self) -> u64 {
        self.weights
            + self.weight_copies
            + self.activations
            + self.gradients
            + self.optimizer
            + self.keys_and_values
    }
}

/// What a cell will keep in memory; nothing is told of kernels.
///
/// Vocabulary and classes are those of the model, where its size has them. Those that only the data knows are taken to be 30,522 words,
/// two classes of texts and ten of images.
pub fn estimate(cell: &Cell) -> Option<MemoryEstimate> {
    let classes = match cell.workload.model()?.sees_images() {
        true => CLASSES_OF_IMAGES,
        false => CLASSES_OF_TEXTS,
    };
    estimate_for(cell, (WORDS, classes))
}

/// The same, where the data is read: its vocabulary has so many `words`, and its examples are of so many `classes`.
pub(crate) fn estimate_for(cell: &Cell, (words, classes): (u32, u32)) -> Option<MemoryEstimate> {
    let precision = cell.setting.precision();
    let parameters = asked(cell, (words, classes), Counting { cell })?;
    let kept = MemoryEstimate {
        weights: parameters.all * bytes(precision.parameters()),
        weight_copies: match precision.is_mixed() {
            true => parameters.multiplied * bytes(precision.compute()),
            false => 0,
        },
        ..MemoryEstimate::default()
    };
    Some(match &cell.workload.task {
        Task::Train(task) => MemoryEstimate {
            activations: forward::activations(cell, task, (words, classes)),
            gradients: parameters.all * bytes(wide(precision.parameters())),
            optimizer: moments(cell, task) * parameters.all * bytes(precision.parameters()),
            ..kept
        },
        Task::Generate(task) => MemoryEstimate {
            keys_and_values: forward::keys_and_values(cell, task),
            ..kept
        },
        Task::Evaluate(_) | Task::Kernel(_) => kept,
    })
}

/// How many values parameters have.
struct Parameters {
    all: u64,
    /// Those that layers read in the format of products.
    multiplied: u64,
}

/// Counts the parameters of a cell's model.
struct Counting<'a> {
    cell: &'a Cell,
}

impl Asking for Counting<'_> {
    type Answer = Parameters;

    fn of<M: Network>(self, model: M) -> Parameters {
        let model = model.with_kept(kept(self.cell));
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
}

/// Layers that a cell keeps in f32.
fn kept(cell: &Cell) -> Kept {
    Kept::Matching(cell.setting.keep_f32().to_vec())
}

/// Tensors that an optimizer keeps of each parameter, in the parameters' format.
fn moments(cell: &Cell, task: &TrainTask) -> u64 {
    match cell.setting.optimizer() {
        // Means of gradients, and of their squares.
        OptimizerKind::Adam | OptimizerKind::AdamW | OptimizerKind::Lamb => 2,
        // A velocity, unless it would be forgotten at once.
        OptimizerKind::Sgd | OptimizerKind::Lars => u64::from(task.momentum != 0.0),
    }
}

/// Bytes of a value in memory.
fn bytes(format: Format) -> u64 {
    u64::from(format.storage_bytes())
}

/// The format of what is not to be rounded to halves: f32 at least.
fn wide(format: Format) -> Format {
    match format {
        Format::F64 => Format::F64,
        _ => Format::F32,
    }
}

/// The format of the products of a layer, which a mixed setting may keep in f32.
fn of_products(precision: Precision, is_kept: bool) -> Format {
    match precision.is_mixed() && is_kept {
        true => Format::F32,
        false => precision.compute(),
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

    /// One block of width 4 with two heads, two texts of three tokens.
    fn tiny(dropout: f64, axes: &[(Axis, &str)]) -> MemoryEstimate {
        let sizes = [(Axis::Batch, "2"), (Axis::Sequence, "3")];
        let model = distilbert(1, [4, 2, 8, 8], dropout);
        let axes = [&sizes[..], axes].concat();
        estimate(&training(model, DatasetKind::SyntheticReviews, &axes)).unwrap()
    }

    #[test]
    fn parts_of_a_tiny_training_are_those_counted_by_hand() {
        // 30,522 words and 8 places of 4, a norm; the block; 20 and 10 of the head.
        let parameters = 122_088 + 32 + 8 + (4 * 20 + 8 + 40 + 36 + 8) + 20 + 10;
        // 6 ids; 24 values into the norm with 12 statistics; into the block's projections, which are 72; 36 weights of attention; into
        // the layer behind it; a norm; into the feed-forward layer; 48 before GELU and 48 behind it; a norm; the head's 8 thrice, 4
        // logits, 2 sums and 2 labels.
        let f32_values = 6 + 36 + 24 + 72 + 36 + 24 + 36 + 24 + 96 + 36 + 24 + 8;
        let want = MemoryEstimate {
            weights: 4 * parameters,
            weight_copies: 0,
            activations: 4 * f32_values,
            gradients: 4 * parameters,
            optimizer: 8 * parameters,
            keys_and_values: 0,
        };
        assert_eq!(tiny(0.0, &[(Axis::Precision, "32-true")]), want);
        assert_eq!(want.total(), 16 * parameters + 1688);

        // Each projection has a copy of its input, and the second product one of its weights; norms, softmax and loss stay in f32.
        let mixed = tiny(0.0, &[(Axis::Precision, "bf16-mixed")]);
        let halves = 3 * 24 + 72 + 36 + 24 + 24 + 96 + 24;
        let full = 6 + 36 + 36 + 36 + 36 + 8;
        let want = MemoryEstimate {
            weight_copies: 2 * (80 + 40 + 36 + 20 + 10),
            activations: 2 * halves + 4 * full,
            ..want
        };
        assert_eq!(mixed, want);

        let halves = tiny(0.0, &[(Axis::Precision, "bf16-true")]);
        // Statistics of norms and the loss are in f32 still, and gradients are added up there.
        let f32_values = 6 + 3 * 12 + 8;
        let want = MemoryEstimate {
            weights: 2 * parameters,
            weight_copies: 0,
            activations: 2 * (24 + 24 + 72 + 36 + 24 + 24 + 24 + 96 + 24 + 24) + 4 * f32_values,
            gradients: 4 * parameters,
            optimizer: 4 * parameters,
            keys_and_values: 0,
        };
        assert_eq!(halves, want);
    }

    #[test]
    fn dropout_keeps_masks_and_checkpointing_only_what_enters_a_segment() {
        let activations = |dropout, axes: &[(Axis, &str)]| tiny(dropout, axes).activations;
        let plain = activations(0.0, &[]);
        // A byte for each value that may be dropped, and weights of attention that are no longer those of the softmax.
        assert_eq!(activations(0.1, &[]), plain + 24 + 36 + 24 + 8 + 4 * 36);
        // Behind the embeddings and behind the block, in f32.
        for precision in ["32-true", "bf16-mixed"] {
            let axes = [(Axis::Precision, precision), (Axis::Checkpointing, "on")];
            assert_eq!(activations(0.1, &axes), 2 * 24 * 4);
        }
        // One kernel keeps no weights of attention.
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
        // All is as in f32 then.
        assert_eq!(whole, tiny(0.0, &[(Axis::Precision, "32-true")]));
        let head = kept("classifier");
        assert_eq!(head.weight_copies, 2 * (80 + 40 + 36 + 20));
    }

    #[test]
    fn what_the_data_has_of_words_and_classes_is_counted_as_it_is() {
        let model = distilbert(1, [4, 2, 8, 8], 0.0);
        let cell = training(model, DatasetKind::SyntheticReviews, &[(Axis::Batch, "2")]);
        let of = |words, classes| estimate_for(&cell, (words, classes)).unwrap();
        assert_eq!(estimate(&cell), Some(of(WORDS, CLASSES_OF_TEXTS)));
        // A row of the table, and a row of the head with its bias, 4 wide.
        assert_eq!(of(101, 2).weights, of(100, 2).weights + 4 * 4);
        assert_eq!(of(100, 3).weights, of(100, 2).weights + 4 * (4 + 1));
    }

    #[test]
    fn optimizers_keep_one_tensor_two_or_none() {
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

    /// Asserts that an estimate is a little below what a run on the CPU recorded, which counts handles and graphs as well.
    fn near(what: &str, estimated: u64, recorded: u64, share: f64) {
        let ratio = estimated as f64 / recorded as f64;
        assert!(
            (1.0 - share..=1.0).contains(&ratio),
            "{what}: {estimated} and not {recorded}"
        );
    }

    #[test]
    fn estimates_are_near_what_runs_recorded() {
        // reports/20261122T054956Z-imdb-twelve-settings, whose vocabulary has 30,522 words: weights, copies, activations, gradients,
        // optimizer.
        let recorded = [
            ("64-true", [16_505_040, 0, 53_150_166, 16_505_040, 32_996_000]),
            ("32-true", [8_257_480, 0, 27_352_306, 8_257_480, 16_500_896]),
            (
                "16-mixed",
                [8_257_480, 220_866, 18_990_290, 8_257_480, 16_500_896],
            ),
            (
                "bf16-mixed",
                [8_257_480, 220_866, 18_991_282, 8_257_480, 16_500_896],
            ),
            ("bf16-true", [4_133_700, 0, 14_532_976, 8_257_480, 8_253_344]),
        ];
        for (precision, [weights, copies, activations, gradients, optimizer]) in recorded {
            let axes = [
                (Axis::Precision, precision),
                (Axis::Batch, "32"),
                (Axis::Sequence, "64"),
            ];
            let mut model = distilbert(2, [64, 4, 256, 64], 0.1);
            if let Model::Distilbert(size) = &mut model {
                size.seq_classif_dropout = 0.2;
            }
            let got = estimate(&training(model, DatasetKind::Reviews, &axes)).unwrap();
            near(precision, got.weights, weights, 0.003);
            near(precision, got.activations, activations, 0.01);
            near(precision, got.gradients, gradients, 0.003);
            near(precision, got.optimizer, optimizer, 0.003);
            match copies {
                0 => assert_eq!(got.weight_copies, 0),
                // Of 28 vectors, with a handle and a name each.
                copies => near(precision, got.weight_copies, copies, 0.07),
            }
        }
        // The smoke profile of suites/articles: a ResNet of 8 layers and 4 channels, 64 images.
        for (precision, activations) in [("32-true", 19_532_299), ("16-mixed", 14_554_091)] {
            let axes = [(Axis::Precision, precision), (Axis::Batch, "64")];
            let model = Model::Resnet(ResNetSize { depth: 8, width: 4 });
            let got = estimate(&training(model, DatasetKind::SyntheticImages, &axes)).unwrap();
            near(precision, got.activations, activations, 0.01);
        }
        // And a transformer of two blocks over 17 tokens of 64 images.
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
            near(precision, got.activations, activations, 0.05);
        }
    }

    #[test]
    fn estimates_of_language_models_are_near_what_they_took() {
        // Two blocks of width 64 with four heads, 16 texts of 64 tokens, on the CPU: activations of one micro-batch each.
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
        let took = [
            (gpt2(0.1), "32-true", default, 22_171_564),
            (gpt2(0.1), "bf16-mixed", default, 17_589_820),
            (gpt2(0.0), "bf16-mixed", fused, 13_577_316),
            (bloom.clone(), "64-true", default, 38_872_792),
            (bloom, "bf16-mixed", default, 16_999_684),
            (llama.clone(), "64-true", default, 45_784_180),
            (llama.clone(), "bf16-true", default, 16_292_206),
            (llama.clone(), "bf16-mixed", fused, 16_945_632),
            (llama, "16-mixed", kept, 22_069_360),
        ];
        for (model, precision, other, activations) in took {
            let sizes = [(Axis::Batch, "16"), (Axis::Sequence, "64")];
            let axes = [&sizes[..], &[(Axis::Precision, precision), other]].concat();
            let got = estimate(&training(model.clone(), DatasetKind::SyntheticText, &axes)).unwrap();
            near(
                &format!("{} {precision}", model.name()),
                got.activations,
                activations,
                0.01,
            );
        }
    }

    #[test]
    fn a_model_that_writes_keeps_keys_and_values_of_all_tokens_but_the_last() {
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
    fn a_test_keeps_weights_and_their_copies_and_a_kernel_is_not_estimated() {
        let task = EvaluateTask {
            model: Model::ResnetImagenet(ImageNetResNetSize::RESNET50),
            dataset: DatasetKind::Images,
            test: None,
        };
        let got = estimate(&cell(Task::Evaluate(task), &[(Axis::Precision, "16-mixed")])).unwrap();
        // Ten classes instead of a thousand; norms have no copy.
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
    fn every_model_has_an_estimate_that_grows_with_the_batch_and_shrinks_with_the_format() {
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
