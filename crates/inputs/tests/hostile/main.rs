//! Tests that modified data, tokenizers and checkpoints are read or rejected without a crash.

mod readers;

use std::{
    io::Write,
    path::Path,
    time::{Duration, Instant},
};

use image::{ImageEncoder, codecs};
use mantissa_testing::{
    CountingAllocator,
    hostile::{assert_robust, assert_robust_within, peak_allocation},
};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Number of modified files per format.
const FILES: u64 = 2000;
/// Memory limit for reading a small file, in bytes.
const SMALL_FILE_LIMIT: usize = 64 << 20;
/// Memory limit for decoding two images, in bytes: a decoder uses up to 512 MiB, and each decoded image is copied to RGB.
const IMAGE_LIMIT: usize = 3 << 30;

fn file(path: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

fn texts<const N: usize>(texts: [&str; N]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

fn packed(text: &str) -> Vec<u8> {
    let mut gzip = flate2::write::GzEncoder::new(vec![], flate2::Compression::default());
    gzip.write_all(text.as_bytes()).unwrap();
    gzip.finish().unwrap()
}

/// Returns a Hugging Face tokenizer.
fn huggingface() -> serde_json::Value {
    let golden: serde_json::Value = serde_json::from_slice(&file("src/data/golden/bytes_bpe.json")).unwrap();
    golden["tokenizer"].clone()
}

/// Encodes a grayscale PNG of one color.
fn png(width: u32, height: u32) -> Vec<u8> {
    let mut bytes = vec![];
    let pixels = vec![7_u8; (width * height) as usize];
    let encoder = codecs::png::PngEncoder::new(&mut bytes);
    encoder
        .write_image(&pixels, width, height, image::ColorType::L8)
        .unwrap();
    bytes
}

/// Creates the header of a llama2.c checkpoint.
fn header(numbers: [i32; 7]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// Checks that a reader rejects a file with a message.
fn assert_rejected(read: impl Fn(&[u8]) -> Result<(), String>, bytes: &[u8]) {
    let error = read(bytes).expect_err("an invalid file must be rejected");
    assert!(!error.trim().is_empty(), "the error message must not be empty");
}

#[test]
fn tokenizers() {
    let models = ["unigram.model", "pairs.model"].map(|name| file(&format!("src/data/golden/{name}")));
    assert_robust("SentencePiece model", &models, FILES, readers::tokenizer);
    assert_robust(
        "tok.bin",
        &[readers::llama2c_tokenizer()],
        FILES,
        readers::tokenizer,
    );
    let json = huggingface().to_string().into_bytes();
    assert_robust("tokenizer.json", &[json], FILES, readers::tokenizer);
}

/// Checks tokenizer files that are valid JSON but inconsistent, and truncated files.
#[test]
fn a_tokenizer_that_makes_the_library_panic_is_rejected() {
    let with = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut json = huggingface();
        change(&mut json);
        json.to_string().into_bytes()
    };
    let prefixed = with(&|json| json["model"]["continuing_subword_prefix"] = "##".into());
    assert_rejected(readers::tokenizer, &prefixed);
    // Normalization rules with an empty table, or with a table that ends before the entry that is looked up.
    for rules in ["AAAAAA==", "BAAAAAAAAAA="] {
        let normalizer = serde_json::json!({"type": "Precompiled", "precompiled_charsmap": rules});
        assert_rejected(
            readers::tokenizer,
            &with(&|json| json["normalizer"] = normalizer.clone()),
        );
    }
    // Truncate the file within its decoder.
    let whole = huggingface().to_string();
    let decoder = whole.find("\"decoder\"").unwrap();
    for end in decoder..decoder + 60 {
        assert_rejected(readers::tokenizer, &whole.as_bytes()[..end]);
    }
}

#[test]
fn vocabularies() {
    let vocabulary = ["[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\ngood\nfilm\nbad\n##s\nc\n##a\n"];
    assert_robust("vocab.txt", &texts(vocabulary), FILES, readers::vocabulary);
    assert_robust(
        "vocab.txt for running text",
        &texts(vocabulary),
        FILES,
        readers::tokenizer,
    );
}

#[test]
fn reviews() {
    let tsv = [
        "0\tbad film\n1\tgood\n",
        "label\tid\ttext\r\n1\t7\tgood\r\n0\t8\tbad\r\n",
    ];
    assert_robust("tsv", &texts(tsv), FILES, readers::tsv);
    let csv = [
        "0,bad\n1,good\n",
        "review,sentiment\r\n\"two\nlines, \"\"quoted\"\"\",positive\r\nbad,negative\r\n",
    ];
    assert_robust("csv", &texts(csv), FILES, readers::csv);
    assert_robust("csv.gz", &csv.map(packed), FILES, readers::gzip);
    let lines = [
        "{\"text\": \"bad\\nfilm\", \"label\": 0}\n\n{\"text\": \"good\", \"label\": \"1\"}\n",
        "{\"text\": \"no label é \\ud83c\\udfac\"}\n{\"text\": \"nor here\", \"id\": [1, {\"a\": 1e3}]}\n",
    ];
    assert_robust("jsonl", &texts(lines), FILES, readers::json_lines);
    assert_robust("aclImdb", &texts(["great<br />\n"]), FILES, readers::imdb);
}

#[test]
fn running_text() {
    let text = [
        "One café.\n<|endoftext|>\n\nAnother. \n<|endoftext|><|endoftext|>One.",
        "a",
    ];
    assert_robust("txt", &texts(text), FILES, readers::text);
    assert_robust("txt.gz", &text.map(packed), FILES, readers::packed_text);
}

#[test]
fn caches() {
    // The loader ignores and replaces invalid cache files.
    assert_robust(
        "token stream",
        &texts(["mantissa token stream 1\n", "\0\0\0\0"]),
        200,
        readers::token_stream,
    );
    assert_robust(
        "cached tokens",
        &texts(["mantissa tokens 1\n", "\0\0\0\0"]),
        200,
        readers::tokens,
    );
}

#[test]
fn pictures() {
    let batch: Vec<u8> = (0..2 * 3073)
        .map(|at| if at % 3073 == 0 { 3 } else { at as u8 })
        .collect();
    assert_robust("CIFAR-10", &[batch], 500, readers::cifar);
    // Two images of 3 × 2 pixels.
    let header = [0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 3];
    let idx = header
        .into_iter()
        .chain((0..12).map(|value| 20 * value))
        .collect();
    assert_robust("IDX", &[idx], 500, readers::idx);
    assert_robust_within(IMAGE_LIMIT, "png", &[png(9, 8), png(8, 8)], FILES, readers::png);
    let mut photograph = vec![];
    let mut encoder = codecs::jpeg::JpegEncoder::new(&mut photograph);
    encoder
        .encode(&[100; 12 * 10], 12, 10, image::ColorType::L8)
        .unwrap();
    assert_robust_within(IMAGE_LIMIT, "jpeg", &[photograph], FILES, readers::jpeg);
}

/// Checks images of a few kilobytes that would need gigabytes if their shorter side were scaled to the input size.
#[test]
fn a_very_long_image_is_rejected_or_needs_little_memory() {
    for picture in [png(1, 40_000), png(40_000, 1)] {
        let peak = peak_allocation(|| drop(readers::png(&picture)));
        assert!(peak < SMALL_FILE_LIMIT, "peak memory: {peak} bytes");
    }
}

#[test]
fn configurations() {
    let configurations = [
        r#"{"model_type": "llama", "vocab_size": 11, "hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 1,
            "num_attention_heads": 2, "num_key_value_heads": 1, "rope_parameters": {"rope_type": "llama3", "rope_theta": 1e4,
            "factor": 8.0, "low_freq_factor": 1, "high_freq_factor": 4, "original_max_position_embeddings": 64}}"#,
        r#"{"model_type": "gpt2", "vocab_size": 11, "n_embd": 8, "n_head": 2, "n_layer": 1, "n_inner": null}"#,
        r#"{"model_type": "bloom", "vocab_size": 11, "n_embed": 8, "num_attention_heads": 2, "n_layer": 1}"#,
        r#"{"model_type": "bert", "hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 16}"#,
        r#"{"model_type": "distilbert", "dim": 8, "n_heads": 2, "n_layers": 1, "hidden_dim": 16, "dropout": 0.1}"#,
        r#"{"model_type": "vit", "hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 16,
            "image_size": 32, "patch_size": 8}"#,
    ];
    assert_robust("config.json", &texts(configurations), 2 * FILES, readers::config);
}

#[test]
fn checkpoints() {
    let tensors = file("../workloads/tests/golden/distilbert-tiny.safetensors");
    // Most modifications of this file change values and keep the header valid. The small files below consist mostly of a header.
    assert_robust("safetensors", &[tensors], FILES, readers::safetensors);
    let small = [
        r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F16","shape":[2,2],"data_offsets":[8,16]}}"#,
        r#"{"a":{"dtype":"F64","shape":[],"data_offsets":[0,8]},"b":{"dtype":"I32","shape":[0,3],"data_offsets":[8,8]}}"#,
    ];
    let small = small.map(|header| {
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend_from_slice(header.as_bytes());
        bytes.extend_from_slice(&[0; 16][..if header.contains("F16") { 16 } else { 8 }]);
        bytes
    });
    assert_robust("small safetensors", &small, FILES, readers::safetensors);
    let index = [r#"{"metadata": {"total_size": 0}, "weight_map": {}}"#];
    assert_robust("shard index", &texts(index), FILES, readers::index);
    let pytorch = ["archive.pth", "pickle.pth"].map(|name| file(&format!("tests/golden/{name}")));
    assert_robust("torch.save", &pytorch, FILES, readers::pytorch);
    assert_robust("llama2.c", &[llama2c()], FILES, readers::llama2c);
}

/// Checks files whose type is detected from their content, and the configurations next to them.
#[test]
fn recognizers() {
    let any = [
        "0\tbad\n1\tgood\n",
        "review,sentiment\r\n\"two\nlines, \"\"quoted\"\"\",positive\r\nbad,negative\r\n",
        "{\"text\": \"bad\\nfilm\", \"label\": 0}\n\n{\"text\": \"good\", \"label\": \"1\"}\n",
        "a text\nof two lines\n",
        "spam\ta\nham\tb\nspam\tc\nham\td\n",
    ];
    let any = [texts(any), vec![packed("0,bad\n1,good\n"), png(3, 2)]].concat();
    assert_robust("file of unknown type", &any, FILES, readers::recognized);
    let header = r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#;
    let safetensors = [
        &(header.len() as u64).to_le_bytes()[..],
        header.as_bytes(),
        &[0; 8],
    ]
    .concat();
    let [archive, pickle] = ["archive.pth", "pickle.pth"].map(|name| file(&format!("tests/golden/{name}")));
    let named = [safetensors, archive, pickle, llama2c()];
    assert_robust("pytorch_model.bin", &named, FILES, readers::checkpoint);
    let tokenizer = [
        r#"{"do_lower_case": false, "strip_accents": null, "cls_token": {"content": "[CLS]"}, "tokenizer_class": "BertTokenizer"}"#,
        r#"{"model_max_length": 512, "tokenize_chinese_chars": true, "do_basic_tokenize": true, "never_split": null}"#,
    ];
    assert_robust(
        "tokenizer_config.json",
        &texts(tokenizer),
        FILES,
        readers::tokenizer_config,
    );
    let preprocessor = [
        r#"{"do_resize": true, "size": {"height": 8, "width": 8}, "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5], "resample": 2}"#,
        r#"{"size": {"shortest_edge": 9}, "crop_size": 8, "do_center_crop": true, "rescale_factor": 0.00392156862745098}"#,
    ];
    assert_robust(
        "preprocessor_config.json",
        &texts(preprocessor),
        FILES,
        readers::preprocessor_config,
    );
}

/// Creates a llama2.c checkpoint: width 4, feed-forward width 3, one layer, two heads with one key-value head, five tokens, two positions.
fn llama2c() -> Vec<u8> {
    let mut llama = header([4, 3, 1, 2, 1, 5, 2]);
    llama.extend([0; 4 * (5 * 4 + (4 + 16 + 8 + 8 + 16) + (4 + 12 + 12 + 12) + 4 + 2 * 2)]);
    llama
}

/// Checks headers of 28 bytes that declare up to 16 million layers, or sizes that overflow an integer.
#[test]
fn impossible_header_sizes_are_rejected_with_little_memory() {
    const MAX: i32 = (1 << 24) - 1;
    for numbers in [[16, 16, MAX, 1, 1, 1, 1], [MAX, MAX, 16384, 1, 1, 1, 1], [MAX; 7]] {
        let bytes = header(numbers);
        let peak = peak_allocation(|| assert_rejected(readers::llama2c, &bytes));
        assert!(peak < SMALL_FILE_LIMIT, "{numbers:?}: peak memory: {peak} bytes");
    }
}

/// Checks that 200,000 rows with half as many labels are read in less than 20 s.
#[test]
fn many_different_labels_are_read_in_time() {
    let rows: String = (0..200_000)
        .map(|n| format!("kind {}\tsome words\n", n / 2))
        .collect();
    let start = Instant::now();
    readers::tsv(rows.as_bytes()).unwrap();
    let elapsed = start.elapsed();
    assert!(elapsed < Duration::from_secs(20), "reading took {elapsed:?}");
}
