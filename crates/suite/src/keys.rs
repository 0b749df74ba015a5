//! All keys of the suite format with their types and defaults. The parser uses this list, and the tables of `docs/suite-format.md` are
//! generated from it.

use std::fmt;

use mantissa_core::{
    CacheState, DatasetKind, KernelKind, LearningRateSchedule, MAX_REPEATS, Profile, Status, TaskKind,
};

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
    /// A whole number from 1 to this maximum.
    WholeUpTo(u32),
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
            Self::Text => f.write_str("a string"),
            Self::Texts => f.write_str("a list of strings"),
            Self::Boolean => f.write_str("`true` or `false`"),
            Self::Whole(0) => f.write_str("a whole number"),
            Self::Whole(min) => write!(f, "a whole number of {min} or more"),
            Self::WholeUpTo(max) => write!(f, "a whole number from 1 to {max}"),
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
    /// Default value in TOML, parsed as if the file contained it.
    Value(&'static str),
    /// A default that cannot be written as a value.
    Means(
        #[cfg_attr(
            not(test),
            expect(dead_code, reason = "text for the documentation, which a test checks")
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
        TITLE: "title", Takes::Text, Absent::Error, "title of the suite's section in the report";
        QUESTION: "question", Takes::Text, Absent::Error, "question that the suite investigates";
        ANALYSIS: "analysis", Takes::Text, Absent::Value("''"), "text for the report; an empty line ends a paragraph";
        REFERENCES: "references", Takes::Texts, Absent::Value("[]"), "published tables that the report shows next to the results: `references/<name>.toml`";
        TIMEOUT: "timeout_minutes", Takes::Positive, Absent::Value("15"), "time limit of a cell in minutes, after which its worker is killed and the status is `timeout`";
        INPUTS: "inputs", Takes::Table, Absent::Means("no files"), "files that the workloads read unless the command line names others (see *Inputs*)";
        AXES: "axes", Takes::Table, Absent::Means("one cell per workload"), "swept axes (see *Axes*)";
        WORKLOAD: "workload", Takes::Tables, Absent::Error, "workloads to run (see *Workloads*)";
        EXPECT: "expect", Takes::Tables, Absent::Means("every cell must end with status `ok`"), "expectations for the cells (see *Expectations*)";
        CLAIM: "claim", Takes::Tables, Absent::Means("no claims"), "claims of articles to test (see *Claims*)";
        PROFILE: "profile", Takes::Table, Absent::Means("the same in every profile"), "overrides of a profile (see *Profiles*)";
    }
    /// `[profile.<name>]`.
    profile = "profile" {
        AXES: "axes", Takes::Table, Absent::Means("the suite's axes"), "axes that replace those of the same name; other axes are appended";
        INPUTS: "inputs", Takes::Table, Absent::Means("the suite's"), "files that replace those of the suite, key by key (see *Inputs*)";
        REPEATS: "repeats", Takes::WholeUpTo(MAX_REPEATS), Absent::Means("3 in `standard`, otherwise 1"), "number of processes of each cell without `--repeats`";
        TIMEOUT: "timeout_minutes", Takes::Positive, Absent::Means("the suite's"), "as above";
    }
    /// `[inputs]`.
    inputs = "inputs" {
        DATA: "data", Takes::Table, Absent::Means("synthetic data"), "paths of data by kind: `reviews`, `text` or `images`";
        VOCABULARY: "vocabulary", Takes::Text, Absent::Means("the tokenizer of the weights, or the words of the data"), "path of the vocabulary or tokenizer, as with `--vocabulary`";
        WEIGHTS: "weights", Takes::Table, Absent::Means("no weights"), "paths of weights by workload";
    }
    /// `[[workload]]` with any task.
    workload = "workload" {
        NAME: "name", Takes::Text, Absent::Error, "name in tables; unique in the suite, and part of the identity of a cell";
        TASK: "task", Takes::Name(names!(TaskKind)), Absent::Error, "kind of task, which determines the other keys";
        PROFILE: "profile", Takes::Table, Absent::Means("the same sizes in every profile"), "`[workload.profile.<name>]` overrides any key of the task except `model` and `kernel`";
    }
    /// `[[workload]]` with `task = "train"`.
    train = "workload, task = \"train\"" {
        MODEL: "model", Takes::Name(model_names), Absent::Error, "the architecture";
        MODEL_SIZE: "model_size", Takes::Table, Absent::Means("the published base size"), "its size (see `model_size`)";
        DATASET: "dataset", Takes::Name(names!(DatasetKind)), Absent::Error, "`reviews`, `text` and `images`: the user's data if the run has any, otherwise synthetic data. `synthetic-…`: always synthetic data. `own`: the data of the program that runs the suite. Data by model: `distilbert` reads reviews; `gpt2` and `llama` running text (next token); `bloom` reviews or running text (next token); `bert` reviews or running text (masked tokens); `own` only `own`; the other models images";
        SPLIT: "split", Takes::Table, Absent::Error, "division into training, validation and test examples (see `split`)";
        EPOCHS: "epochs", Takes::Whole(1), Absent::Error, "passes over the training examples";
        LEARNING_RATE: "learning_rate", Takes::Positive, Absent::Error, "maximum learning rate of the schedule, before scaling by the axis `learning_rate_scaling`";
        WEIGHT_DECAY: "weight_decay", Takes::NotNegative, Absent::Value("0.01"), "weight decay of the optimizers `adamw` (decoupled), `lars` and `lamb` (only of matrices); `sgd` and `adam` ignore it";
        MOMENTUM: "momentum", Takes::Share, Absent::Value("0.0"), "momentum of the optimizers `sgd` and `lars`";
        DROP_LAST: "drop_last", Takes::Boolean, Absent::Value("false"), "drop an incomplete last micro-batch of an epoch";
        OBSERVE_EVERY: "observe_every", Takes::Whole(0), Absent::Value("0"), "interval in optimizer steps at which overflow, underflow, subnormal values and lost updates are counted, by comparison with the same step in a wider format; 0: never. Times and memory of such a cell are not comparable with those of other cells";
        SENSITIVITY: "sensitivity", Takes::Boolean, Absent::Value("false"), "after the test, test the trained model again with matmuls in formats with fewer and fewer exponent bits and fraction bits, to find out whether it needs range or precision. Only cells with `precision = \"32-true\"` do this";
        SCHEDULE: "learning_rate_schedule", Takes::Name(names!(LearningRateSchedule)), Absent::Value("'constant'"), "learning rate over the steps: constant, or decaying to 0 at the last step";
        WARMUP_STEPS: "warmup_steps", Takes::Whole(0), Absent::Value("0"), "number of optimizer steps at the start during which the learning rate rises linearly from 0; the schedule begins after them";
        LEARNING_RATE_BATCH: "learning_rate_batch", Takes::Whole(1), Absent::Value("32"), "effective batch size for which `learning_rate` is specified; the axis `learning_rate_scaling` scales the learning rate to the effective batch size of the cell";
        CLIP_NORM: "clip_norm", Takes::Positive, Absent::Means("no clipping"), "maximum norm of all gradients together; larger gradients are scaled down to it";
        LOSS_SCALE: "loss_scale", Takes::Positive, Absent::Means("dynamic: starts at 65536, halves after an overflow, doubles after 2000 steps without one"), "constant loss scale for `precision = \"16-mixed\"`";
    }
    /// `[[workload]]` with `task = "evaluate"`.
    evaluate = "workload, task = \"evaluate\"" {
        MODEL: "model", Takes::Name(model_names), Absent::Error, "the architecture. Its weights come from `--weights` or `[inputs]`; without weights, its cells are skipped, unless `--init random` requests times and memory only";
        MODEL_SIZE: "model_size", Takes::Table, Absent::Means("the published base size"), "its size (see `model_size`)";
        DATASET: "dataset", Takes::Name(names!(DatasetKind)), Absent::Error, "as above; the test part is used, or all data if there is only one part";
        TEST: "test", Takes::Whole(1), Absent::Means("all"), "maximum number of test examples";
    }
    /// `[[workload]]` with `task = "generate"`.
    generate = "workload, task = \"generate\"" {
        MODEL: "model", Takes::Name(model_names), Absent::Error, "the architecture; must generate text. Without `--weights` and `[inputs]`, the weights are random and the text is meaningless";
        MODEL_SIZE: "model_size", Takes::Table, Absent::Means("the published base size"), "its size (see `model_size`)";
        PROMPT_TOKENS: "prompt_tokens", Takes::Whole(1), Absent::Value("64"), "tokens of a prompt, drawn at random from the seed";
        NEW_TOKENS: "new_tokens", Takes::Whole(2), Absent::Value("64"), "generated tokens after the prompt";
        TEMPERATURE: "temperature", Takes::NotNegative, Absent::Value("0.0"), "divisor of the logits before a token is sampled; 0: greedy decoding";
        MIN_SAMPLES: "min_samples", Takes::Whole(1), Absent::Value("3"), "minimum number of generated texts";
        MAX_SAMPLES: "max_samples", Takes::Whole(1), Absent::Value("20"), "maximum number of generated texts, at least `min_samples`. If it is below 20, `max_noise` is ignored";
        MAX_SECONDS: "max_seconds", Takes::Positive, Absent::Value("60"), "seconds after which sampling stops, once there are `min_samples` samples";
        MAX_NOISE: "max_noise", Takes::Positive, Absent::Value("0.05"), "sampling stops when half the width of the 95 % interval of the median is at most this share of the median";
    }
    /// `[workload.model_size]` of `model = "distilbert"`.
    distilbert = "model_size, model = \"distilbert\"" {
        N_LAYERS: "n_layers", Takes::Whole(1), Absent::Value("6"), "transformer blocks";
        DIM: "dim", Takes::Whole(1), Absent::Value("768"), "width of the residual stream; a multiple of `n_heads`";
        N_HEADS: "n_heads", Takes::Whole(1), Absent::Value("12"), "attention heads";
        HIDDEN_DIM: "hidden_dim", Takes::Whole(1), Absent::Value("3072"), "width of the feed-forward layer";
        MAX_POSITION: "max_position_embeddings", Takes::Whole(1), Absent::Value("512"), "maximum sequence length in tokens; a cell with a longer `sequence` is skipped";
        DROPOUT: "dropout", Takes::Share, Absent::Value("0.1"), "dropout after embeddings and sub-layers";
        ATTENTION_DROPOUT: "attention_dropout", Takes::Share, Absent::Value("0.1"), "dropout of attention weights";
        CLASSIFIER_DROPOUT: "seq_classif_dropout", Takes::Share, Absent::Value("0.2"), "dropout before the classifier";
    }
    /// `[workload.model_size]` of `model = "resnet"`.
    resnet = "model_size, model = \"resnet\"" {
        DEPTH: "depth", Takes::Whole(8), Absent::Value("20"), "layers with weights: 2 more than a multiple of 6";
        WIDTH: "width", Takes::Whole(1), Absent::Value("16"), "channels of the first of three stages; each further stage doubles them";
    }
    /// `[workload.model_size]` of `model = "bert"`.
    bert = "model_size, model = \"bert\"" {
        HIDDEN_SIZE: "hidden_size", Takes::Whole(1), Absent::Value("768"), "width of the residual stream; a multiple of `num_attention_heads`";
        LAYERS: "num_hidden_layers", Takes::Whole(1), Absent::Value("12"), "transformer blocks";
        HEADS: "num_attention_heads", Takes::Whole(1), Absent::Value("12"), "attention heads";
        INTERMEDIATE: "intermediate_size", Takes::Whole(1), Absent::Value("3072"), "width of the feed-forward layer";
        MAX_POSITION: "max_position_embeddings", Takes::Whole(1), Absent::Value("512"), "maximum sequence length in tokens; a cell with a longer `sequence` is skipped";
        DROPOUT: "hidden_dropout_prob", Takes::Share, Absent::Value("0.1"), "dropout after embeddings and sub-layers, and before the classifier";
        ATTENTION_DROPOUT: "attention_probs_dropout_prob", Takes::Share, Absent::Value("0.1"), "dropout of attention weights";
        NORM_EPSILON: "layer_norm_eps", Takes::Positive, Absent::Value("1e-12"), "epsilon of the norms";
    }
    /// `[workload.model_size]` of `model = "resnet-imagenet"`.
    imagenet = "model_size, model = \"resnet-imagenet\"" {
        DEPTH: "depth", Takes::Whole(18), Absent::Value("50"), "layers with weights: 18, or 50 with bottlenecks";
        WIDTH: "width", Takes::Whole(1), Absent::Value("64"), "channels of the first of four stages; each further stage doubles them";
        IMAGE_SIZE: "image_size", Takes::Whole(33), Absent::Value("224"), "rows and columns of an image; with 32, batch norms of the last stage would normalise a single value";
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
        VOCABULARY: "vocab_size", Takes::Whole(2), Absent::Value("32000"), "vocabulary size";
        HIDDEN_SIZE: "hidden_size", Takes::Whole(1), Absent::Value("4096"), "width of the residual stream";
        INTERMEDIATE: "intermediate_size", Takes::Whole(1), Absent::Value("11008"), "width of the feed-forward layer";
        LAYERS: "num_hidden_layers", Takes::Whole(1), Absent::Value("32"), "transformer blocks";
        HEADS: "num_attention_heads", Takes::Whole(1), Absent::Value("32"), "attention heads; a multiple of `num_key_value_heads`";
        KEY_VALUE_HEADS: "num_key_value_heads", Takes::Whole(1), Absent::Means("`num_attention_heads`"), "key and value heads, each shared by neighbouring query heads";
        HEAD_WIDTH: "head_dim", Takes::Whole(2), Absent::Means("`hidden_size` / `num_attention_heads`"), "width of a head; even";
        MAX_POSITION: "max_position_embeddings", Takes::Whole(1), Absent::Value("4096"), "maximum sequence length in tokens; a cell with a longer `sequence` is skipped";
        NORM_EPSILON: "rms_norm_eps", Takes::Positive, Absent::Value("1e-5"), "epsilon of the norms";
        ROPE_THETA: "rope_theta", Takes::Positive, Absent::Value("10000.0"), "base of the frequencies of the rotary embeddings";
        ROPE_SCALING: "rope_scaling", Takes::Table, Absent::Means("no scaling"), "scaling of the rotary frequencies as in LLaMA 3.1 (see `rope_scaling`)";
        ROPE_INTERLEAVED: "rope_interleaved", Takes::Boolean, Absent::Value("false"), "rotate pairs of neighbouring elements, as in the checkpoints of Meta and llama2.c; otherwise pairs from the two halves of a head, as in those of Hugging Face";
        TIED: "tie_word_embeddings", Takes::Boolean, Absent::Value("false"), "the output layer shares the weights of the token embedding";
    }
    /// `[workload.model_size.rope_scaling]` of `model = "llama"`.
    rope_scaling = "rope_scaling" {
        FACTOR: "factor", Takes::Positive, Absent::Error, "divisor of the lowest frequencies";
        LOW: "low_freq_factor", Takes::Positive, Absent::Error, "a frequency that completes fewer rotations than this within the original length is divided by `factor`";
        HIGH: "high_freq_factor", Takes::Positive, Absent::Error, "a frequency that completes more rotations than this is unchanged; frequencies between the two limits are interpolated";
        ORIGINAL: "original_max_position_embeddings", Takes::Whole(1), Absent::Error, "original maximum sequence length";
    }
    /// `[workload.model_size]` of `model = "gpt2"`.
    gpt2 = "model_size, model = \"gpt2\"" {
        VOCABULARY: "vocab_size", Takes::Whole(2), Absent::Value("50257"), "vocabulary size";
        POSITIONS: "n_positions", Takes::Whole(1), Absent::Value("1024"), "maximum sequence length in tokens; a cell with a longer `sequence` is skipped";
        WIDTH: "n_embd", Takes::Whole(1), Absent::Value("768"), "width of the residual stream; a multiple of `n_head`";
        LAYERS: "n_layer", Takes::Whole(1), Absent::Value("12"), "transformer blocks";
        HEADS: "n_head", Takes::Whole(1), Absent::Value("12"), "attention heads";
        INNER: "n_inner", Takes::Whole(1), Absent::Means("4 × `n_embd`"), "width of the feed-forward layer";
        NORM_EPSILON: "layer_norm_epsilon", Takes::Positive, Absent::Value("1e-5"), "epsilon of the norms";
        EMBEDDING_DROPOUT: "embd_pdrop", Takes::Share, Absent::Value("0.1"), "dropout of the embeddings";
        ATTENTION_DROPOUT: "attn_pdrop", Takes::Share, Absent::Value("0.1"), "dropout of attention weights";
        DROPOUT: "resid_pdrop", Takes::Share, Absent::Value("0.1"), "dropout after sub-layers";
    }
    /// `[workload.model_size]` of `model = "bloom"`.
    bloom = "model_size, model = \"bloom\"" {
        VOCABULARY: "vocab_size", Takes::Whole(2), Absent::Value("250880"), "vocabulary size";
        HIDDEN_SIZE: "hidden_size", Takes::Whole(1), Absent::Value("1024"), "width of the residual stream; a multiple of `n_head`";
        LAYERS: "n_layer", Takes::Whole(1), Absent::Value("24"), "transformer blocks";
        HEADS: "n_head", Takes::Whole(1), Absent::Value("16"), "attention heads";
        NORM_EPSILON: "layer_norm_epsilon", Takes::Positive, Absent::Value("1e-5"), "epsilon of the norms";
        DROPOUT: "hidden_dropout", Takes::Share, Absent::Value("0.0"), "dropout after sub-layers";
        ATTENTION_DROPOUT: "attention_dropout", Takes::Share, Absent::Value("0.0"), "dropout of attention weights";
    }
    /// `[workload.split]`.
    split = "split" {
        JOIN: "join", Takes::Boolean, Absent::Value("false"), "`true`: pool all parts of the data before the split, as in the articles of the suites `distilbert-imdb`, `accumulation` and `bloom-accumulation`. `false`: keep the parts; without a validation part, its examples are taken from the training part. Data without a test part is always pooled";
        TRAIN: "train", Takes::Whole(1), Absent::Means("all remaining examples"), "maximum number of training examples";
        VALIDATION: "validation", Takes::Whole(0), Absent::Error, "maximum number of validation examples";
        TEST: "test", Takes::Whole(1), Absent::Means("all remaining examples"), "maximum number of test examples";
        SEED: "seed", Takes::Whole(0), Absent::Value("123"), "seed of the shuffle before the split; independent of the axis `seed`, so that all cells share one test set";
    }
    /// `[[workload]]` with `task = "kernel"`.
    kernel = "workload, task = \"kernel\"" {
        KERNEL: "kernel", Takes::Name(names!(KernelKind)), Absent::Error, "the operation";
        SHAPE: "shape", Takes::Table, Absent::Means("the defaults of the operation's `shape`"), "dimensions that the axis `size` does not set (see `shape`)";
        MIN_SAMPLES: "min_samples", Takes::Whole(1), Absent::Value("10"), "minimum number of timed launches";
        MAX_SAMPLES: "max_samples", Takes::Whole(1), Absent::Value("100"), "maximum number of timed launches, at least `min_samples`. If it is below 20, `max_noise` is ignored, and the warm-up is a single launch";
        MAX_SECONDS: "max_seconds", Takes::Positive, Absent::Value("5"), "seconds after which sampling stops, once there are `min_samples` samples";
        MAX_NOISE: "max_noise", Takes::Positive, Absent::Value("0.01"), "sampling stops when half the width of the 95 % interval of the median launch time is at most this share of the median";
        CACHE: "cache", Takes::Name(names!(CacheState)), Absent::Value("'cold'"), "`cold`: launches rotate through copies of the inputs that together exceed the last-level cache, so the inputs of a launch are not cached; `warm`: every launch reads the same inputs";
    }
    /// `[workload.shape]` of `kernel = "matmul"`.
    matmul = "shape, kernel = \"matmul\"" {
        BATCH: "batch", Takes::Whole(1), Absent::Value("1"), "batch size";
        M: "m", Takes::Whole(1), Absent::Means("the axis `size`"), "rows of the left matrices and of the result";
        N: "n", Takes::Whole(1), Absent::Means("the axis `size`"), "columns of the right matrices and of the result";
        K: "k", Takes::Whole(1), Absent::Means("the axis `size`"), "columns of the left and rows of the right matrices (the inner dimension)";
    }
    /// `[workload.shape]` of `kernel = "convolution"`.
    convolution = "shape, kernel = \"convolution\"" {
        BATCH: "batch", Takes::Whole(1), Absent::Value("32"), "batch size; each image has `size` rows and columns";
        CHANNELS: "channels", Takes::Whole(1), Absent::Value("64"), "channels of an image";
        FILTERS: "filters", Takes::Whole(1), Absent::Value("64"), "filters, i.e. channels of the result";
        EDGE: "edge", Takes::Whole(1), Absent::Value("3"), "rows and columns of a filter";
        STRIDE: "stride", Takes::Whole(1), Absent::Value("1"), "stride in rows and columns";
        PADDING: "padding", Takes::Whole(0), Absent::Value("1"), "zero padding around an image, in rows and columns; less than `edge`";
    }
    /// `[workload.shape]` of `kernel = "attention"`.
    attention = "shape, kernel = \"attention\"" {
        BATCH: "batch", Takes::Whole(1), Absent::Value("8"), "batch size; each sequence has `size` positions";
        HEADS: "heads", Takes::Whole(1), Absent::Value("12"), "heads of a sequence";
        WIDTH: "width", Takes::Whole(1), Absent::Value("64"), "width of a head";
    }
    /// `[workload.shape]` of the kernels without a matmul.
    rows = "shape, any other kernel" {
        ROWS: "rows", Takes::Whole(1), Absent::Means("the axis `size`"), "rows of values";
        WIDTH: "width", Takes::Whole(1), Absent::Value("768"), "values per row, over which a softmax or a norm is computed";
    }
    /// `[[expect]]`.
    expect = "expect" {
        MATCHING: "matching", Takes::Table, Absent::Means("every cell"), "axis values of the cells to which the expectation applies";
        PROFILES: "profiles", Takes::Names(names!(Profile)), Absent::Means("every profile"), "profiles in which the expectation applies";
        STATUS: "status", Takes::Names(names!(Status)), Absent::Means("that of an earlier expectation, or `ok`"), "allowed statuses; any other status violates the expectation";
        AT_LEAST: "at_least", Takes::Table, Absent::Means("no lower bounds"), "lower bounds of metrics, in their recorded units";
        AT_MOST: "at_most", Takes::Table, Absent::Means("no upper bounds"), "upper bounds of metrics, in their recorded units";
    }
    /// `[[claim]]` of any kind.
    claim = "claim" {
        SAYS: "says", Takes::Text, Absent::Error, "the claim, quoted or paraphrased";
        SOURCE: "source", Takes::Table, Absent::Error, "its source (see `source`)";
        WORKLOAD: "workload", Takes::Text, Absent::Means("every workload"), "workload that the claim is about";
        OF: "of", Takes::Table, Absent::Error, "axis values of the setting that the claim is about";
    }
    /// `[[claim]]` that compares two settings.
    compared = "claim, of two settings" {
        AGAINST: "against", Takes::Table, Absent::Error, "axis values of the setting to compare with; only axes in both `of` and `against` may differ between the two settings";
        METRIC: "metric", Takes::Metric, Absent::Error, "the compared metric; `peak_memory` is the first of `allocator_reserved_peak_bytes`, `device_peak_bytes` and `host_peak_bytes` that both settings have";
    }
    /// `[[claim]]` of a ratio.
    by_ratio = "claim, of a ratio" {
        RATIO: "ratio", Takes::Table, Absent::Error, "bounds of the ratio `of` / `against`";
    }
    /// `[[claim]]` of a difference.
    by_difference = "claim, of a difference" {
        DIFFERENCE: "difference", Takes::Table, Absent::Error, "bounds of the difference `of` − `against`, for accuracies, losses and perplexity, in their recorded units";
    }
    /// `[[claim]]` about the status of cells.
    by_status = "claim, of a status" {
        STATUS: "status", Takes::Names(claimable_names), Absent::Error, "statuses with which most cells of the setting end; `failed` is not allowed, because it is a fault of the program";
    }
    /// `source` of a claim.
    source = "source" {
        TITLE: "title", Takes::Text, Absent::Error, "author, title, year";
        URL: "url", Takes::Text, Absent::Error, "URL of the publication";
        HARDWARE: "hardware", Takes::Text, Absent::Means("not stated in the source"), "hardware of the published measurements";
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
    fn path_of_table(table: &str) -> &'static [&'static str] {
        match table {
            "suite" => &[],
            "profile" => &["profile", "smoke"],
            "inputs" => &["inputs"],
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

    fn table_at<'a>(table: &'a mut Table, path: &[&str]) -> &'a mut Table {
        let Some((first, tail)) = path.split_first() else {
            return table;
        };
        match (&mut table[*first], tail) {
            (Value::Array(items), [index, tail @ ..]) => table_at(
                items[index.parse::<usize>().unwrap()].as_table_mut().unwrap(),
                tail,
            ),
            (value, tail) => table_at(value.as_table_mut().unwrap(), tail),
        }
    }

    fn key_table(keys: &[Key]) -> String {
        let mut text = String::from("| key | value | default | meaning |\n|---|---|---|---|\n");
        for Key {
            name,
            takes,
            absent,
            meaning,
        } in keys
        {
            let absent = match absent {
                Absent::Error => "required".to_owned(),
                Absent::Value("''") => "none".to_owned(),
                Absent::Value(value) => format!("`{value}`"),
                Absent::Means(text) => (*text).to_owned(),
            };
            writeln!(text, "| `{name}` | {takes} | {absent} | {meaning} |").unwrap();
        }
        text
    }

    fn axis_table() -> String {
        let mut text = String::from("| axis | tasks | values | default |\n|---|---|---|---|\n");
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
                Ok(_) => panic!("`{axis}` accepts an empty name"),
            };
            let default = axis.default_value(Backend::Cuda);
            let default = match axis {
                Axis::Backend => "backend of the run".to_owned(),
                Axis::Fusion => format!("`{default}`; `off` on flex"),
                _ => format!("`{default}`"),
            };
            writeln!(text, "| `{axis}` | {} | {values} | {default} |", tasks.join(", ")).unwrap();
        }
        text
    }

    fn metric_list() -> String {
        let description = |metric: &MetricName| match metric.unit() {
            Unit::Ratio => format!("`{metric}`"),
            unit => format!("`{metric}` ({unit})"),
        };
        let names: Vec<_> = MetricName::ALL.iter().map(description).collect();
        names.join(", ") + ".\n"
    }

    #[test]
    fn documentation_lists_every_key_axis_and_metric() {
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
    fn documented_example_has_every_key() {
        if let Err(errors) = crate::parse("example", "docs/suite-format.md", documented_example()) {
            panic!("{errors}");
        }
        let mut example: Table = documented_example().parse().unwrap();
        for (title, keys) in TABLES {
            let table = table_at(&mut example, path_of_table(title));
            let missing: Vec<_> = keys
                .iter()
                .map(|key| key.name)
                .filter(|name| !table.contains_key(*name))
                .collect();
            assert!(missing.is_empty(), "the example lacks {missing:?} in {title}");
        }
    }

    #[test]
    fn every_key_rejects_a_date() {
        let date: Value = toml::from_str::<Table>("date = 1979-05-27").unwrap()["date"].clone();
        for (title, keys) in TABLES {
            for Key { name, .. } in *keys {
                let mut example: Table = documented_example().parse().unwrap();
                table_at(&mut example, path_of_table(title)).insert((*name).to_owned(), date.clone());
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
    fn distilbert_defaults_are_the_published_size() {
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
