//! Reads model sizes from the Hugging Face `config.json` next to the weights, or from the header of a llama2.c checkpoint.

mod bert;
mod bloom;
mod class_names;
mod distilbert;
mod gpt2;
mod llama;
mod llama2c;
mod vit;

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
};

pub use class_names::class_names;
use mantissa_core::Model;
use serde_json::{Map, Value, json};

use super::{
    fields::{Fields, IGNORED, is_bert_tokenizer},
    format::Format,
    llama2c::Header,
    tensors::Mapped,
};
use crate::contents;

/// File name of the configuration.
const CONFIG_FILE: &str = "config.json";

/// Reads the model and its size from a checkpoint, or from a `config.json` alone. Returns `None` for a ResNet, or if there is no
/// configuration.
///
/// # Errors
/// A malformed configuration, or one with unsupported values. The message lists all problems.
pub fn model_of(path: &Path) -> Result<Option<Model>, String> {
    let with_path = |at: &Path, error: String| format!("`{}`: {error}", at.display());
    let is_config = path.file_name() == Some(OsStr::new(CONFIG_FILE));
    if path.is_file()
        && !is_config
        && Format::detect(path).map_err(|error| with_path(path, error))? == Format::Llama2c
    {
        let file = Mapped::open(path).map_err(|error| with_path(path, error.to_string()))?;
        let header = Header::read(file.bytes()).map_err(|error| with_path(path, error))?;
        return llama2c::model(&header)
            .map(Some)
            .map_err(|error| with_path(path, error));
    }
    let Some(config) = config_path(path) else {
        return Ok(None);
    };
    let read = || -> Result<Option<Model>, String> {
        let value: Value = contents::json(&config)?;
        let fields = value.as_object().ok_or("it is not a JSON object")?;
        parse_model(fields)
    };
    read().map_err(|error| with_path(&config, error))
}

/// Checks that `vocab_size` of the configuration is the number of rows of the embedding table.
///
/// # Errors
/// A malformed configuration, or a `vocab_size` that differs from `rows`.
pub fn check_vocabulary_size(path: &Path, rows: u32) -> Result<(), String> {
    let Some(config) = config_path(path) else {
        return Ok(());
    };
    let with_path = |error: String| format!("`{}`: {error}", config.display());
    let fields: Map<String, Value> = contents::json(&config).map_err(with_path)?;
    match fields.get("vocab_size") {
        Some(size) if size.as_u64() != Some(rows.into()) => Err(with_path(format!(
            "`vocab_size` is {size}, but the embedding table has {rows} rows"
        ))),
        _ => Ok(()),
    }
}

/// Returns the path of the `config.json` in a folder, or next to a file.
fn config_path(path: &Path) -> Option<PathBuf> {
    let config = if path.file_name() == Some(OsStr::new(CONFIG_FILE)) {
        path.to_owned()
    } else if path.is_dir() {
        path.join(CONFIG_FILE)
    } else {
        path.with_file_name(CONFIG_FILE)
    };
    config.is_file().then_some(config)
}

/// Reads a model from the fields of a `config.json`.
fn parse_model(fields: &Map<String, Value>) -> Result<Option<Model>, String> {
    let Some(kind) = fields.get("model_type").and_then(Value::as_str) else {
        return Err(
            "`model_type` is missing or not a string\n  hint: add the name that transformers uses, such as \
                    `\"model_type\": \"bert\"`, or move the file away and set the size in the suite"
                .to_owned(),
        );
    };
    let fields = Fields::new(fields);
    for (name, supported) in [
        ("add_cross_attention", json!(false)),
        ("is_decoder", json!(false)),
        ("is_encoder_decoder", json!(false)),
        ("pruned_heads", json!({})),
        ("problem_type", json!("single_label_classification")),
        ("tie_encoder_decoder", json!(false)),
    ] {
        fields.require_value(name, supported);
    }
    check_architectures(&fields, kind);
    if matches!(kind, "bert" | "distilbert")
        && let Some(class) = fields.get("tokenizer_class")
        && !class.as_str().is_some_and(is_bert_tokenizer)
    {
        fields.report(format!(
            "`tokenizer_class` is {class}; only `BertTokenizer` and its variants are supported"
        ));
    }
    let (model, ignored): (_, &[&str]) = match kind {
        "llama" => (Model::Llama(llama::size(&fields)), &[][..]),
        "gpt2" => (Model::Gpt2(gpt2::size(&fields)), gpt2::IGNORED),
        "bloom" => (Model::Bloom(bloom::size(&fields)), bloom::IGNORED),
        "bert" => (Model::Bert(bert::size(&fields)), bert::IGNORED),
        "distilbert" => (Model::Distilbert(distilbert::size(&fields)), distilbert::IGNORED),
        "vit" => (Model::Vit(vit::size(&fields)), vit::IGNORED),
        // The suite sets the size of a ResNet, because torchvision publishes no configurations.
        "resnet" => return Ok(None),
        other => {
            return Err(format!(
                "model type `{other}` is not supported\n  hint: use `bert`, `bloom`, `distilbert`, `gpt2`, `llama` or `vit`"
            ));
        }
    };
    if model.layers() > Model::MAX_LAYERS {
        fields.report(format!(
            "the model has {} layers; the maximum is {}",
            model.layers(),
            Model::MAX_LAYERS
        ));
    }
    let problems = fields.finish(&[IGNORED, ignored].concat());
    if problems.is_empty() {
        return Ok(Some(model));
    }
    Err(format!(
        "this configuration of `{kind}` is not supported\n  {}",
        problems.join("\n  ")
    ))
}

/// Reports entries of `architectures` that belong to another model or have an unsupported output head.
fn check_architectures(fields: &Fields<'_>, kind: &str) {
    const SUPPORTED_SUFFIXES: [&str; 8] = [
        "Model",
        "LMHeadModel",
        "ForCausalLM",
        "ForMaskedLM",
        "ForPreTraining",
        "ForSequenceClassification",
        "ForImageClassification",
        "ForMaskedImageModeling",
    ];
    let classes = fields.get("architectures").map(|classes| match classes {
        Value::Array(classes) => classes.as_slice(),
        class => std::slice::from_ref(class),
    });
    for class in classes.into_iter().flatten() {
        let name = class.as_str().unwrap_or_default();
        let is_of_family = name.to_lowercase().starts_with(kind);
        if !is_of_family {
            fields.report(format!(
                "`architectures` contains {class}, which is not a `{kind}` class"
            ));
        } else if !SUPPORTED_SUFFIXES.iter().any(|suffix| name.ends_with(suffix)) {
            fields.report(format!(
                "`architectures` contains {class}, whose output head is not supported"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, fs};

    use mantissa_core::{BertSize, BloomSize, DistilBertSize, Gpt2Size, LlamaSize, VitSize};
    use serde_json::json;

    use super::*;

    fn read(config: Value) -> Result<Option<Model>, String> {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(CONFIG_FILE), config.to_string()).unwrap();
        let shown = folder.path().display().to_string();
        let next_to_file = model_of(&folder.path().join("model.safetensors"));
        assert_eq!(model_of(folder.path()), next_to_file);
        next_to_file.map_err(|error| error.replace(&shown, "…"))
    }

    #[test]
    fn published_configurations_have_the_published_sizes() {
        let llama = json!({
            "model_type": "llama", "hidden_act": "silu", "hidden_size": 4096, "intermediate_size": 11008,
            "max_position_embeddings": 4096, "num_attention_heads": 32, "num_hidden_layers": 32,
            "num_key_value_heads": 32, "rms_norm_eps": 1e-05, "rope_scaling": null, "tie_word_embeddings": false,
            "vocab_size": 32000
        });
        assert_eq!(read(llama), Ok(Some(Model::Llama(LlamaSize::LLAMA2_7B))));
        let gpt2 = json!({
            "model_type": "gpt2", "activation_function": "gelu_new", "attn_pdrop": 0.1, "embd_pdrop": 0.1,
            "layer_norm_epsilon": 1e-05, "n_ctx": 1024, "n_embd": 768, "n_head": 12, "n_layer": 12,
            "n_positions": 1024, "resid_pdrop": 0.1, "vocab_size": 50257
        });
        assert_eq!(read(gpt2), Ok(Some(Model::Gpt2(Gpt2Size::SMALL))));
        let bloom = json!({
            "model_type": "bloom", "apply_residual_connection_post_layernorm": false, "attention_dropout": 0.0,
            "hidden_dropout": 0.0, "n_embed": 1024, "layer_norm_epsilon": 1e-05, "n_layer": 24,
            "num_attention_heads": 16, "pad_token_id": 3, "vocab_size": 250880
        });
        assert_eq!(read(bloom.clone()), Ok(Some(Model::Bloom(BloomSize::BLOOM_560M))));
        let mut both = bloom.clone();
        both["hidden_size"] = json!(1024);
        assert_eq!(read(both), Ok(Some(Model::Bloom(BloomSize::BLOOM_560M))));
        let mut differ = bloom;
        differ["hidden_size"] = json!(512);
        assert!(
            read(differ)
                .unwrap_err()
                .contains("`hidden_size` is 512, but `n_embed` is 1024")
        );
        let bert = json!({
            "model_type": "bert", "attention_probs_dropout_prob": 0.1, "hidden_act": "gelu",
            "hidden_dropout_prob": 0.1, "hidden_size": 768, "intermediate_size": 3072,
            "max_position_embeddings": 512, "num_attention_heads": 12, "num_hidden_layers": 12,
            "type_vocab_size": 2, "vocab_size": 30522
        });
        assert_eq!(read(bert), Ok(Some(Model::Bert(BertSize::BASE))));
        let distilbert = json!({
            "model_type": "distilbert", "activation": "gelu", "attention_dropout": 0.1, "dim": 768, "dropout": 0.1,
            "hidden_dim": 3072, "max_position_embeddings": 512, "n_heads": 12, "n_layers": 6,
            "seq_classif_dropout": 0.2, "sinusoidal_pos_embds": false, "vocab_size": 30522
        });
        assert_eq!(
            read(distilbert),
            Ok(Some(Model::Distilbert(DistilBertSize::BASE)))
        );
        let vit = json!({
            "model_type": "vit", "hidden_act": "gelu", "hidden_size": 768, "image_size": 224,
            "intermediate_size": 3072, "num_attention_heads": 12, "num_hidden_layers": 12, "patch_size": 16,
            "attention_probs_dropout_prob": 0.0, "hidden_dropout_prob": 0.0
        });
        assert_eq!(read(vit), Ok(Some(Model::Vit(VitSize::BASE))));
    }

    #[test]
    fn llama3_rope_scaling_is_read_from_either_field() {
        let mut config = json!({
            "model_type": "llama", "hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4,
            "num_hidden_layers": 1, "num_key_value_heads": 2, "vocab_size": 40, "rope_theta": 500000.0,
            "rope_scaling": {
                "factor": 8.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
                "original_max_position_embeddings": 8192, "rope_type": "llama3"
            }
        });
        let Ok(Some(Model::Llama(old))) = read(config.clone()) else {
            panic!("expected a llama")
        };
        let scaling = old.rope_scaling.as_ref().unwrap();
        assert_eq!((scaling.factor, old.rope_theta, old.head_dim), (8.0, 5e5, 16));
        let table = config.as_object_mut().unwrap();
        let mut rope = table.remove("rope_scaling").unwrap();
        rope["rope_theta"] = table.remove("rope_theta").unwrap();
        table.insert("rope_parameters".into(), rope);
        assert_eq!(read(config), Ok(Some(Model::Llama(old))));
    }

    #[test]
    fn all_unsupported_values_are_reported_at_once() {
        let error = read(json!({
            "model_type": "llama", "hidden_act": "gelu", "hidden_size": "wide", "intermediate_size": 0,
            "num_attention_heads": 4, "num_hidden_layers": 1, "num_key_value_heads": 3, "attention_bias": true,
            "rope_scaling": { "type": "yarn" }
        }));
        let error = error.unwrap_err();
        for part in [
            "this configuration of `llama` is not supported",
            r#"`hidden_act` is "gelu"; only "silu" is supported"#,
            "`attention_bias` is true; only false is supported",
            r#"`hidden_size` is "wide"; expected an integer"#,
            "`intermediate_size` is 0; expected an integer",
            "`vocab_size` is missing",
            "`num_attention_heads` 4 is not a multiple of `num_key_value_heads` 3",
            "`rope_scaling` has the type `yarn`",
        ] {
            assert!(error.contains(part), "{part} in {error}");
        }
        assert!(
            read(json!({ "model_type": "mamba" }))
                .unwrap_err()
                .contains("model type `mamba` is not supported")
        );
        assert!(read(json!([])).unwrap_err().ends_with("it is not a JSON object"));
        assert_eq!(read(json!({ "model_type": "resnet" })), Ok(None));
    }

    /// Returns the configuration of a small model of this kind.
    fn small(kind: &str) -> Value {
        match kind {
            "llama" => json!({
                "model_type": "llama", "hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4,
                "num_hidden_layers": 1, "vocab_size": 40
            }),
            "gpt2" => {
                json!({ "model_type": "gpt2", "n_embd": 64, "n_head": 4, "n_layer": 1, "vocab_size": 40 })
            }
            "bloom" => {
                json!({ "model_type": "bloom", "hidden_size": 64, "n_head": 4, "n_layer": 1, "vocab_size": 40 })
            }
            "distilbert" => {
                json!({ "model_type": "distilbert", "dim": 64, "n_heads": 4, "n_layers": 1, "hidden_dim": 96 })
            }
            kind => json!({
                "model_type": kind, "hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4,
                "num_hidden_layers": 1, "image_size": 8, "patch_size": 4
            }),
        }
    }

    #[test]
    fn fields_that_may_change_results_are_read_or_rejected() {
        // Model, field, supported value, unsupported value.
        let known = [
            ("bert", "layer_norm_eps", json!(1e-5), json!("small")),
            ("vit", "layer_norm_eps", json!(1e-3), json!(-1.0)),
            ("bert", "hidden_act", json!("gelu"), json!("gelu_new")),
            ("bert", "classifier_dropout", json!(null), json!(0.3)),
            ("bert", "pruned_heads", json!({}), json!({ "0": [1] })),
            (
                "bert",
                "problem_type",
                json!("single_label_classification"),
                json!("regression"),
            ),
            ("llama", "sliding_window", json!(null), json!(4096)),
            ("llama", "rope_scaling", json!(null), json!("linear")),
            (
                "llama",
                "rope_scaling",
                json!({ "type": "default" }),
                json!({ "factor": 2.0 }),
            ),
            (
                "llama",
                "rope_scaling",
                json!({ "rope_type": "default" }),
                json!({ "type": "linear", "factor": 2.0 }),
            ),
            (
                "llama",
                "rope_parameters",
                json!({ "rope_theta": 5e5 }),
                json!({ "rope_theta": "5e5" }),
            ),
            ("llama", "attention_dropout", json!(0), json!(0.1)),
            (
                "gpt2",
                "scale_attn_by_inverse_layer_idx",
                json!(false),
                json!(true),
            ),
            ("bloom", "n_inner", json!(null), json!(7)),
            ("vit", "qkv_bias", json!(true), json!(false)),
            ("distilbert", "sinusoidal_pos_embds", json!(false), json!(true)),
        ];
        for (kind, name, supported, rejected) in known {
            let with = |value: &Value| {
                let mut config = small(kind);
                // BERT rejects the fields of `small` that only ViT has.
                if kind == "bert" {
                    let table = config.as_object_mut().unwrap();
                    table.remove("image_size");
                    table.remove("patch_size");
                }
                config[name] = value.clone();
                read(config)
            };
            assert!(
                with(&supported).is_ok(),
                "{kind} {name} {supported}: {:?}",
                with(&supported)
            );
            let error = with(&rejected).expect_err(name);
            assert!(error.contains(name), "{kind} {name}: {error}");
        }
        for kind in ["llama", "gpt2", "bloom", "distilbert", "vit"] {
            let mut config = small(kind);
            assert!(read(config.clone()).is_ok(), "{kind}");
            config["_name_or_path"] = json!("somewhere");
            config["use_cache"] = json!(true);
            assert!(read(config.clone()).is_ok(), "{kind}");
            config["logit_scale"] = json!(0.0625);
            let error = read(config).unwrap_err();
            assert!(
                error.contains("`logit_scale` is 0.0625; this field is unknown"),
                "{error}"
            );
        }
    }

    #[test]
    fn wrong_architectures_and_label_counts_are_rejected() {
        let with = |kind: &str, class: &str| {
            let mut config = small(kind);
            config["architectures"] = json!([class]);
            read(config)
        };
        assert!(with("gpt2", "GPT2LMHeadModel").is_ok());
        assert!(with("llama", "LlamaForCausalLM").is_ok());
        assert!(with("vit", "ViTForImageClassification").is_ok());
        assert!(with("distilbert", "DistilBertForSequenceClassification").is_ok());
        for (kind, class) in [
            ("distilbert", "RobertaForSequenceClassification"),
            ("llama", "MistralForCausalLM"),
            ("distilbert", "DistilBertForQuestionAnswering"),
        ] {
            let error = with(kind, class).unwrap_err();
            assert!(
                error.contains(&format!("`architectures` contains \"{class}\"")),
                "{error}"
            );
        }
        let folder = tempfile::tempdir().unwrap();
        let names = |config: Value, count| {
            fs::write(folder.path().join(CONFIG_FILE), config.to_string()).unwrap();
            class_names(folder.path(), count)
        };
        let three = json!({ "num_labels": 3, "id2label": { "0": "a", "1": "b", "2": "c" } });
        assert_eq!(names(three.clone(), Some(3)).unwrap().len(), 3);
        assert_eq!(names(json!({ "num_labels": 2 }), None), Ok(BTreeMap::new()));
        assert!(
            names(three, Some(2))
                .unwrap_err()
                .contains("`num_labels` is 3, but the output head has 2")
        );
        let two = json!({ "num_labels": 2, "id2label": { "0": "a", "1": "b", "2": "c" } });
        assert!(
            names(two, None)
                .unwrap_err()
                .contains("`num_labels` is 2, but `id2label` has 3")
        );
    }

    #[test]
    fn size_is_read_from_a_llama2c_header() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(model_of(folder.path()), Ok(None));
        let path = folder.path().join("tiny.bin");
        let numbers: [i32; 7] = [64, 172, 5, 8, 4, 512, 512];
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        fs::write(&path, bytes).unwrap();
        let Ok(Some(Model::Llama(size))) = model_of(&path) else {
            panic!("expected a llama")
        };
        assert!(size.rope_interleaved && size.tie_word_embeddings);
        assert_eq!((size.head_dim, size.num_key_value_heads), (8, 4));
    }
}
