//! Tests with corrupted suites and overrides: readers must return an error instead of crashing.

mod readers;

use std::path::Path;

use mantissa_core::Backend;
use mantissa_testing::{alone, hostile::assert_robust};

/// Number of mutated inputs of each kind.
const MUTATED_INPUTS: u64 = 3000;

fn file(path: &str) -> Vec<u8> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::fs::read(root.join(path)).unwrap()
}

#[test]
fn suites() {
    alone(|| {
        let names = [
            "kernels",
            "observed",
            "operations",
            "parts",
            "tiny",
            "unknown-key",
        ];
        let files = names.map(|name| file(&format!("tests/fixtures/{name}.toml")));
        let valid: Vec<Vec<u8>> = files
            .into_iter()
            .filter(|file| readers::suite(file).is_ok())
            .collect();
        assert_eq!(valid.len(), names.len() - 1);
        assert_robust("a suite", &valid, MUTATED_INPUTS, readers::suite);
    });
}

#[test]
fn overrides_and_values() {
    alone(|| {
        let texts =
            |texts: &[&str]| -> Vec<Vec<u8>> { texts.iter().map(|text| text.as_bytes().to_vec()).collect() };
        let overrides = [
            "accumulate=1, 4",
            "keep_f32=none,norm+head",
            "precision=32-true,16-mixed",
            "adam_eps=1e-8,0",
            "seed=0,18446744073709551615",
        ];
        assert_robust(
            "an override",
            &texts(&overrides[..4]),
            MUTATED_INPUTS,
            readers::axes,
        );
        assert!(readers::axes(overrides[4].as_bytes()).is_err());
        // The reader fails if any axis rejects the text, and each text is rejected by some axis.
        let mut hostile = mantissa_testing::hostile::Mutator::new(1);
        for text in texts(&overrides) {
            for _ in 0..500 {
                let error = readers::value(&hostile.mutate(&text, b"16-mixed")).unwrap_err();
                assert!(!error.is_empty());
            }
        }
        assert_robust(
            "a layout",
            &texts(&["e5m10", "e8m7", "e11m52", "e2m1"]),
            MUTATED_INPUTS,
            readers::layout,
        );
    });
}

/// Uses sizes that are valid alone and overflow in combination.
#[test]
fn overflowing_sizes_do_not_panic() {
    let suite = |model: &str, size: &str| {
        let task = "task = \"train\"\ndataset = \"synthetic-text\"\nepochs = 1\nlearning_rate = 1e-3";
        let split = "[workload.split]\ntrain = 1\nvalidation = 0\ntest = 1";
        let text = format!(
            "title = \"t\"\nquestion = \"q?\"\n[[workload]]\nname = \"w\"\nmodel = \"{model}\"\n{task}\n{split}\n\
             [workload.model_size]\n{size}\n[axes]\nprecision = [\"32-true\"]\n"
        );
        let _ = readers::suite(text.as_bytes());
    };
    suite("gpt2", "n_embd = 2147483648\nn_head = 2");
    suite("gpt2", "n_embd = 4294967295\nn_head = 2");
    suite("bloom", "hidden_size = 4294967295\nn_head = 4294967294");
    suite(
        "llama",
        "num_attention_heads = 4294967295\nnum_key_value_heads = 2",
    );
    suite("llama", "hidden_size = 3\nnum_attention_heads = 4294967295");
    suite("resnet", "depth = 4294967295");
    suite("resnet", "depth = 4294967294");
    suite("vit", "image_size = 4294967295\npatch_size = 16");
    let kernel = "title = \"t\"\nquestion = \"q?\"\n[[workload]]\nname = \"w\"\ntask = \"kernel\"\nkernel = \"convolution\"\n\
                  shape = { edge = 4294967295, padding = 4294967294 }\n[axes]\nsize = [4294967295]\n";
    let _ = readers::suite(kernel.as_bytes());
}

/// Plans five axes of 400 values, which give more cells than fit into memory.
#[test]
fn plan_with_too_many_cells_is_rejected() {
    let values = |count: u32| (1..=count).map(|n| n.to_string()).collect::<Vec<_>>().join(", ");
    let axes = ["batch", "accumulate", "sequence", "seed", "adam_eps"];
    let axes: Vec<String> = axes
        .iter()
        .map(|axis| format!("{axis} = [{}]", values(400)))
        .collect();
    let text = String::from_utf8(file("tests/fixtures/parts.toml")).unwrap();
    let (head, workload) = text.split_once("[axes]").unwrap();
    let (_, workload) = workload.split_once("[[workload]]").unwrap();
    let text = format!("{head}[axes]\n{}\n[[workload]]{workload}", axes.join("\n"));
    let suite = mantissa_suite::parse("hostile", "hostile.toml", &text).unwrap();
    let options = mantissa_suite::PlanOptions {
        profile: mantissa_core::Profile::Smoke,
        backend: Backend::Flex,
        overrides: vec![],
        suite_inputs: false,
        data: vec![],
        weights: mantissa_suite::StartingWeights::None,
        models: Default::default(),
        filter: None,
    };
    let error = mantissa_suite::plan(&[suite], &options).unwrap_err().to_string();
    assert!(error.contains("cells"), "{error}");
}
