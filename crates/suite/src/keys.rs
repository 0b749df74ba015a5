//! All keys of the suite format with their types and defaults. The parser reads by this list, and the tables of `docs/suite-format.md` are
//! generated from it.

use std::fmt;

use mantissa_core::{CacheState, DatasetKind, KernelKind, LearningRateSchedule, Profile, Status, TaskKind};

/// Key of a table.
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) takes: Takes,
    pub(crate) absent: Absent,
    pub(crate) meaning: &'static str,
}

/// Type of a key's value.
#[derive(Clone, Copy)]
pub(crate) enum Takes {
    Text,
    Texts,
    Boolean,
    /// A whole number with this minimum.
    Whole(u32),
    /// A number above 0.
    Positive,
    /// A number of 0 or more.
    NotNegative,
    /// A number.
    Number,
    /// The name of a metric, or of a group of metrics.
    Metric,
    /// A number of 0 or more and below 1.
    Share,
    Name(fn() -> Vec<&'static str>),
    Names(fn() -> Vec<&'static str>),
    Table,
    Tables,
}

impl fmt::Display for Takes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |names: &[&str]| format!("`{}`", names.join("`, `"));
        match self {
            Self::Text => f.write_str("a text"),
            Self::Texts => f.write_str("a list of texts"),
            Self::Boolean => f.write_str("`true` or `false`"),
            Self::Whole(0) => f.write_str("a whole number"),
            Self::Whole(least) => write!(f, "a whole number of {least} or more"),
            Self::Positive => f.write_str("a number above 0"),
            Self::NotNegative => f.write_str("a number of 0 or more"),
            Self::Number => f.write_str("a number"),
            Self::Metric => f.write_str("a metric, or `peak_memory`"),
            Self::Share => f.write_str("a number from 0 to below 1"),
            Self::Name(names) => write!(f, "one of {}", list(&names())),
            Self::Names(names) => write!(f, "a list of {}", list(&names())),
            Self::Table => f.write_str("a table"),
            Self::Tables => f.write_str("a list of tables"),
        }
    }
}

/// Meaning of an absent key.
#[derive(Clone, Copy)]
pub(crate) enum Absent {
    /// The key is required.
    Error,
    /// Default value in TOML, parsed as if it stood in the file.
    Value(&'static str),
    /// A default that cannot be written as a value.
    Means(
        #[cfg_attr(
            not(test),
            expect(dead_code, reason = "words for the documentation, which a test checks")
        )]
        &'static str,
    ),
}

const fn key(name: &'static str, takes: Takes, absent: Absent, meaning: &'static str) -> Key {
    Key {
        name,
        takes,
        absent,
        meaning,
    }
}

macro_rules! names {
    ($ty:ty) => {
        || <$ty>::ALL.iter().map(|value| value.name()).collect()
    };
}

macro_rules! tables {
    ($($(#[$doc:meta])* $table:ident = $title:literal { $($key:ident: $name:literal, $takes:expr, $absent:expr, $meaning:literal;)+ })+) => {
        $(
            $(#[$doc])*
            pub(crate) mod $table {
                use super::*;
                $(pub(crate) const $key: Key = key($name, $takes, $absent, $meaning);)+
                pub(crate) const KEYS: &[Key] = &[$($key),+];
            }
        )+
        /// All tables with their keys, in the order of the documentation.
        #[cfg(test)]
        pub(crate) const TABLES: &[(&str, &[Key])] = &[$(($title, $table::KEYS)),+];
    };
}

tables! {
    /// Top level of the file.
    suite = "suite" {
        TITLE: "title", Takes::Text, Absent::Error, "headline of the suite's section in the report";
        QUESTION: "question", Takes::Text, Absent::Error, "the question of the suite";
        ANALYSIS: "analysis", Takes::Text, Absent::Value("''"), "prose for the report; an empty line ends a paragraph";
        REFERENCES: "references", Takes::Texts, Absent::Value("[]"), "published tables to print beside the results: `references/<name>.toml`";
        TIMEOUT: "timeout_minutes", Takes::Positive, Absent::Value("15"), "minutes after which the worker of a cell is ended with status `timeout`";
        AXES: "axes", Takes::Table, Absent::Means("one cell a workload"), "what is swept (see *Axes*)";
        WORKLOAD: "workload", Takes::Tables, Absent::Error, "what is run (see *Workloads*)";
        EXPECT: "expect", Takes::Tables, Absent::Means("every cell ends `ok`"), "what must hold (see *Expectations*)";
        CLAIM: "claim", Takes::Tables, Absent::Means("none is tested"), "claims of articles (see *Claims*)";
        PROFILE: "profile", Takes::Table, Absent::Means("profiles differ in nothing"), "what a profile changes (see *Profiles*)";
    }
    /// `[profile.<name>]`.
    profile = "profile" {
        AXES: "axes", Takes::Table, Absent::Means("the suite's axes"), "axes that replace those of the same name; others are added after them";
        TIMEOUT: "timeout_minutes", Takes::Positive, Absent::Means("the suite's"), "as above";
    }
    /// `[[workload]]` with any task.
    workload = "workload" {
        NAME: "name", Takes::Text, Absent::Error, "name in tables; unique in the suite, and part of a cell's identity";
        TASK: "task", Takes::Name(names!(TaskKind)), Absent::Error, "what to do: it decides which other keys there are";
        PROFILE: "profile", Takes::Table, Absent::Means("the same sizes in every profile"), "`[workload.profile.<name>]` overrides any key of the task but `model` and `kernel`";
    }
    /// `[[workload]]` with `task = "train"`.
    train = "workload, task = \"train\"" {
        MODEL: "model", Takes::Name(model_names), Absent::Error, "the architecture";
        MODEL_SIZE: "model_size", Takes::Table, Absent::Means("the published base size"), "its size (see `model_size`)";
        DATASET: "dataset", Takes::Name(names!(DatasetKind)), Absent::Error, "`reviews`, `text` and `images` are the user's if the run was given any, else synthetic ones; those with `synthetic-` in their names are always synthetic. A `distilbert` reads reviews; a `gpt2` and a `llama` running text, of which they predict the next words; a `bloom` either; a `bert` reviews, or running text in which some words are hidden from it; the others see images";
        SPLIT: "split", Takes::Table, Absent::Error, "how the data is divided (see `split`)";
        EPOCHS: "epochs", Takes::Whole(1), Absent::Error, "passes over the training part";
        LEARNING_RATE: "learning_rate", Takes::Positive, Absent::Error, "learning rate: the highest of its schedule, before the axis `learning_rate_scaling`";
        WEIGHT_DECAY: "weight_decay", Takes::NotNegative, Absent::Value("0.01"), "weight decay: decoupled under the optimizer `adamw`; of matrices alone under `lars` and `lamb`";
        MOMENTUM: "momentum", Takes::Share, Absent::Value("0.0"), "momentum; the optimizers `sgd` and `lars` use it";
        DROP_LAST: "drop_last", Takes::Boolean, Absent::Value("false"), "drop a short last micro-batch of an epoch";
        OBSERVE_EVERY: "observe_every", Takes::Whole(0), Absent::Value("0"), "optimizer steps from one whose values are counted to the next, beside the same step in a wider format: overflow, underflow, subnormal values, lost updates; 0: none is. Times and memory of such a cell are not to be compared with others";
        SENSITIVITY: "sensitivity", Takes::Boolean, Absent::Value("false"), "after the test, test the trained model again with its products in formats of fewer and fewer bits of exponent and of fraction: is it range or precision that it needs? For `precision = \"32-true\"`; other cells do not";
        SCHEDULE: "learning_rate_schedule", Takes::Name(names!(LearningRateSchedule)), Absent::Value("'constant'"), "how the learning rate changes from step to step: not at all, or down to 0 at the last one";
        WARMUP_STEPS: "warmup_steps", Takes::Whole(0), Absent::Value("0"), "optimizer steps in which the learning rate rises from 0 before that";
        LEARNING_RATE_BATCH: "learning_rate_batch", Takes::Whole(1), Absent::Value("32"), "effective batch that `learning_rate` is meant for; the axis `learning_rate_scaling` scales it to that of the cell";
        CLIP_NORM: "clip_norm", Takes::Positive, Absent::Means("they are left as they are"), "gradients of all parameters together are scaled down to this norm";
        LOSS_SCALE: "loss_scale", Takes::Positive, Absent::Means("it starts at 65536, halves after an overflow and doubles after 2000 good steps"), "a loss scale that stays, for `precision = \"16-mixed\"`";
    }
    /// `[[workload]]` with `task = "evaluate"`.
    evaluate = "workload, task = \"evaluate\"" {
        MODEL: "model", Takes::Name(model_names), Absent::Error, "the architecture. Its weights are those of `--weights`; without them its cells are skipped, unless `--init random` requests times and memory only";
        MODEL_SIZE: "model_size", Takes::Table, Absent::Means("the published base size"), "its size (see `model_size`)";
        DATASET: "dataset", Takes::Name(names!(DatasetKind)), Absent::Error, "as above; its test part is used, or all of it where it has one part";
        TEST: "test", Takes::Whole(1), Absent::Means("all there are"), "test examples, at most";
    }
    /// `[[workload]]` with `task = "generate"`.
    generate = "workload, task = \"generate\"" {
        MODEL: "model", Takes::Name(model_names), Absent::Error, "the architecture, one that writes; without weights they are drawn from the seed, and the text means nothing";
        MODEL_SIZE: "model_size", Takes::Table, Absent::Means("the published base size"), "its size (see `model_size`)";
        PROMPT_TOKENS: "prompt_tokens", Takes::Whole(1), Absent::Value("64"), "tokens of a prompt; they are drawn from the seed";
        NEW_TOKENS: "new_tokens", Takes::Whole(2), Absent::Value("64"), "tokens that are written after it";
        TEMPERATURE: "temperature", Takes::NotNegative, Absent::Value("0.0"), "what logits are divided by before a token is drawn; at 0 the likeliest is taken";
        MIN_SAMPLES: "min_samples", Takes::Whole(1), Absent::Value("3"), "fewest texts that are written";
        MAX_SAMPLES: "max_samples", Takes::Whole(1), Absent::Value("20"), "most texts that are written; not fewer than `min_samples`. Below 20 the noise is not looked at";
        MAX_SECONDS: "max_seconds", Takes::Positive, Absent::Value("60"), "sampling stops after this long once `min_samples` are there";
        MAX_NOISE: "max_noise", Takes::Positive, Absent::Value("0.05"), "sampling stops when half the 95 % interval of the median is within this share of it";
    }
    /// `[workload.model_size]` of `model = "distilbert"`.
    distilbert = "model_size, model = \"distilbert\"" {
        N_LAYERS: "n_layers", Takes::Whole(1), Absent::Value("6"), "transformer blocks";
        DIM: "dim", Takes::Whole(1), Absent::Value("768"), "width of the residual stream; a multiple of `n_heads`";
        N_HEADS: "n_heads", Takes::Whole(1), Absent::Value("12"), "attention heads";
        HIDDEN_DIM: "hidden_dim", Takes::Whole(1), Absent::Value("3072"), "width of the feed-forward layer";
        MAX_POSITION: "max_position_embeddings", Takes::Whole(1), Absent::Value("512"), "longest sequence in tokens; a cell with a longer `sequence` is skipped";
        DROPOUT: "dropout", Takes::Share, Absent::Value("0.1"), "dropout after embeddings and sub-layers";
        ATTENTION_DROPOUT: "attention_dropout", Takes::Share, Absent::Value("0.1"), "dropout of attention weights";
        CLASSIFIER_DROPOUT: "seq_classif_dropout", Takes::Share, Absent::Value("0.2"), "dropout before the classifier";
    }
    /// `[workload.model_size]` of `model = "resnet"`.
    resnet = "model_size, model = \"resnet\"" {
        DEPTH: "depth", Takes::Whole(8), Absent::Value("20"), "layers with weights: 2 more than a multiple of 6";
        WIDTH: "width", Takes::Whole(1), Absent::Value("16"), "channels of the first of three stages; each of the others has twice as many";
    }
    /// `[workload.model_size]` of `model = "bert"`.
    bert = "model_size, model = \"bert\"" {
        HIDDEN_SIZE: "hidden_size", Takes::Whole(1), Absent::Value("768"), "width of the residual stream; a multiple of `num_attention_heads`";
        LAYERS: "num_hidden_layers", Takes::Whole(1), Absent::Value("12"), "transformer blocks";
        HEADS: "num_attention_heads", Takes::Whole(1), Absent::Value("12"), "attention heads";
        INTERMEDIATE: "intermediate_size", Takes::Whole(1), Absent::Value("3072"), "width of the feed-forward layer";
        MAX_POSITION: "max_position_embeddings", Takes::Whole(1), Absent::Value("512"), "longest sequence in tokens; a cell with a longer `sequence` is skipped";
        DROPOUT: "hidden_dropout_prob", Takes::Share, Absent::Value("0.1"), "dropout after embeddings and sub-layers, and before the classifier";
        ATTENTION_DROPOUT: "attention_probs_dropout_prob", Takes::Share, Absent::Value("0.1"), "dropout of attention weights";
        NORM_EPSILON: "layer_norm_eps", Takes::Positive, Absent::Value("1e-12"), "epsilon of the norms";
    }
    /// `[workload.model_size]` of `model = "resnet-imagenet"`.
    imagenet = "model_size, model = \"resnet-imagenet\"" {
        DEPTH: "depth", Takes::Whole(18), Absent::Value("50"), "layers with weights: 18, or 50 with bottlenecks";
        WIDTH: "width", Takes::Whole(1), Absent::Value("64"), "channels of the first of four stages; each of the others has twice as many";
        IMAGE_SIZE: "image_size", Takes::Whole(33), Absent::Value("224"), "rows and columns of an image; with 32, batch norms of the last stage would see one value";
    }
    /// `[workload.model_size]` of `model = "vit"`.
    vit = "model_size, model = \"vit\"" {
        IMAGE_SIZE: "image_size", Takes::Whole(1), Absent::Value("224"), "rows and columns of an image; a multiple of `patch_size`";
        PATCH_SIZE: "patch_size", Takes::Whole(1), Absent::Value("16"), "rows and columns of a patch";
        HIDDEN_SIZE: "hidden_size", Takes::Whole(1), Absent::Value("768"), "width of the residual stream; a multiple of `num_attention_heads`";
        LAYERS: "num_hidden_layers", Takes::Whole(1), Absent::Value("12"), "transformer blocks";
        HEADS: "num_attention_heads", Takes::Whole(1), Absent::Value("12"), "attention heads";
        INTERMEDIATE: "intermediate_size", Takes::Whole(1), Absent::Value("3072"), "width of the feed-forward layer";
        DROPOUT: "hidden_dropout_prob", Takes::Share, Absent::Value("0.0"), "dropout after embeddings and sub-layers";
        ATTENTION_DROPOUT: "attention_probs_dropout_prob", Takes::Share, Absent::Value("0.0"), "dropout of attention weights";
        NORM_EPSILON: "layer_norm_eps", Takes::Positive, Absent::Value("1e-12"), "epsilon of the norms";
    }
    /// `[workload.model_size]` of `model = "llama"`.
    llama = "model_size, model = \"llama\"" {
        VOCABULARY: "vocab_size", Takes::Whole(2), Absent::Value("32000"), "words of its table";
        HIDDEN_SIZE: "hidden_size", Takes::Whole(1), Absent::Value("4096"), "width of the residual stream";
        INTERMEDIATE: "intermediate_size", Takes::Whole(1), Absent::Value("11008"), "width of the feed-forward layer";
        LAYERS: "num_hidden_layers", Takes::Whole(1), Absent::Value("32"), "transformer blocks";
        HEADS: "num_attention_heads", Takes::Whole(1), Absent::Value("32"), "attention heads; a multiple of `num_key_value_heads`";
        KEY_VALUE_HEADS: "num_key_value_heads", Takes::Whole(1), Absent::Means("as many as heads"), "heads of keys and values, which neighbouring heads share";
        HEAD_WIDTH: "head_dim", Takes::Whole(2), Absent::Means("`hidden_size` over heads"), "width of a head; even";
        MAX_POSITION: "max_position_embeddings", Takes::Whole(1), Absent::Value("4096"), "longest sequence in tokens; a cell with a longer `sequence` is skipped";
        NORM_EPSILON: "rms_norm_eps", Takes::Positive, Absent::Value("1e-5"), "epsilon of the norms";
        ROPE_THETA: "rope_theta", Takes::Positive, Absent::Value("10000.0"), "base of the frequencies of the rotary embeddings";
        ROPE_SCALING: "rope_scaling", Takes::Table, Absent::Means("frequencies as they are"), "how LLaMA 3.1 slows them down (see `rope_scaling`)";
        ROPE_INTERLEAVED: "rope_interleaved", Takes::Boolean, Absent::Value("false"), "neighbouring elements turn together, as in Meta's own and llama2.c's checkpoints, and not those of two halves, as in Hugging Face's";
        TIED: "tie_word_embeddings", Takes::Boolean, Absent::Value("false"), "the head is the table of words";
    }
    /// `[workload.model_size.rope_scaling]` of `model = "llama"`.
    rope_scaling = "rope_scaling" {
        FACTOR: "factor", Takes::Positive, Absent::Error, "what the slowest frequencies are divided by";
        LOW: "low_freq_factor", Takes::Positive, Absent::Error, "turns within the original length below which a frequency is slowed down by all of it";
        HIGH: "high_freq_factor", Takes::Positive, Absent::Error, "turns above which it stays as it is";
        ORIGINAL: "original_max_position_embeddings", Takes::Whole(1), Absent::Error, "the original length";
    }
    /// `[workload.model_size]` of `model = "gpt2"`.
    gpt2 = "model_size, model = \"gpt2\"" {
        VOCABULARY: "vocab_size", Takes::Whole(2), Absent::Value("50257"), "words of its table";
        POSITIONS: "n_positions", Takes::Whole(1), Absent::Value("1024"), "longest sequence in tokens; a cell with a longer `sequence` is skipped";
        WIDTH: "n_embd", Takes::Whole(1), Absent::Value("768"), "width of the residual stream; a multiple of `n_head`";
        LAYERS: "n_layer", Takes::Whole(1), Absent::Value("12"), "transformer blocks";
        HEADS: "n_head", Takes::Whole(1), Absent::Value("12"), "attention heads";
        INNER: "n_inner", Takes::Whole(1), Absent::Means("four times `n_embd`"), "width of the feed-forward layer";
        NORM_EPSILON: "layer_norm_epsilon", Takes::Positive, Absent::Value("1e-5"), "epsilon of the norms";
        EMBEDDING_DROPOUT: "embd_pdrop", Takes::Share, Absent::Value("0.1"), "dropout of the embeddings";
        ATTENTION_DROPOUT: "attn_pdrop", Takes::Share, Absent::Value("0.1"), "dropout of attention weights";
        DROPOUT: "resid_pdrop", Takes::Share, Absent::Value("0.1"), "dropout after sub-layers";
    }
    /// `[workload.model_size]` of `model = "bloom"`.
    bloom = "model_size, model = \"bloom\"" {
        VOCABULARY: "vocab_size", Takes::Whole(2), Absent::Value("250880"), "words of its table";
        HIDDEN_SIZE: "hidden_size", Takes::Whole(1), Absent::Value("1024"), "width of the residual stream; a multiple of `n_head`";
        LAYERS: "n_layer", Takes::Whole(1), Absent::Value("24"), "transformer blocks";
        HEADS: "n_head", Takes::Whole(1), Absent::Value("16"), "attention heads";
        NORM_EPSILON: "layer_norm_epsilon", Takes::Positive, Absent::Value("1e-5"), "epsilon of the norms";
        DROPOUT: "hidden_dropout", Takes::Share, Absent::Value("0.0"), "dropout after sub-layers";
        ATTENTION_DROPOUT: "attention_dropout", Takes::Share, Absent::Value("0.0"), "dropout of attention weights";
    }
    /// `[workload.split]`.
    split = "split" {
        JOIN: "join", Takes::Boolean, Absent::Value("false"), "join all parts and cut them anew, as the articles did; else the given test part is kept and validation is cut from the training part";
        TRAIN: "train", Takes::Whole(1), Absent::Means("all that are left"), "training examples, at most";
        VALIDATION: "validation", Takes::Whole(0), Absent::Error, "validation examples, at most";
        TEST: "test", Takes::Whole(1), Absent::Means("all that are left"), "test examples, at most";
        SEED: "seed", Takes::Whole(0), Absent::Value("123"), "seed of the shuffle before cutting; not the axis `seed`, so that all settings share one test set";
    }
    /// `[[workload]]` with `task = "kernel"`.
    kernel = "workload, task = \"kernel\"" {
        KERNEL: "kernel", Takes::Name(names!(KernelKind)), Absent::Error, "the operation";
        SHAPE: "shape", Takes::Table, Absent::Means("the defaults of the operation's `shape`"), "the dimensions that the axis `size` does not set (see `shape`)";
        MIN_SAMPLES: "min_samples", Takes::Whole(1), Absent::Value("10"), "fewest timed launches";
        MAX_SAMPLES: "max_samples", Takes::Whole(1), Absent::Value("100"), "most timed launches; not fewer than `min_samples`. Below 20 the noise is not looked at, and nothing is warmed up but the first launch";
        MAX_SECONDS: "max_seconds", Takes::Positive, Absent::Value("5"), "sampling stops after this long once `min_samples` are there";
        MAX_NOISE: "max_noise", Takes::Positive, Absent::Value("0.01"), "sampling stops when half the 95 % interval of the median launch is within this share of it";
        CACHE: "cache", Takes::Name(names!(CacheState)), Absent::Value("'cold'"), "what the last-level cache holds of the inputs: nothing, since copies larger than it take turns, or what the launch before left there";
    }
    /// `[workload.shape]` of `kernel = "matmul"`.
    matmul = "shape, kernel = \"matmul\"" {
        BATCH: "batch", Takes::Whole(1), Absent::Value("1"), "products at a time";
        M: "m", Takes::Whole(1), Absent::Means("the axis `size`"), "rows of the left matrices and of the result";
        N: "n", Takes::Whole(1), Absent::Means("the axis `size`"), "columns of the right matrices and of the result";
        K: "k", Takes::Whole(1), Absent::Means("the axis `size`"), "columns of the left and rows of the right matrices: terms of a sum";
    }
    /// `[workload.shape]` of `kernel = "convolution"`.
    convolution = "shape, kernel = \"convolution\"" {
        BATCH: "batch", Takes::Whole(1), Absent::Value("32"), "images at a time; each has `size` rows and columns";
        CHANNELS: "channels", Takes::Whole(1), Absent::Value("64"), "channels of an image";
        FILTERS: "filters", Takes::Whole(1), Absent::Value("64"), "filters, each of which gives one channel of the result";
        EDGE: "edge", Takes::Whole(1), Absent::Value("3"), "rows and columns of a filter";
        STRIDE: "stride", Takes::Whole(1), Absent::Value("1"), "rows and columns from one window to the next";
        PADDING: "padding", Takes::Whole(0), Absent::Value("1"), "rows and columns of zeros around an image; less than `edge`";
    }
    /// `[workload.shape]` of `kernel = "attention"`.
    attention = "shape, kernel = \"attention\"" {
        BATCH: "batch", Takes::Whole(1), Absent::Value("8"), "sequences at a time; each has `size` positions";
        HEADS: "heads", Takes::Whole(1), Absent::Value("12"), "heads of a sequence";
        WIDTH: "width", Takes::Whole(1), Absent::Value("64"), "width of a head";
    }
    /// `[workload.shape]` of the kernels without a matmul.
    rows = "shape, any other kernel" {
        ROWS: "rows", Takes::Whole(1), Absent::Means("the axis `size`"), "rows of values";
        WIDTH: "width", Takes::Whole(1), Absent::Value("768"), "values in a row: what a softmax or a norm runs over";
    }
    /// `[[expect]]`.
    expect = "expect" {
        MATCHING: "matching", Takes::Table, Absent::Means("every cell"), "axis values that a cell must have for the statement to concern it";
        PROFILES: "profiles", Takes::Names(names!(Profile)), Absent::Means("every profile"), "profiles in which the statement holds";
        STATUS: "status", Takes::Names(names!(Status)), Absent::Means("that of an earlier statement, or `ok`"), "statuses that are results rather than failures";
        AT_LEAST: "at_least", Takes::Table, Absent::Means("no lower bounds"), "metrics, in their recorded units, that may not be smaller";
        AT_MOST: "at_most", Takes::Table, Absent::Means("no upper bounds"), "metrics, in their recorded units, that may not be larger";
    }
    /// `[[claim]]` of any kind.
    claim = "claim" {
        SAYS: "says", Takes::Text, Absent::Error, "the sentence, quoted or in other words";
        SOURCE: "source", Takes::Table, Absent::Error, "its source (see `source`)";
        WORKLOAD: "workload", Takes::Text, Absent::Means("every workload"), "name of the only workload that it is about";
        OF: "of", Takes::Table, Absent::Error, "axis values of the setting that it is about";
    }
    /// `[[claim]]` that compares two settings.
    compared = "claim, of two settings" {
        AGAINST: "against", Takes::Table, Absent::Error, "axis values of the setting that it is compared with; an axis that is named on one side alone has that value on both";
        METRIC: "metric", Takes::Metric, Absent::Error, "the quantity; `peak_memory` is the first of `allocator_reserved_peak_bytes`, `device_peak_bytes` and `host_peak_bytes` that both settings have";
    }
    /// `[[claim]]` of a ratio.
    by_ratio = "claim, of a ratio" {
        RATIO: "ratio", Takes::Table, Absent::Error, "bounds of the quantity `of` the one setting over that of the other it is held `against`";
    }
    /// `[[claim]]` of a difference.
    by_difference = "claim, of a difference" {
        DIFFERENCE: "difference", Takes::Table, Absent::Error, "bounds of the quantity `of` the one setting less that of the other it is held `against`: for accuracies, losses and perplexity, in their recorded units";
    }
    /// `[[claim]]` about the status of cells.
    by_status = "claim, of a status" {
        STATUS: "status", Takes::Names(claimable_names), Absent::Error, "statuses, in one of which most cells of that setting end; `failed` is a fault of a program and none of these";
    }
    /// `source` of a claim.
    source = "source" {
        TITLE: "title", Takes::Text, Absent::Error, "author, work, year";
        URL: "url", Takes::Text, Absent::Error, "where it was published";
        HARDWARE: "hardware", Takes::Text, Absent::Means("the source names nothing"), "what its numbers were measured on";
    }
    /// `ratio` of a claim.
    ratio = "ratio" {
        ABOVE: "above", Takes::Positive, Absent::Means("no lower bound"), "the ratio is larger than this";
        BELOW: "below", Takes::Positive, Absent::Means("no upper bound"), "the ratio is smaller than this";
    }
    /// `difference` of a claim.
    difference = "difference" {
        ABOVE: "above", Takes::Number, Absent::Means("no lower bound"), "the difference is larger than this";
        BELOW: "below", Takes::Number, Absent::Means("no upper bound"), "the difference is smaller than this";
    }
}

/// Returns the statuses that a claim can name. `failed` is excluded because it indicates a fault of the program.
fn claimable_names() -> Vec<&'static str> {
    let claimable = Status::ALL.iter().filter(|status| **status != Status::Failed);
    claimable.map(|status| status.name()).collect()
}

/// Returns the names of the models.
pub(crate) fn model_names() -> Vec<&'static str> {
    vec![
        DISTILBERT,
        BERT,
        RESNET,
        RESNET_IMAGENET,
        VIT,
        LLAMA,
        GPT2,
        BLOOM,
        OWN,
    ]
}

/// Name of `mantissa_core::Model::Own`.
pub(crate) const OWN: &str = "own";

/// Name of `mantissa_core::Model::Llama`.
pub(crate) const LLAMA: &str = "llama";

/// Name of `mantissa_core::Model::Gpt2`.
pub(crate) const GPT2: &str = "gpt2";

/// Name of `mantissa_core::Model::Bloom`.
pub(crate) const BLOOM: &str = "bloom";

/// Name of `mantissa_core::Model::Bert`.
pub(crate) const BERT: &str = "bert";

/// Name of `mantissa_core::Model::ResnetImagenet`.
pub(crate) const RESNET_IMAGENET: &str = "resnet-imagenet";

/// Name of `mantissa_core::Model::Vit`.
pub(crate) const VIT: &str = "vit";

/// Name of `mantissa_core::Model::Distilbert`.
pub(crate) const DISTILBERT: &str = "distilbert";

/// Name of `mantissa_core::Model::Resnet`.
pub(crate) const RESNET: &str = "resnet";

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use mantissa_core::{Axis, AxisValue, Backend, DistilBertSize, MetricName, Unit, ValueError};
    use toml::{Table, Value};

    use super::*;

    const DOCS: &str = include_str!("../../../docs/suite-format.md");

    fn documented_example() -> &'static str {
        DOCS.split_once("```toml\n")
            .unwrap()
            .1
            .split_once("```")
            .unwrap()
            .0
    }

    /// Returns the path of a table in the example of the documentation.
    fn path(table: &str) -> &'static [&'static str] {
        match table {
            "suite" => &[],
            "profile" => &["profile", "smoke"],
            "workload, task = \"kernel\"" => &["workload", "1"],
            "shape, kernel = \"matmul\"" => &["workload", "1", "shape"],
            "shape, kernel = \"convolution\"" => &["workload", "2", "shape"],
            "shape, kernel = \"attention\"" => &["workload", "3", "shape"],
            "shape, any other kernel" => &["workload", "4", "shape"],
            "model_size, model = \"distilbert\"" => &["workload", "0", "model_size"],
            "model_size, model = \"resnet\"" => &["workload", "5", "model_size"],
            "workload, task = \"evaluate\"" => &["workload", "6"],
            "model_size, model = \"bert\"" => &["workload", "7", "model_size"],
            "model_size, model = \"resnet-imagenet\"" => &["workload", "8", "model_size"],
            "model_size, model = \"vit\"" => &["workload", "9", "model_size"],
            "workload, task = \"generate\"" => &["workload", "10"],
            "model_size, model = \"llama\"" => &["workload", "10", "model_size"],
            "rope_scaling" => &["workload", "10", "model_size", "rope_scaling"],
            "model_size, model = \"gpt2\"" => &["workload", "11", "model_size"],
            "model_size, model = \"bloom\"" => &["workload", "12", "model_size"],
            "split" => &["workload", "0", "split"],
            "expect" => &["expect", "1"],
            "claim" | "claim, of two settings" | "claim, of a ratio" => &["claim", "0"],
            "claim, of a difference" => &["claim", "1"],
            "claim, of a status" => &["claim", "2"],
            "source" => &["claim", "0", "source"],
            "ratio" => &["claim", "0", "ratio"],
            "difference" => &["claim", "1", "difference"],
            _ => &["workload", "0"],
        }
    }

    fn at<'a>(table: &'a mut Table, path: &[&str]) -> &'a mut Table {
        let Some((first, rest)) = path.split_first() else {
            return table;
        };
        match (&mut table[*first], rest) {
            (Value::Array(items), [index, rest @ ..]) => at(
                items[index.parse::<usize>().unwrap()].as_table_mut().unwrap(),
                rest,
            ),
            (value, rest) => at(value.as_table_mut().unwrap(), rest),
        }
    }

    fn key_table(keys: &[Key]) -> String {
        let mut text = String::from("| key | takes | if absent | meaning |\n|---|---|---|---|\n");
        for Key {
            name,
            takes,
            absent,
            meaning,
        } in keys
        {
            let absent = match absent {
                Absent::Error => "an error".to_owned(),
                Absent::Value("''") => "none".to_owned(),
                Absent::Value(value) => format!("`{value}`"),
                Absent::Means(words) => (*words).to_owned(),
            };
            writeln!(text, "| `{name}` | {takes} | {absent} | {meaning} |").unwrap();
        }
        text
    }

    fn axis_table() -> String {
        let mut text = String::from("| axis | concerns | values | default |\n|---|---|---|---|\n");
        for axis in Axis::ALL {
            let tasks: Vec<_> = TaskKind::ALL
                .iter()
                .filter(|task| axis.applies_to(**task))
                .map(|task| format!("`{task}`"))
                .collect();
            // An empty name is not valid for any axis, and the error lists the valid values.
            let values = match axis.value(AxisValue::Text(String::new())) {
                Err(ValueError::Unknown(unknown)) => format!("`{}`", unknown.valid.join("`, `")),
                Err(ValueError::Kind { takes, .. }) => takes.to_owned(),
                Ok(_) => panic!("`{axis}` takes an empty name"),
            };
            let default = axis.default_value(Backend::Cuda);
            let default = match axis {
                Axis::Backend => "that of the run".to_owned(),
                Axis::Fusion => format!("`{default}`; `off` on flex"),
                _ => format!("`{default}`"),
            };
            writeln!(text, "| `{axis}` | {} | {values} | {default} |", tasks.join(", ")).unwrap();
        }
        text
    }

    fn metric_list() -> String {
        let described = |metric: &MetricName| match metric.unit() {
            Unit::Ratio => format!("`{metric}`"),
            unit => format!("`{metric}` ({unit})"),
        };
        let names: Vec<_> = MetricName::ALL.iter().map(described).collect();
        names.join(", ") + ".\n"
    }

    #[test]
    fn the_documentation_has_every_key_axis_and_metric_as_the_parser_has_it() {
        let tables = TABLES
            .iter()
            .map(|(title, keys)| (format!("<!-- keys: {title} -->"), key_table(keys)));
        let others = [
            ("<!-- axes -->".to_owned(), axis_table()),
            ("Metrics: <!-- metrics -->".to_owned(), metric_list()),
        ];
        let mut wrong = String::new();
        for (marker, text) in tables.chain(others) {
            let expected = format!("{marker}\n{text}\n");
            if !DOCS.contains(&expected) {
                wrong += &expected;
            }
        }
        assert!(
            wrong.is_empty(),
            "docs/suite-format.md should contain\n{wrong}(end)"
        );
    }

    #[test]
    fn the_documented_example_is_a_suite_with_every_key() {
        if let Err(errors) = crate::parse("example", "docs/suite-format.md", documented_example()) {
            panic!("{errors}");
        }
        let mut example: Table = documented_example().parse().unwrap();
        for (title, keys) in TABLES {
            let table = at(&mut example, path(title));
            let missing: Vec<_> = keys
                .iter()
                .map(|key| key.name)
                .filter(|name| !table.contains_key(*name))
                .collect();
            assert!(missing.is_empty(), "the example has no {missing:?} in {title}");
        }
    }

    #[test]
    fn every_key_is_read_for_a_date_is_what_none_of_them_takes() {
        let date: Value = toml::from_str::<Table>("date = 1979-05-27").unwrap()["date"].clone();
        for (title, keys) in TABLES {
            for Key { name, .. } in *keys {
                let mut example: Table = documented_example().parse().unwrap();
                at(&mut example, path(title)).insert((*name).to_owned(), date.clone());
                let errors = crate::parse("example", "x", &example.to_string())
                    .expect_err(name)
                    .to_string();
                assert!(
                    errors.contains(&format!("`{name}` takes ")),
                    "{title}, {name}: {errors}"
                );
            }
        }
    }

    #[test]
    fn the_defaults_of_the_model_size_are_the_published_base_model() {
        let documented: Vec<&str> = distilbert::KEYS
            .iter()
            .map(|key| match key.absent {
                Absent::Value(value) => value,
                _ => panic!("`{}` has no default", key.name),
            })
            .collect();
        let base = DistilBertSize::BASE;
        let whole = [
            base.n_layers,
            base.dim,
            base.n_heads,
            base.hidden_dim,
            base.max_position_embeddings,
        ];
        let shares = [base.dropout, base.attention_dropout, base.seq_classif_dropout];
        let expected: Vec<String> = whole
            .iter()
            .map(u32::to_string)
            .chain(shares.iter().map(f64::to_string))
            .collect();
        assert_eq!(documented, expected);
    }
}
