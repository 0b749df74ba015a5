//! BERT against transformers: `peers/pytorch/golden/bert.py` made the numbers.

use burn::tensor::Tensor;
use mantissa_core::*;
use mantissa_precision::{PrecisionBackend, device::Flex};
use serde_json::Value;

use super::{super::Trainer, batch, floats, task, with_golden};
use crate::models::Bert;

fn golden() -> Value {
    serde_json::from_str(include_str!("../../../tests/golden/bert-classes.json")).unwrap()
}

/// What `run` makes of a trainer with the golden model.
fn with_bert<B: PrecisionBackend, T>(
    golden: &Value,
    precision: &str,
    run: impl FnOnce(&mut Trainer<B, Bert>) -> T,
) -> T {
    let config = &golden["config"];
    let size = |key: &str| config[key].as_u64().unwrap() as u32;
    let of_model = BertSize {
        hidden_size: size("hidden_size"),
        num_hidden_layers: size("num_hidden_layers"),
        num_attention_heads: size("num_attention_heads"),
        intermediate_size: size("intermediate_size"),
        max_position_embeddings: size("max_position_embeddings"),
        hidden_dropout_prob: 0.0,
        attention_probs_dropout_prob: 0.0,
    };
    let task = task(Model::Bert(of_model.clone()), 1e-3);
    let model = Bert::new(of_model, size("vocab_size"), size("num_labels"));
    let axes = [(Axis::Precision, precision), (Axis::Sequence, "8")];
    with_golden(&task, &axes, (model, "bert-classes.safetensors"), run)
}

/// Logits of all examples.
fn logits(golden: &Value, precision: &str) -> Vec<f64> {
    with_bert::<Flex, _>(golden, precision, |trainer| {
        let parameters = trainer.working().freeze();
        let (logits, _) = trainer.predict(&parameters, &batch(golden, (0, 3)));
        logits.into_data().iter::<f64>().collect()
    })
}

fn rows(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().flat_map(floats).collect()
}

fn apart(got: &[f64], wanted: &[f64]) -> f64 {
    assert_eq!(got.len(), wanted.len());
    let apart = got.iter().zip(wanted).map(|(a, b)| (a - b).abs());
    apart.fold(0.0, mantissa_testing::worse)
}

#[test]
fn logits_are_those_of_transformers() {
    let golden = golden();
    let wide = apart(&logits(&golden, "64-true"), &rows(&golden["float64"]["logits"]));
    assert!(wide <= 1e-10, "f64: {wide:e}");
    let single = apart(&logits(&golden, "32-true"), &rows(&golden["float32"]["logits"]));
    assert!(single <= 1e-5, "f32: {single:e}");
}

#[test]
fn the_loss_and_every_gradient_are_those_of_transformers() {
    let golden = golden();
    with_bert::<Flex, _>(&golden, "64-true", |trainer| {
        let batch = batch(&golden, (0, 3));
        let parameters = trainer.working().track();
        let loss = trainer.loss(&parameters, &batch).summed;
        let share = 1.0 / 3.0;
        let value: f64 = loss.clone().into_data().iter::<f64>().sum();
        let wanted = golden["float64"]["loss"].as_f64().unwrap();
        assert!((share * value - wanted).abs() < 1e-12, "{}", share * value);
        let gradients = (loss * share).backward();
        for row in golden["float64"]["gradients"].as_array().unwrap() {
            let name = row["name"].as_str().unwrap();
            let gradient: Tensor<Flex, 1> = parameters.vector(name).grad(&gradients).unwrap();
            let values: Vec<f64> = gradient.into_data().iter::<f64>().collect();
            let norm = values.iter().map(|x| x * x).sum::<f64>().sqrt();
            // In exact arithmetic it is zero: it shifts all scores of a query alike.
            if name.ends_with("key.bias") {
                assert!(norm < 1e-12, "{name}: {norm:e}");
                continue;
            }
            let wanted = row["norm"].as_f64().unwrap();
            assert!(
                (norm - wanted).abs() <= 1e-9 * wanted,
                "{name}: {norm} and not {wanted}"
            );
            let shape: Vec<usize> = row["shape"]
                .as_array()
                .unwrap()
                .iter()
                .map(|n| n.as_u64().unwrap() as usize)
                .collect();
            let place = row["largest"]["index"].as_array().unwrap().iter().zip(&shape);
            let place = place.fold(0, |at, (index, edge)| {
                at * edge + index.as_u64().unwrap() as usize
            });
            let wanted = row["largest"]["value"].as_f64().unwrap();
            assert!(
                (values[place] - wanted).abs() <= 1e-9 * norm,
                "{name}: {} and not {wanted}",
                values[place]
            );
        }
    });
}
