//! Sensitivity of a trained model to number formats. Repeats the test with matmuls in emulated formats: with fewer exponent bits, with
//! fewer fraction bits, with fewer exponent and fraction bits, and for one layer at a time.
//!
//! Operands and results of matmuls and of GELU are rounded, as under autocast. All other operations stay in f32.

use std::ops::RangeInclusive;

use mantissa_analysis::{Sensitivity, keeps, min_bits};
use mantissa_core::{Event, EventKind, Format, FormatTrial, Layout};

use super::{evaluate::evaluate, trainer::Trainer};
use crate::{Observer, Phase, WorkloadError, models::Network};

/// Exponent and fraction bits of f32.
const F32_BITS: (u32, u32) = (Format::F32.exponent_bits(), Format::F32.fraction_bits());

/// Maximum number of fraction bits to try, apart from the 23 of f32. f16 and TF32 have 10.
const MAX_FRACTION_BITS: u32 = 10;

/// Repeats the test in emulated formats. `correct` has one character per example: `1` if the prediction in f32 is correct, otherwise `0`.
pub(super) fn sensitivity<M: Network>(
    trainer: &mut Trainer<'_, M>,
    test: &M::Part,
    correct: &str,
    observer: &mut dyn Observer,
) -> Result<(Vec<FormatTrial>, Event), WorkloadError> {
    let mut bench = FormatBench {
        trainer,
        test,
        correct,
        observer,
    };
    let fractions = (1..=MAX_FRACTION_BITS).chain([F32_BITS.1]);
    let fractions = bench.sweep(fractions.map(|bits| Layout::new(F32_BITS.0, bits)))?;
    let fraction = min_bits(&fractions, Layout::fraction_bits).unwrap_or(F32_BITS.1);
    // Sweep the exponent bits with `MAX_FRACTION_BITS` fraction bits, or with `fraction` if that is larger. More fraction bits would hide a lack of
    // exponent bits, because each one extends the range of subnormals by a power of two.
    let sufficient = fraction.max(MAX_FRACTION_BITS);
    let exponents = bench.sweep((2..=F32_BITS.0).map(|bits| Layout::new(bits, sufficient)))?;
    let exponent = min_bits(&exponents, Layout::exponent_bits).unwrap_or(F32_BITS.0);

    // The accuracy may survive few exponent bits or few fraction bits, but not both at once. One more fraction bit may replace several exponent
    // bits, since it extends the range of subnormals by a power of two. Try formats with the fewest bits first.
    let fraction_bits = || (fraction..=MAX_FRACTION_BITS).chain([F32_BITS.1]);
    let layouts = (exponent..=F32_BITS.0)
        .flat_map(|exponent| fraction_bits().map(move |fraction| Layout::new(exponent, fraction)));
    let mut layouts: Vec<Layout> = layouts.collect();
    layouts.sort_by_key(|layout| layout.exponent_bits() + layout.fraction_bits());
    let mut joint = vec![];
    let mut smallest = None;
    for layout in layouts {
        let trial = bench.run_trial(layout, None, &[])?;
        let kept = keeps(&trial);
        joint.push(trial);
        if kept {
            smallest = Some(layout);
            break;
        }
    }

    let smallest = smallest.map_or_else(|| "none".to_owned(), |layout| layout.to_string());
    let mut detail = format!(
        "{}: needs {exponent} exponent bits and {fraction} fraction bits; the smallest format that keeps the accuracy \
         is {smallest}",
        Sensitivity::of(exponent, fraction).name()
    );

    let mut layer_trials = vec![];
    for layer in bench.trainer.model.layers() {
        layer_trials.extend(bench.find_min_bits(&layer, 1..=MAX_FRACTION_BITS, |bits| {
            Layout::new(F32_BITS.0, bits)
        })?);
        layer_trials
            .extend(bench.find_min_bits(&layer, 2..=F32_BITS.0 - 1, |bits| Layout::new(bits, sufficient))?);
    }
    let mut trials_16_bit = vec![];
    for format in [Format::F16, Format::Bf16] {
        let layout = Layout::new(format.exponent_bits(), format.fraction_bits());
        let mut done = exponents.iter().chain(&fractions);
        if done.any(|trial| trial.layout == layout && keeps(trial)) {
            detail.push_str(&format!("; {format} keeps the accuracy"));
            continue;
        }
        let (trials, verdict) = bench.test_keep_f32(format, layout)?;
        trials_16_bit.extend(trials);
        detail.push_str(&format!("; {verdict}"));
    }
    let trials = [exponents, fractions, joint, trials_16_bit, layer_trials].concat();
    let event = Event::new(EventKind::Sensitivity, detail);
    Ok((trials, event))
}

/// Trained model with its test data.
struct FormatBench<'b, 'a, M: Network> {
    trainer: &'b mut Trainer<'a, M>,
    test: &'b M::Part,
    correct: &'b str,
    observer: &'b mut dyn Observer,
}

impl<M: Network> FormatBench<'_, '_, M> {
    fn sweep(&mut self, layouts: impl Iterator<Item = Layout>) -> Result<Vec<FormatTrial>, WorkloadError> {
        layouts.map(|layout| self.run_trial(layout, None, &[])).collect()
    }

    /// Searches for the smallest number of bits in `range` with which a single layer keeps the accuracy. The search is a bisection, which
    /// assumes that more bits are never worse. Returns the trials.
    fn find_min_bits(
        &mut self,
        layer: &str,
        range: RangeInclusive<u32>,
        layout: impl Fn(u32) -> Layout,
    ) -> Result<Vec<FormatTrial>, WorkloadError> {
        let (mut least, mut sufficient) = (*range.start(), range.end() + 1);
        let mut trials = vec![];
        while least < sufficient {
            let bits = u32::midpoint(least, sufficient);
            let trial = self.run_trial(layout(bits), Some(layer), &[])?;
            if keeps(&trial) {
                sufficient = bits;
            } else {
                least = bits + 1;
            }
            trials.push(trial);
        }
        Ok(trials)
    }

    /// Finds the layers that a mixed setting of this format should keep in f32: each layer that loses accuracy if it alone uses the format. Then
    /// repeats the test with these layers in f32. Returns the trials and the verdict.
    fn test_keep_f32(
        &mut self,
        format: Format,
        layout: Layout,
    ) -> Result<(Vec<FormatTrial>, String), WorkloadError> {
        let mut trials = vec![self.run_trial(layout, None, &[])?];
        if keeps(&trials[0]) {
            return Ok((trials, format!("{format} keeps the accuracy")));
        }
        let layers = self.trainer.model.layers();
        if layers.is_empty() {
            return Ok((
                trials,
                format!(
                    "{format} loses accuracy; layers were not tested separately, because the model does not name them"
                ),
            ));
        }
        let mut sensitive_layers = vec![];
        for layer in layers {
            let trial = self.run_trial(layout, Some(&layer), &[])?;
            if !keeps(&trial) {
                sensitive_layers.push(layer);
            }
            trials.push(trial);
        }
        if sensitive_layers.is_empty() {
            return Ok((
                trials,
                format!("{format} loses accuracy, although no single layer does"),
            ));
        }
        let trial = self.run_trial(layout, None, &sensitive_layers)?;
        let verdict = if keeps(&trial) {
            "keeps the accuracy"
        } else {
            "is not sufficient"
        };
        trials.push(trial);
        Ok((
            trials,
            format!(
                "under {format}, keep_f32 = \"{}\" {verdict}",
                sensitive_layers.join("+")
            ),
        ))
    }

    /// Repeats the test with a layout, for all layers or for one `layer`, with the `kept` layers in f32.
    fn run_trial(
        &mut self,
        layout: Layout,
        layer: Option<&str>,
        kept: &[String],
    ) -> Result<FormatTrial, WorkloadError> {
        let (compute, model) = (self.trainer.compute, self.trainer.model.clone());
        self.trainer.compute = compute.emulating(layout);
        let with_kept = model.clone().keep_in_f32(kept).map_err(WorkloadError::data)?;
        self.trainer.model = match layer {
            Some(layer) => with_kept.keep_in_f32_except(layer),
            None => with_kept,
        };
        let evaluation = evaluate(self.trainer, self.test, self.observer, Phase::Evaluate);
        (self.trainer.compute, self.trainer.model) = (compute, model);
        let now_correct = evaluation?.correct;
        let pairs = || self.correct.bytes().zip(now_correct.bytes());
        let count = |pair: (u8, u8)| pairs().filter(|seen| *seen == pair).count() as u64;
        Ok(FormatTrial {
            layout,
            layer: layer.map(str::to_owned),
            kept: kept.to_vec(),
            examples: now_correct.len() as u64,
            right: now_correct.bytes().filter(|bit| *bit == b'1').count() as u64,
            lost: count((b'1', b'0')),
            won: count((b'0', b'1')),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use mantissa_core::Axis;
    use mantissa_precision::ParameterSet;

    use super::*;
    use crate::data::{Part, Tokenized};
    use crate::train::testing::{ByteCountObserver, cell, data, train, trainer};

    /// Calls `run` with a small trained model and its test reviews, some of which are near the decision boundary.
    fn with_trained_model(run: impl FnOnce(&mut Trainer<'_>, &Tokenized)) {
        let (data, _cache) = data(64, 0, 800);
        let (cell, mut task) = cell(&[(Axis::Sequence, "16")], false);
        (task.epochs, task.learning_rate) = (6, 3e-3);
        let mut trained = trainer(&cell, &task, &data);
        train(&mut trained, &data);
        run(&mut trained, &data.test);
    }

    #[test]
    fn predictions_change_only_with_too_few_bits() {
        with_trained_model(assert_enough_bits);
    }

    fn assert_enough_bits(trained: &mut Trainer<'_>, test: &Tokenized) {
        let correct = evaluate(trained, test, &mut ByteCountObserver, Phase::Evaluate)
            .unwrap()
            .correct;
        let before = trained.compute;
        let (trials, verdict) = sensitivity(trained, test, &correct, &mut ByteCountObserver).unwrap();
        assert_eq!(
            trained.compute, before,
            "the precision of the trainer is restored"
        );

        let trial_in = |layout: &str| {
            let mut found = trials.iter().filter(|trial| trial.layer.is_none());
            found
                .find(|trial| trial.layout == layout.parse().unwrap())
                .unwrap()
        };
        let right = correct.bytes().filter(|bit| *bit == b'1').count() as u64;
        assert_eq!(
            (
                trial_in("e8m23").right,
                trial_in("e8m23").lost,
                trial_in("e8m23").won
            ),
            (right, 0, 0)
        );
        assert!(
            trial_in("e8m1").lost + trial_in("e8m1").won > trial_in("e8m10").lost + trial_in("e8m10").won
        );
        assert!(
            trial_in("e2m10").lost + trial_in("e2m10").won > 0,
            "e2m10 did not change any prediction"
        );
        assert!(trials.iter().all(|trial| trial.examples == 800));
        let alone: BTreeSet<_> = trials.iter().filter_map(|trial| trial.layer.clone()).collect();
        assert_eq!(alone, trained.model.layers().into_iter().collect());
        let (_, smallest) = verdict
            .detail
            .split_once("the smallest format that keeps the accuracy is ")
            .unwrap();
        let smallest: Layout = smallest.split(';').next().unwrap().parse().unwrap();
        let bits = |layout: Layout| layout.exponent_bits() + layout.fraction_bits();
        let of_model = || {
            trials
                .iter()
                .filter(|trial| trial.layer.is_none() && trial.kept.is_empty())
        };
        assert!(of_model().any(|trial| trial.layout == smallest && keeps(trial)));
        assert!(of_model().all(|trial| !keeps(trial) || bits(trial.layout) >= bits(smallest)));
    }

    /// Returns the verdict after a change of a trained model's weights. The change must not affect predictions in f32.
    fn verdict_after(trained: &mut Trainer<'_>, test: &Tokenized, change: fn(&str, f32) -> f32) -> String {
        let before = trained.parameters.clone();
        let shapes = trained.model.parameters().into_iter().map(|spec| spec.shape);
        let parts = before.iter().zip(shapes).map(|((name, value), shape)| {
            let values: Vec<f32> = value.to_data().iter::<f32>().map(|x| change(name, x)).collect();
            (name.to_owned(), shape, values)
        });
        trained.parameters = ParameterSet::new(parts, Format::F32, trained.device);
        let correct = evaluate(trained, test, &mut ByteCountObserver, Phase::Evaluate)
            .unwrap()
            .correct;
        let (_, verdict) = sensitivity(trained, test, &correct, &mut ByteCountObserver).unwrap();
        trained.parameters = before;
        verdict.detail
    }

    mod long {
        use super::*;

        #[test]
        fn planted_weaknesses_are_located_and_classified() {
            with_trained_model(planted_weaknesses);
        }
    }

    fn planted_weaknesses(trained: &mut Trainer<'_>, test: &Tokenized) {
        let mut verdict_with = |change| verdict_after(trained, test, change);
        let sound = verdict_with(|_, x| x);
        assert!(sound.starts_with("insensitive: "), "{sound}");
        assert!(!sound.contains("keep_f32"), "{sound}");

        // One layer is scaled down and the next is scaled up, so only a wide exponent range can represent both.
        let range = verdict_with(|name, x| match name {
            "pre_classifier.weight" | "pre_classifier.bias" => x * 2f32.powi(-40),
            "classifier.weight" => x * 2f32.powi(40),
            _ => x,
        });
        assert!(
            range.starts_with("range-sensitive: needs 7 exponent bits"),
            "{range}"
        );
        assert!(
            range.ends_with("; under f16, keep_f32 = \"pre_classifier+classifier\" keeps the accuracy; bf16 keeps the accuracy"),
            "{range}"
        );
        // Likewise for the attention matmuls, which do not have weights: scale the queries of a block up and its keys down.
        let attention =
            verdict_with(
                |name, x| match name.strip_prefix("distilbert.transformer.layer.0.attention.") {
                    Some("q_lin.weight" | "q_lin.bias") => x * 2f32.powi(40),
                    Some("k_lin.weight" | "k_lin.bias") => x * 2f32.powi(-40),
                    _ => x,
                },
            );
        assert!(
            attention.starts_with("range-sensitive: needs 7 exponent bits"),
            "{attention}"
        );
        let expected =
            "distilbert.transformer.layer.0.attention\" keeps the accuracy; bf16 keeps the accuracy";
        assert!(attention.ends_with(expected), "{attention}");
        // Add a large offset to both classes, so that only formats with many fraction bits can distinguish them.
        let digits = verdict_with(|name, x| match name {
            "classifier.weight" => x + 512.0,
            _ => x,
        });
        assert!(digits.starts_with("precision-sensitive: "), "{digits}");
        assert!(
            digits.ends_with("under bf16, keep_f32 = \"classifier\" keeps the accuracy"),
            "{digits}"
        );
    }

    #[test]
    fn a_single_layer_can_be_emulated() {
        let (data, _cache) = data(16, 0, 40);
        let (cell, task) = cell(&[], false);
        let mut trainer = trainer(&cell, &task, &data);
        let logits = |trainer: &Trainer<'_>| {
            let batch = data.test.batch(&[0, 1, 2]);
            let (logits, _) = trainer.predict(&trainer.working().freeze(), &batch);
            logits.into_data().iter::<f64>().collect::<Vec<_>>()
        };
        let whole = logits(&trainer);
        trainer.compute = trainer.compute.emulating("e5m2".parse().unwrap());
        let all = logits(&trainer);
        trainer.model = trainer.model.clone().keep_in_f32_except("classifier");
        let last = logits(&trainer);
        assert!(all != whole && last != whole && all != last);
        // Attention and GELU do not have weights, so emulating a single layer with weights must not emulate them.
        trainer.model = trainer.model.clone().keep_in_f32_except("none of them");
        assert_eq!(logits(&trainer), whole);
        trainer.model = trainer.model.clone().keep_in_f32_except("classifier");
        // The outputs of the last layer are rounded to e5m2, so rounding them again does not change them.
        let layout: Layout = "e5m2".parse().unwrap();
        assert!(
            last.iter().all(|logit| layout.round(*logit) == *logit),
            "{last:?}"
        );
    }
}
