//! Evaluation of models that were trained elsewhere.

use std::{fs, path::Path};

use serde_json::{Value, json};

use crate::{
    peer::python,
    support::{TestDir, root, run_to_exit, stderr, stdout},
};

const SUITE: &str = r#"
title = "Trained elsewhere"
question = "What changes?"
axes = { precision = ["32-true", "bf16-true"], batch = [4] }
[[workload]]
name = "tiny"
task = "evaluate"
model = "resnet"
model_size = { depth = 8, width = 1 }
dataset = "images"
test = 6
"#;

/// Suite that predicts masked tokens of a corpus.
const MASKED_TOKENS: &str = r#"
title = "Masked tokens"
question = "Which tokens are masked?"
axes = { precision = ["32-true"], batch = [2], sequence = [32] }
[[workload]]
name = "tiny"
task = "evaluate"
model = "bert"
model_size = { hidden_size = 16, num_hidden_layers = 1, num_attention_heads = 2, intermediate_size = 32, max_position_embeddings = 32 }
dataset = "text"
test = 6
"#;

fn dir_with_suite() -> TestDir {
    let dir = TestDir::new();
    fs::write(dir.path("suite.toml"), SUITE).unwrap();
    dir
}

/// Logit of the first class. The nine other logits of an image are about equal. In images 3 to 5 of the eight images, they are smaller than
/// this constant (1.60 to 1.66 × 10⁸); in the other images, they are larger (at least 1.82 × 10⁸). Computed with PyTorch in f32.
const FIRST_CLASS: f32 = 1.745e8;

/// Writes a checkpoint of the suite's model, without the tensor `leave_out`. Values are small, exact in all formats, and repeat after 64.
/// If `classes_are_alike` is true, the logit of the first class is the constant [`FIRST_CLASS`]. The other logits grow with the brightness
/// of the image, and from class to class by less than bf16 can represent.
fn write_checkpoint(path: &Path, leave_out: &str, classes_are_alike: bool) {
    let mut tensors: Vec<(String, Vec<usize>)> = vec![];
    let mut layer = |convolution: String, norm: String, from: usize, to: usize| {
        tensors.push((format!("{convolution}.weight"), vec![to, from, 3, 3]));
        for part in ["weight", "bias", "running_mean", "running_var"] {
            tensors.push((format!("{norm}.{part}"), vec![to]));
        }
    };
    layer("conv1".into(), "bn1".into(), 3, 1);
    for (stage, (from, to)) in [(1, 1), (1, 2), (2, 4)].into_iter().enumerate() {
        let block = format!("layer{}.0", stage + 1);
        layer(format!("{block}.conv1"), format!("{block}.bn1"), from, to);
        layer(format!("{block}.conv2"), format!("{block}.bn2"), to, to);
    }
    tensors.push(("linear.weight".into(), vec![10, 4]));
    tensors.push(("linear.bias".into(), vec![10]));
    tensors.retain(|(name, _)| name != leave_out);
    let (mut header, mut bytes) = (serde_json::Map::new(), vec![]);
    for (name, shape) in tensors {
        let begin = bytes.len();
        for index in 0..shape.iter().product::<usize>() {
            let value = match name.as_str() {
                "linear.weight" if classes_are_alike && index < 4 => 0.0,
                "linear.weight" if classes_are_alike => 1.0 + (index / 4) as f32 / 4096.0,
                "linear.bias" if classes_are_alike && index > 0 => 0.0,
                "linear.bias" if classes_are_alike => FIRST_CLASS,
                _ => 0.5 + ((37 * index + 11 * begin) % 64) as f32 / 64.0,
            };
            bytes.extend(value.to_le_bytes());
        }
        let entry = json!({ "dtype": "F32", "shape": shape, "data_offsets": [begin, bytes.len()] });
        header.insert(name, entry);
    }
    let header = Value::Object(header).to_string();
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.bytes());
    file.extend(bytes);
    fs::write(path, file).unwrap();
}

/// Writes eight images in the format of CIFAR, of which the suite uses six.
fn write_images(path: &Path) {
    let image = |label: u8| {
        std::iter::once(label).chain((0..3072u32).map(move |i| (i * u32::from(label + 1) % 251) as u8))
    };
    fs::write(path, (0..8).flat_map(image).collect::<Vec<u8>>()).unwrap();
}

fn run(dir: &TestDir, more: &[&str]) -> std::process::Output {
    let arguments = ["run", "suite.toml", "--backend=flex", "--repeats=1", "--out=run"];
    let mut command = dir.command(&[&arguments, more].concat());
    command.env("PYTHONPATH", root().join("peers/pytorch"));
    run_to_exit(command)
}

fn value(record: &Value, metric: &str) -> Option<f64> {
    record["metrics"][metric]["value"].as_f64()
}

#[test]
fn without_weights_cells_are_skipped_unless_init_is_random() {
    let dir = dir_with_suite();
    let planned = dir
        .command(&["plan", "suite.toml", "--backend=flex"])
        .output()
        .unwrap();
    assert!(
        stdout(&planned).contains("skipped: no weights for `tiny`: pass `--weights tiny=PATH`"),
        "{}",
        stdout(&planned)
    );
    let output = run(&dir, &["--init=random"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let records = dir.records("run");
    assert_eq!(records.len(), 2);
    for record in &records {
        assert!(
            value(record, "samples_per_second").is_some_and(|rate| rate > 0.0),
            "{record:#}"
        );
        assert_eq!(
            record["metrics"]["test_accuracy"]["method"],
            "the weights are random"
        );
        assert_eq!(value(record, "test_accuracy"), None);
        assert_eq!(record["data"]["synthetic"], true);
    }
}

#[test]
fn weights_are_loaded_evaluated_and_compared_with_f32() {
    let dir = dir_with_suite();
    write_checkpoint(&dir.path("trained.safetensors"), "", false);
    let output = run(&dir, &["--weights", "tiny=trained.safetensors"]);
    let errors = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(
        errors.contains("all cells of `suite` were skipped:\n  2 × trained weights cannot be evaluated on"),
        "{errors}"
    );
    assert!(
        dir.records("run")
            .iter()
            .all(|record| record["status"] == "skipped"),
        "trained weights are not evaluated on synthetic images"
    );
    fs::remove_dir_all(dir.path("run")).unwrap();
    write_images(&dir.path("images.bin"));
    let output = run(
        &dir,
        &["--weights", "tiny=trained.safetensors", "--data=images.bin"],
    );
    assert!(output.status.success(), "{}", stderr(&output));
    let records = dir.records("run");
    // Number of values in each layer, of four bytes each: 3·9 + 4, twice (9 + 4), (18 + 8) + (36 + 8), (72 + 16) + (144 + 16), 40 + 10.
    let numbers = 31 + 26 + 26 + 44 + 88 + 160 + 50;
    for record in &records {
        assert_eq!(
            value(record, "loaded_bytes"),
            Some(4.0 * f64::from(numbers)),
            "{record:#}"
        );
        assert!(value(record, "weights_seconds").is_some_and(|seconds| seconds > 0.0));
        assert_eq!(record["metrics"]["test_accuracy"]["n"], 6);
        assert_eq!(record["data"]["name"], "images.bin, which has no test part");
        assert!(value(record, "test_loss").is_some());
    }
    let agreement: Vec<&Value> = records
        .iter()
        .map(|record| &record["metrics"]["agreement"])
        .collect();
    assert!(agreement[0].is_null(), "f32 is not compared with itself");
    assert_eq!(agreement[1]["n"], 6);
    for record in &records {
        // `agreement` needs an additional pass in f32, which must not change the verdict on the executed precision.
        assert_eq!(record["executed"]["verdict"], "as-requested", "{record:#}");
    }
    let command = records[1]["command"].as_str().unwrap();
    assert!(
        command.contains("--weights tiny=trained.safetensors"),
        "{command}"
    );
    let summary = fs::read_to_string(dir.path("run/summary.md")).unwrap();
    assert!(
        summary.contains("samples/s") && summary.contains("greement"),
        "{summary}"
    );
}

#[test]
fn invalid_weights_and_data_are_rejected() {
    let dir = dir_with_suite();
    let assert_rejected = |more: &[&str], message: &str| {
        let output = run(&dir, more);
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(stderr(&output).contains(message), "{}", stderr(&output));
        let _ = fs::remove_dir_all(dir.path("run"));
    };
    write_checkpoint(&dir.path("part.safetensors"), "bn1.running_var", false);
    fs::write(dir.path("good.bin"), vec![1; 3073]).unwrap();
    let weights = ["--weights=part.safetensors", "--data=good.bin"];
    assert_rejected(&weights, "missing `bn1.running_var` [1]");
    assert_rejected(&["--weights=tniy=part.safetensors"], "did you mean `tiny`?");
    assert_rejected(&["--weights=absent.safetensors"], "does not exist");
    let twice = ["--weights=part.safetensors", "--weights=part.safetensors"];
    assert_rejected(&twice, "is given twice for all workloads");
    assert_rejected(&["--data=good.bin", "--data=good.bin"], "both contain images");
    let mut bad = vec![1; 3073];
    bad[0] = 200;
    fs::write(dir.path("bad.bin"), bad).unwrap();
    assert_rejected(&["--init=random", "--data=bad.bin"], "record 1 has label 200");
}

#[test]
fn data_check_prints_a_summary_or_the_first_error() {
    let dir = TestDir::new();
    fs::create_dir(dir.path("reviews")).unwrap();
    fs::write(
        dir.path("reviews/train.tsv"),
        "0\tdull\n1\tgood film\n1\tgood film\n",
    )
    .unwrap();
    fs::write(dir.path("reviews/test.tsv"), "1\tgood film\n").unwrap();
    let text = stdout(&dir.command(&["data", "check", "reviews"]).output().unwrap());
    for part in [
        "reviews of 2 classes",
        "training",
        "1 2",
        "1, 2, 2 words",
        "1 test examples are also training examples",
    ] {
        assert!(text.contains(part), "`{part}` is not in {text}");
    }
    let json = stdout(
        &dir.command(&["data", "check", "reviews", "--json"])
            .output()
            .unwrap(),
    );
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (&json["kind"], &json["parts"][0]["repeated"]),
        (&"reviews".into(), &1.into())
    );
    fs::write(dir.path("reviews/test.tsv"), "5\tgood film\n").unwrap();
    let output = dir.command(&["data", "check", "reviews"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("reviews/test.tsv:1: unknown label `5`"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn peak_memory_grows_less_than_the_corpus() {
    let dir = TestDir::new();
    fs::write(dir.path("suite.toml"), MASKED_TOKENS).unwrap();
    let words: Vec<String> = ('a'..='z').map(|letter| format!("word{letter}")).collect();
    let vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"].map(str::to_owned);
    let vocabulary = [&vocabulary[..], &words].concat().join("\n");
    fs::write(dir.path("vocab.txt"), vocabulary).unwrap();
    let sentence = words.join(" ");
    // The text is encoded in blocks. Even the smaller corpus is several times as large as a block.
    let peak = |megabytes: usize| {
        let name = format!("corpus{megabytes}");
        let text = format!("{sentence}\n").repeat((megabytes << 20) / sentence.len());
        fs::write(dir.path(&format!("{name}.txt")), text).unwrap();
        let data = format!("{name}.txt");
        let arguments = [
            "run",
            "suite.toml",
            "--backend=flex",
            "--repeats=1",
            "--init=random",
            "--vocabulary=vocab.txt",
        ];
        let inputs = ["--data", &data, "--out", &name];
        let output = dir.command(&[&arguments[..], &inputs].concat()).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        let records = dir.records(&name);
        let record = &records[0];
        let data_name = record["data"]["name"].as_str().unwrap();
        assert!(
            data_name.starts_with(&data) && record["status"] == "ok",
            "{record:#}"
        );
        value(record, "host_peak_bytes").unwrap() / f64::from(1 << 20)
    };
    let (small, large) = (peak(24), peak(84));
    eprintln!("{small:.0} MiB, then {large:.0} MiB");
    // The text of the larger corpus is 60 MiB larger, and its token ids 40 MiB.
    assert!(large < small + 36.0, "{small} MiB, then {large} MiB");
}

mod pytorch {
    use super::*;

    #[test]
    fn a_peer_is_compared_with_f32_of_the_same_framework() {
        let Some(python) = python() else { return };
        let dir = dir_with_suite();
        write_checkpoint(&dir.path("trained.safetensors"), "", true);
        write_images(&dir.path("images.bin"));
        let weights = ["--weights", "tiny=trained.safetensors", "--data=images.bin"];
        let output = run(&dir, &weights);
        assert!(output.status.success(), "{}", stderr(&output));
        fs::rename(dir.path("run"), dir.path("burn")).unwrap();
        let peer = format!("--peer={} -m mantissa_torch", python.display());
        let output = run(&dir, &[&weights[..], &[&peer]].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        let agreements = [dir.records("burn"), dir.records("run")].map(|records| {
            let [f32_record, bf16_record] = records.as_slice() else {
                panic!("{records:?}")
            };
            assert!(f32_record["metrics"]["agreement"].is_null(), "{f32_record:#}");
            assert_eq!(bf16_record["metrics"]["agreement"]["n"], 6);
            value(bf16_record, "agreement").unwrap() * 6.0
        });
        // In both formats, the first class has the largest logit for images 3 to 5. At least one of them is among the six test images. For the
        // other images, the last class has the largest logit in f32; in bf16, all classes but the first are equal.
        assert_eq!(agreements[0], agreements[1]);
        assert!((1.0..=3.0).contains(&agreements[0].round()), "{agreements:?}");
    }
}
