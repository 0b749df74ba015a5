//! `[[workload]]`: a workload in the sizes of one profile.

use mantissa_core::{
    AttentionShape, ConvolutionShape, DatasetKind, EvaluateTask, GenerateTask, Kernel, KernelKind,
    KernelTask, MAX_NAME_BYTES, MatmulShape, Model, Profile, RowsShape, Split, Task, TaskKind, TrainTask,
    Updates, Workload,
};

use crate::{
    keys::{self, attention, convolution, evaluate, generate, kernel, matmul, rows, split, train, workload},
    section::Section,
    size,
};

/// Reads one workload, resolved for `profile`.
pub(crate) fn read(base: &Section<'_>, profile: Profile) -> Option<Workload> {
    let name = base.text(&workload::NAME);
    if let Some(bytes) = name
        .as_ref()
        .map(String::len)
        .filter(|bytes| *bytes > MAX_NAME_BYTES)
    {
        base.report_at(
            &workload::NAME,
            format!("the name has {bytes} bytes, the maximum is {MAX_NAME_BYTES}"),
        );
    }
    let task = base.name::<TaskKind>(&workload::TASK);
    let overrides = profile_section(base, profile);
    check_keys(base, overrides.as_ref(), task);

    let section = overrides.map_or_else(|| base.clone(), |specific| base.overlaid_with(&specific));
    let task = match task? {
        TaskKind::Train => Task::Train(train_task(&section)?),
        TaskKind::Evaluate => Task::Evaluate(evaluate_task(&section)?),
        TaskKind::Generate => Task::Generate(generate_task(&section)?),
        TaskKind::Kernel => Task::Kernel(kernel_task(&section)?),
    };
    Some(Workload { name: name?, task })
}

/// Returns `[workload.profile.<profile>]`.
fn profile_section<'a>(base: &Section<'a>, profile: Profile) -> Option<Section<'a>> {
    let profiles = base.table(&workload::PROFILE, "`[workload.profile]`")?;
    for (name, span, _) in profiles.entries() {
        profiles.parse_name::<Profile>(&span, name);
    }
    profiles.named_table(profile.name(), format!("`[workload.profile.{profile}]`"))
}

fn check_keys(base: &Section<'_>, overrides: Option<&Section<'_>>, task: Option<TaskKind>) {
    // The first key (`model` or `kernel`) determines which other keys are valid, so profiles cannot override it.
    let overridable = |keys: &'static [keys::Key]| keys.split_at(1).1;
    let all = [train::KEYS, evaluate::KEYS, generate::KEYS, kernel::KEYS];
    let task_keys: Vec<&'static [keys::Key]> = match task {
        Some(TaskKind::Train) => vec![train::KEYS],
        Some(TaskKind::Evaluate) => vec![evaluate::KEYS],
        Some(TaskKind::Generate) => vec![generate::KEYS],
        Some(TaskKind::Kernel) => vec![kernel::KEYS],
        None => all.to_vec(),
    };
    let overridable_keys: Vec<_> = task_keys.iter().map(|keys| overridable(keys)).collect();
    base.reject_unknown_keys(&[&[workload::KEYS], &task_keys[..]].concat());
    if let Some(overrides) = overrides {
        overrides.reject_unknown_keys(&overridable_keys);
    }
}

/// Reads a model with its size, and a dataset that the model supports. The names of the keys are the same for all tasks.
fn model_and_data(section: &Section<'_>) -> Option<(Model, DatasetKind)> {
    let model = size::model(section);
    let dataset = section.name::<DatasetKind>(&train::DATASET);
    let (model, dataset) = (model?, dataset?);
    if !model.takes(dataset) {
        let kinds = DatasetKind::ALL.iter();
        let supported = kinds.filter(|kind| model.takes(**kind));
        let supported: Vec<String> = supported.map(|kind| format!("`{kind}`")).collect();
        section.report_at(
            &train::DATASET,
            format_args!(
                "model `{}` does not support dataset `{dataset}`\n  hint: use {}",
                model.name(),
                supported.join(" or ")
            ),
        );
        return None;
    }
    Some((model, dataset))
}

fn generate_task(section: &Section<'_>) -> Option<GenerateTask> {
    let model = size::model(section);
    let [prompt_tokens, new_tokens] =
        [&generate::PROMPT_TOKENS, &generate::NEW_TOKENS].map(|key| section.whole(key));
    let temperature = section.number(&generate::TEMPERATURE);
    let limits = Limits::read(
        section,
        [&generate::MIN_SAMPLES, &generate::MAX_SAMPLES],
        [&generate::MAX_SECONDS, &generate::MAX_NOISE],
    );
    let (model, prompt_tokens, new_tokens) = (model?, prompt_tokens?, new_tokens?);
    if !model.is_causal() {
        section.report_at(
            &generate::MODEL,
            format_args!(
                "model `{}` cannot generate text\n  hint: use `bloom`, `gpt2` or `llama`",
                model.name()
            ),
        );
        return None;
    }
    let limits = limits?;
    Some(GenerateTask {
        model,
        prompt_tokens,
        new_tokens,
        temperature: temperature?,
        min_samples: limits.min_samples,
        max_samples: limits.max_samples,
        max_seconds: limits.max_seconds,
        max_noise: limits.max_noise,
    })
}

/// Limits of sampling.
struct Limits {
    min_samples: u32,
    max_samples: u32,
    max_seconds: f64,
    max_noise: f64,
}

impl Limits {
    fn read(section: &Section<'_>, samples: [&keys::Key; 2], others: [&keys::Key; 2]) -> Option<Self> {
        let [min_samples, max_samples] = samples.map(|key| section.whole(key));
        let [max_seconds, max_noise] = others.map(|key| section.number(key));
        let (min_samples, max_samples) = (min_samples?, max_samples?);
        if min_samples > max_samples {
            section.report_at(
                samples[0],
                format_args!("`min_samples` {min_samples} is more than `max_samples` {max_samples}"),
            );
        }
        Some(Self {
            min_samples,
            max_samples,
            max_seconds: max_seconds?,
            max_noise: max_noise?,
        })
    }
}

fn evaluate_task(section: &Section<'_>) -> Option<EvaluateTask> {
    let model_and_dataset = model_and_data(section);
    let test = section.optional_whole(&evaluate::TEST);
    let (model, dataset) = model_and_dataset?;
    Some(EvaluateTask {
        model,
        dataset,
        test: test?,
    })
}

fn train_task(section: &Section<'_>) -> Option<TrainTask> {
    let model_and_dataset = model_and_data(section);
    let split = read_split(section);
    let epochs = section.whole(&train::EPOCHS);
    let learning_rate = section.number(&train::LEARNING_RATE);
    let weight_decay = section.number(&train::WEIGHT_DECAY);
    let momentum = section.number(&train::MOMENTUM);
    let drop_last = section.flag(&train::DROP_LAST);
    let observe_every = section.whole(&train::OBSERVE_EVERY);
    let sensitivity = section.flag(&train::SENSITIVITY);
    let updates = updates(section);
    let (model, dataset) = model_and_dataset?;
    Some(TrainTask {
        model,
        dataset,
        split: split?,
        epochs: epochs?,
        learning_rate: learning_rate?,
        weight_decay: weight_decay?,
        momentum: momentum?,
        drop_last: drop_last?,
        observe_every: observe_every?,
        sensitivity: sensitivity?,
        updates: updates?,
    })
}

fn updates(section: &Section<'_>) -> Option<Updates> {
    let learning_rate_schedule = section.name(&train::SCHEDULE);
    let warmup_steps = section.whole(&train::WARMUP_STEPS);
    let learning_rate_batch = section.whole(&train::LEARNING_RATE_BATCH);
    Some(Updates {
        learning_rate_schedule: learning_rate_schedule?,
        warmup_steps: warmup_steps?,
        learning_rate_batch: learning_rate_batch?,
        clip_norm: section.number(&train::CLIP_NORM),
        loss_scale: section.number(&train::LOSS_SCALE),
    })
}

fn read_split(section: &Section<'_>) -> Option<Split> {
    let table = section.table(&train::SPLIT, "`[workload.split]`")?;
    table.reject_unknown_keys(&[split::KEYS]);
    let join = table.flag(&split::JOIN);
    let train = table.optional_whole(&split::TRAIN);
    let validation = table.whole(&split::VALIDATION);
    let test = table.optional_whole(&split::TEST);
    let seed = table.whole(&split::SEED);
    Some(Split {
        join: join?,
        train: train?,
        validation: validation?,
        test: test?,
        seed: u64::from(seed?),
    })
}

/// Reads `[workload.shape]`.
fn shape(section: &Section<'_>, kind: KernelKind) -> Option<Kernel> {
    let shape = section.table(&kernel::SHAPE, "`[workload.shape]`")?;
    match kind {
        KernelKind::Matmul => {
            shape.reject_unknown_keys(&[matmul::KEYS]);
            let batch = shape.whole(&matmul::BATCH);
            let [m, n, k] = [&matmul::M, &matmul::N, &matmul::K].map(|edge| shape.optional_whole(edge));
            Some(Kernel::Matmul(MatmulShape {
                batch: batch?,
                m: m?,
                n: n?,
                k: k?,
            }))
        }
        KernelKind::Convolution => {
            shape.reject_unknown_keys(&[convolution::KEYS]);
            let [batch, channels, filters] =
                [&convolution::BATCH, &convolution::CHANNELS, &convolution::FILTERS]
                    .map(|key| shape.whole(key));
            let [edge, stride, padding] =
                [&convolution::EDGE, &convolution::STRIDE, &convolution::PADDING].map(|key| shape.whole(key));
            let (edge, padding) = (edge?, padding?);
            if padding >= edge {
                shape.report_at(
                    &convolution::PADDING,
                    format_args!(
                        "`padding` {padding} is not less than `edge` {edge}: some windows would contain only padding"
                    ),
                );
                return None;
            }
            Some(Kernel::Convolution(ConvolutionShape {
                batch: batch?,
                channels: channels?,
                filters: filters?,
                edge,
                stride: stride?,
                padding,
            }))
        }
        KernelKind::Attention => {
            shape.reject_unknown_keys(&[attention::KEYS]);
            let [batch, heads, width] =
                [&attention::BATCH, &attention::HEADS, &attention::WIDTH].map(|key| shape.whole(key));
            Some(Kernel::Attention(AttentionShape {
                batch: batch?,
                heads: heads?,
                width: width?,
            }))
        }
        KernelKind::Gelu => rows_shape(&shape).map(Kernel::Gelu),
        KernelKind::Softmax => rows_shape(&shape).map(Kernel::Softmax),
        KernelKind::LayerNorm => rows_shape(&shape).map(Kernel::LayerNorm),
        KernelKind::RmsNorm => rows_shape(&shape).map(Kernel::RmsNorm),
        KernelKind::Cast => rows_shape(&shape).map(Kernel::Cast),
        KernelKind::AdamW => rows_shape(&shape).map(Kernel::AdamW),
    }
}

fn rows_shape(shape: &Section<'_>) -> Option<RowsShape> {
    shape.reject_unknown_keys(&[rows::KEYS]);
    let (rows, width) = (shape.optional_whole(&rows::ROWS), shape.whole(&rows::WIDTH));
    Some(RowsShape {
        rows: rows?,
        width: width?,
    })
}

fn kernel_task(section: &Section<'_>) -> Option<KernelTask> {
    let kernel = section.name(&kernel::KERNEL).map(|kind| shape(section, kind));
    let limits = Limits::read(
        section,
        [&kernel::MIN_SAMPLES, &kernel::MAX_SAMPLES],
        [&kernel::MAX_SECONDS, &kernel::MAX_NOISE],
    );
    let cache = section.name(&kernel::CACHE);
    let limits = limits?;
    Some(KernelTask {
        kernel: kernel??,
        min_samples: limits.min_samples,
        max_samples: limits.max_samples,
        max_seconds: limits.max_seconds,
        max_noise: limits.max_noise,
        cache: cache?,
    })
}

#[cfg(test)]
mod tests {
    use mantissa_core::{DistilBertSize, ResNetSize};

    use super::*;
    use crate::diagnostic::Sink;

    fn workload(text: &str, profile: Profile) -> Result<Workload, String> {
        let sink = Sink::new("x.toml", text);
        let table = toml::de::DeTable::parse(text).unwrap();
        let read = read(&Section::root(&sink, table.get_ref()), profile);
        sink.finish(read).map_err(|errors| errors.to_string())
    }

    const TRAIN: &str = "
        name = 'w'
        task = 'train'
        model = 'distilbert'
        dataset = 'reviews'
        epochs = 3
        learning_rate = 5e-5
        split.validation = 10
        profile.smoke.epochs = 1
        profile.smoke.model_size.n_layers = 2
        profile.smoke.split.test = 7
    ";

    #[test]
    fn default_size_is_the_published_base_size() {
        let Task::Train(task) = workload(TRAIN, Profile::Full).unwrap().task else {
            panic!()
        };
        assert_eq!(task.model, Model::Distilbert(DistilBertSize::BASE));
    }

    #[test]
    fn profile_overrides_single_keys_of_nested_tables() {
        let Task::Train(task) = workload(TRAIN, Profile::Smoke).unwrap().task else {
            panic!()
        };
        assert_eq!(task.epochs, 1);
        assert_eq!(
            task.model,
            Model::Distilbert(DistilBertSize {
                n_layers: 2,
                ..DistilBertSize::BASE
            })
        );
        assert_eq!((task.split.validation, task.split.test), (10, Some(7)));
    }

    #[test]
    fn head_count_must_divide_the_width() {
        let text = format!("{TRAIN}\nmodel_size = {{ dim = 100, n_heads = 12 }}");
        let error = workload(&text, Profile::Full).unwrap_err();
        assert!(
            error.contains("`dim` 100 is not a multiple of `n_heads` 12\n  hint: ")
                && error.contains("`dim = 108`"),
            "{error}"
        );
    }

    #[test]
    fn resnet_depth_and_dataset_are_checked() {
        let resnet = |keys: &str| {
            let text = TRAIN.replace("'distilbert'", "'resnet'");
            let text = text.replace("profile.smoke.model_size.n_layers = 2", "");
            let text = text.replace("'reviews'", "'synthetic-images'");
            workload(&format!("{text}\n{keys}"), Profile::Full)
        };
        let Task::Train(task) = resnet("").unwrap().task else {
            panic!()
        };
        assert_eq!(task.model, Model::Resnet(ResNetSize::RESNET20));
        let error = resnet("model_size.depth = 24").unwrap_err();
        assert!(
            error.contains("`depth` 24 is not 2 more than a multiple of 6"),
            "{error}"
        );
        assert!(error.contains("try `depth = 20`"), "{error}");
        let error = resnet("model_size.dim = 24").unwrap_err();
        assert!(error.contains("unknown key `dim`"), "{error}");
        let text = TRAIN.replace("'reviews'", "'synthetic-images'");
        let error = workload(&text, Profile::Full).unwrap_err();
        let wanted = "model `distilbert` does not support dataset `synthetic-images`\n  hint: use `synthetic-reviews` or `reviews`";
        assert!(error.contains(wanted), "{error}");
    }

    #[test]
    fn shape_keys_depend_on_the_kernel() {
        let kernel = |kernel: &str, shape: &str| {
            let text = format!("name = 'w'\ntask = 'kernel'\nkernel = '{kernel}'\nshape = {{ {shape} }}");
            workload(&text, Profile::Full)
        };
        let Task::Kernel(task) = kernel("matmul", "m = 64, n = 64").unwrap().task else {
            panic!()
        };
        let shape = MatmulShape {
            batch: 1,
            m: Some(64),
            n: Some(64),
            k: None,
        };
        assert_eq!(task.kernel, Kernel::Matmul(shape));
        let Task::Kernel(task) = kernel("rms-norm", "width = 64").unwrap().task else {
            panic!()
        };
        let rows = RowsShape {
            rows: None,
            width: 64,
        };
        assert_eq!(task.kernel, Kernel::RmsNorm(rows));
        let error = kernel("attention", "m = 64").unwrap_err();
        assert!(error.contains("unknown key `m`"), "{error}");
        let error = kernel("convolution", "edge = 3, padding = 3").unwrap_err();
        assert!(error.contains("`padding` 3 is not less than `edge` 3"), "{error}");
    }

    #[test]
    fn profile_cannot_override_task_or_model() {
        let error = workload(&format!("{TRAIN}\nprofile.full.task = 'kernel'"), Profile::Full).unwrap_err();
        assert!(error.contains("unknown key `task`"), "{error}");
        let error = workload(
            &format!("{TRAIN}\nprofile.full.model = 'distilbert'"),
            Profile::Full,
        )
        .unwrap_err();
        assert!(error.contains("unknown key `model`"), "{error}");
    }

    #[test]
    fn key_of_another_task_is_unknown() {
        let error = workload(&format!("{TRAIN}\nmin_samples = 3"), Profile::Full).unwrap_err();
        assert!(error.contains("unknown key `min_samples`"), "{error}");
    }
}
