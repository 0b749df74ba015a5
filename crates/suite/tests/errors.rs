//! Tests of error reports: all errors of a suite at once, with file, line, column and the nearest valid names.

use mantissa_core::{Axis, MAX_REPEATS, Profile};
use mantissa_suite::{load, parse};

/// Valid suite, which each test modifies.
const VALID: &str = r#"title = "t"
question = "q?"

[[workload]]
name = "reviews"
task = "train"
model = "distilbert"
dataset = "reviews"
epochs = 3
learning_rate = 5e-5
split = { validation = 10 }

[axes]
precision = ["32-true", "16-mixed"]
batch = [12]
"#;

/// Returns the errors of a suite. Masks the list of all axes, so that a new axis does not change the expected errors.
fn errors(text: &str) -> String {
    let axes: Vec<String> = Axis::ALL.iter().map(|axis| format!("`{axis}`")).collect();
    parse("x", "suites/x.toml", text)
        .expect_err("the suite must be invalid")
        .to_string()
        .replace(&axes.join(", "), "[all axes]")
}

/// Returns the errors of the valid suite with `from` replaced by `to`.
fn errors_after(from: &str, to: &str) -> String {
    assert!(VALID.contains(from), "the valid suite does not contain {from}");
    errors(&VALID.replace(from, to))
}

#[test]
fn unmodified_suite_is_valid() {
    assert_eq!(parse("x", "suites/x.toml", VALID).unwrap().name(), "x");
}

#[test]
fn all_errors_are_reported_in_the_order_of_the_file() {
    let text = VALID
        .replace("question", "qestion")
        .replace("\"train\"", "\"trian\"")
        .replace("precision =", "precison =")
        .replace("[12]", "[0, 12.5, \"12\"]");
    insta::assert_snapshot!(errors(&text), @r#"
        suites/x.toml:1:1: missing key `question` in the suite
          hint: `question` is a string: question that the suite investigates
        suites/x.toml:2:1: unknown key `qestion`
          hint: did you mean `question`? valid: `title`, `question`, `analysis`, `references`, `timeout_minutes`, `inputs`, `axes`, `workload`, `expect`, `claim`, `profile`
        suites/x.toml:6:8: unknown task `trian`
          hint: did you mean `train`? valid: `train`, `evaluate`, `generate`, `kernel`
        suites/x.toml:14:1: unknown axis `precison`
          hint: did you mean `precision`? valid: [all axes]
        suites/x.toml:15:10: axis `batch` takes a whole number of 1 or more, not `0`
        suites/x.toml:15:13: axis `batch` takes a whole number of 1 or more, not `12.5`
        suites/x.toml:15:19: axis `batch` takes a whole number of 1 or more, not `"12"`
        "#);
}

#[test]
fn unknown_values_suggest_the_nearest_name() {
    insta::assert_snapshot!(errors_after("16-mixed", "16-mxied"), @r#"
        suites/x.toml:14:25: unknown precision `16-mxied`
          hint: did you mean `16-mixed`? valid: `64-true`, `32-true`, `16-mixed`, `bf16-mixed`, `16-true`, `bf16-true`
        "#);
    insta::assert_snapshot!(errors_after("\"distilbert\"", "\"distillbert\""), @r#"
        suites/x.toml:7:9: unknown model `distillbert`
          hint: did you mean `distilbert`? valid: `distilbert`, `bert`, `resnet`, `resnet-imagenet`, `vit`, `llama`, `gpt2`, `bloom`, `own`
        "#);
    insta::assert_snapshot!(errors_after("= \"reviews\"\nepochs", "= \"imdb\"\nepochs"), @r#"
        suites/x.toml:8:11: unknown dataset `imdb`
          hint: valid: `synthetic-reviews`, `reviews`, `synthetic-images`, `images`, `synthetic-text`, `text`, `own`
        "#);
}

#[test]
fn wrong_types_are_reported_with_the_expected_type() {
    insta::assert_snapshot!(errors_after("epochs = 3", "epochs = 0"), @r#"
        suites/x.toml:9:10: `epochs` takes a whole number of 1 or more, not `0`
        "#);
    insta::assert_snapshot!(errors_after("epochs = 3", "epochs = \"3\""), @r#"
        suites/x.toml:9:10: `epochs` takes a whole number of 1 or more, not `"3"`
        "#);
    insta::assert_snapshot!(errors_after("5e-5", "-5e-5"), @r#"
        suites/x.toml:10:17: `learning_rate` takes a number above 0, not `-5e-5`
        "#);
    insta::assert_snapshot!(errors_after("[12]", "12"), @r#"
        suites/x.toml:15:9: axis `batch` takes a list of values, not `12`
          hint: write `batch = [12]`
        "#);
    insta::assert_snapshot!(errors_after("split = { validation = 10 }", "split = 10"), @r#"
        suites/x.toml:11:9: `split` takes a table, not `10`
        "#);
}

#[test]
fn repeats_have_the_limit_of_the_command_line() {
    let with_repeats = |repeats: u32| format!("{VALID}\n[profile.smoke]\nrepeats = {repeats}\n");
    let valid = parse("x", "suites/x.toml", &with_repeats(MAX_REPEATS)).unwrap();
    assert_eq!(valid.repeats(Profile::Smoke), Some(MAX_REPEATS));
    for repeats in [0, MAX_REPEATS + 1] {
        assert_eq!(
            errors(&with_repeats(repeats)),
            format!(
                "suites/x.toml:18:11: `repeats` takes a whole number from 1 to {MAX_REPEATS}, not `{repeats}`"
            )
        );
    }
}

#[test]
fn missing_keys_are_reported_with_their_type() {
    insta::assert_snapshot!(errors_after("epochs = 3\n", ""), @r#"
        suites/x.toml:4:1: missing key `epochs` in `[[workload]]`
          hint: `epochs` is a whole number of 1 or more: passes over the training examples
        "#);
    insta::assert_snapshot!(errors("title = 't'\nquestion = 'q?'\n"), @r#"
        suites/x.toml:1:1: missing key `workload` in the suite
          hint: `workload` is a list of tables: workloads to run (see *Workloads*)
        "#);
}

#[test]
fn invalid_axis_lists_are_reported() {
    insta::assert_snapshot!(errors_after("batch = [12]", "batch = [12, 12]"), @r#"
        suites/x.toml:15:14: axis `batch` has the value `12` more than once
        "#);
    insta::assert_snapshot!(errors_after("batch = [12]", "batch = [12]\n'batch+accumulate' = [[1, 2]]"), @r#"
        suites/x.toml:16:1: axis `batch` is swept more than once
        "#);
    insta::assert_snapshot!(errors_after("batch = [12]", "'batch+accumulate' = [[1, 2, 3], [4, 0]]"), @r#"
        suites/x.toml:15:23: `batch+accumulate` takes lists of 2 values, not `[1, 2, 3]`
        suites/x.toml:15:38: axis `accumulate` takes a whole number of 1 or more, not `0`
        "#);
    insta::assert_snapshot!(errors_after("batch = [12]", "batch = []"), @r#"
        suites/x.toml:15:9: axis `batch` takes a list of values, not `[]`
        "#);
}

#[test]
fn inapplicable_axes_are_reported() {
    insta::assert_snapshot!(errors_after("batch = [12]", "size = [12]"), @r#"
        suites/x.toml:15:1: axis `size` does not apply to task `train`
          hint: it applies to `kernel`
        "#);
}

#[test]
fn expectations_are_validated() {
    let expect = |body: &str| errors(&format!("{VALID}[[expect]]\n{body}"));
    insta::assert_snapshot!(expect("matching = { precision = '32-true' }"), @r#"
        suites/x.toml:16:1: the expectation is empty
          hint: add `status`, `at_least` or `at_most`
        "#);
    insta::assert_snapshot!(expect("matching = { size = 3, seed = 4 }\nstatus = ['okay']"), @r#"
        suites/x.toml:17:14: axis `size` does not apply to task `train`
          hint: it applies to `kernel`
        suites/x.toml:17:24: an expectation cannot depend on `seed`; it applies to all seeds
        suites/x.toml:18:11: unknown status `okay`
          hint: did you mean `ok`? valid: `ok`, `diverged`, `oom`, `failed`, `timeout`, `skipped`
        "#);
    insta::assert_snapshot!(expect("at_least = { accuracy = 0.5, test_accuracy = 'high' }"), @r#"
        suites/x.toml:17:14: unknown metric `accuracy`
          hint: did you mean `test_accuracy`? valid: `train_seconds`, `step_seconds`, `samples_per_second`, `tokens_per_second`, `load_seconds`, `weights_seconds`, `loaded_bytes`, `warmup_seconds`, `launches_per_step`, `host_seconds_per_launch`, `device_idle_share`, `communication_seconds`, `communication_share`, `bytes_sent`, `messages`, `gradient_error`, `equal_reductions`, `mean_staleness`, `first_token_seconds`, `token_seconds`, `decode_tokens_per_second`, `test_accuracy`, `validation_accuracy`, `train_accuracy`, `agreement`, `test_loss`, `perplexity`, `final_loss`, `device_peak_bytes`, `process_peak_bytes`, `allocator_reserved_peak_bytes`, `allocator_in_use_peak_bytes`, `weights_bytes`, `weight_copies_bytes`, `activations_bytes`, `gradients_bytes`, `optimizer_bytes`, `estimated_weights_bytes`, `estimated_weight_copies_bytes`, `estimated_activations_bytes`, `estimated_gradients_bytes`, `estimated_optimizer_bytes`, `host_peak_bytes`, `energy_counter_joules`, `energy_integral_joules`, `energy_above_idle_joules`, `idle_watts`, `flops_per_second`, `values_per_second`, `bytes_per_second`, `copy_bytes_per_second`, `cublas_flops_per_second`, `relative_error`, `quantisation_error`, `accumulation_error`, `rounding_error`, `magnitude_bias`, `max_ulp`, `skipped_steps`, `non_finite_steps`, `clipped_steps`, `overflow_share`, `underflow_share`, `subnormal_share`, `lost_update_share`
        suites/x.toml:17:46: `test_accuracy` takes a number, not `'high'`
        "#);
    insta::assert_snapshot!(expect("profiles = ['smok']\nstatus = []"), @r#"
        suites/x.toml:17:13: unknown profile `smok`
          hint: did you mean `smoke`? valid: `smoke`, `standard`, `full`
        suites/x.toml:18:10: `status` takes a list of `ok`, `diverged`, `oom`, `failed`, `timeout`, `skipped`, not `[]`
        "#);
}

#[test]
fn claims_are_validated() {
    let says = "says = 'it is half'\nsource = { title = 'a', url = 'https://example.org' }\n";
    let claim = |body: &str| errors(&format!("{VALID}[[claim]]\n{says}{body}"));
    insta::assert_snapshot!(errors(&format!("{VALID}[[claim]]\nsays = 3\nsource = {{ title = 'a', url = 'a' }}\nratoi = 4")), @r#"
        suites/x.toml:16:1: missing key `of` in `[[claim]]`
          hint: `of` is a table: axis values of the setting that the claim is about
        suites/x.toml:16:1: the claim is empty
          hint: add `ratio`, `difference` or `status`
        suites/x.toml:17:8: `says` takes a string, not `3`
        suites/x.toml:18:31: `url` takes a link, not `a`
          hint: a link begins with `https://` or `http://`
        suites/x.toml:19:1: unknown key `ratoi`
          hint: did you mean `ratio`? valid: `says`, `source`, `workload`, `of`, `against`, `metric`, `ratio`, `difference`, `status`
        "#);
    insta::assert_snapshot!(claim("of = { precision = '16-mixed' }\nstatus = ['ok']\nratio = { above = 1 }\nworkload = 'reveiws'"), @r#"
        suites/x.toml:16:1: the claim has more than one of `ratio`, `difference` and `status`
          hint: split it into several claims
        suites/x.toml:22:12: unknown workload `reveiws`
          hint: did you mean `reviews`? valid: `reviews`
        "#);
    insta::assert_snapshot!(claim("of = { size = 3, seed = 4 }\nagainst = {}\nmetric = 'peak_memory'\ndifference = { above = 0 }"), @r#"
        suites/x.toml:19:8: axis `size` does not apply to task `train`
          hint: it applies to `kernel`
        suites/x.toml:19:18: a claim cannot depend on `seed`; it is tested over all seeds
        suites/x.toml:20:11: `against` does not contain an axis
          hint: e.g. { precision = "bf16-mixed" }
        suites/x.toml:21:10: `peak_memory` is compared by `ratio`, not by `difference`
        "#);
    insta::assert_snapshot!(claim("of = { batch = 1 }\nagainst = { batch = 1 }\nmetric = 'test_accuracy'\nratio = { above = 2, below = 1 }"), @r#"
        suites/x.toml:20:11: the claim compares a setting with itself
          hint: `of` and `against` must differ in at least one axis
        suites/x.toml:21:10: `test_accuracy` is compared by `difference`, not by `ratio`
        suites/x.toml:22:9: `above` is not less than `below` in `ratio`, so no value satisfies both
          hint: set `above`, `below`, or both with `above` less than `below`
        "#);
    insta::assert_snapshot!(claim("of = { batch = 1 }\nagainst = { batch = 2 }\nmetric = 'train_second'\nratio = { above = 0 }"), @r#"
        suites/x.toml:21:10: unknown metric `train_second`
          hint: did you mean `train_seconds`? valid: `train_seconds`, `step_seconds`, `samples_per_second`, `tokens_per_second`, `load_seconds`, `weights_seconds`, `loaded_bytes`, `warmup_seconds`, `launches_per_step`, `host_seconds_per_launch`, `device_idle_share`, `communication_seconds`, `communication_share`, `bytes_sent`, `messages`, `gradient_error`, `equal_reductions`, `mean_staleness`, `first_token_seconds`, `token_seconds`, `decode_tokens_per_second`, `test_accuracy`, `validation_accuracy`, `train_accuracy`, `agreement`, `test_loss`, `perplexity`, `final_loss`, `device_peak_bytes`, `process_peak_bytes`, `allocator_reserved_peak_bytes`, `allocator_in_use_peak_bytes`, `weights_bytes`, `weight_copies_bytes`, `activations_bytes`, `gradients_bytes`, `optimizer_bytes`, `estimated_weights_bytes`, `estimated_weight_copies_bytes`, `estimated_activations_bytes`, `estimated_gradients_bytes`, `estimated_optimizer_bytes`, `host_peak_bytes`, `energy_counter_joules`, `energy_integral_joules`, `energy_above_idle_joules`, `idle_watts`, `flops_per_second`, `values_per_second`, `bytes_per_second`, `copy_bytes_per_second`, `cublas_flops_per_second`, `relative_error`, `quantisation_error`, `accumulation_error`, `rounding_error`, `magnitude_bias`, `max_ulp`, `skipped_steps`, `non_finite_steps`, `clipped_steps`, `overflow_share`, `underflow_share`, `subnormal_share`, `lost_update_share`
        suites/x.toml:22:19: `above` takes a number above 0, not `0`
        "#);
    insta::assert_snapshot!(claim("of = { batch = 1 }\nstatus = ['diverges']\nmetric = 'final_loss'"), @r#"
        suites/x.toml:20:11: unknown status `diverges`
          hint: did you mean `diverged`? valid: `ok`, `diverged`, `oom`, `failed`, `timeout`, `skipped`
        suites/x.toml:21:1: unknown key `metric`
          hint: valid: `says`, `source`, `workload`, `of`, `status`
        "#);
    insta::assert_snapshot!(claim("of = { batch = 1 }\nstatus = ['diverged', 'failed']"), @r#"
        suites/x.toml:20:10: a claim cannot contain the status `failed`, which is a fault of the program and not a property of the setting
          hint: use `diverged` for a loss that is not finite, and `oom` for exhausted memory
        "#);
}

#[test]
fn all_profiles_are_validated() {
    let text = format!("{VALID}[profile.fast]\n[profile.full.axes]\nbatch = ['x']\n");
    insta::assert_snapshot!(errors(&text), @r#"
        suites/x.toml:16:10: unknown profile `fast`
          hint: valid: `smoke`, `standard`, `full`
        suites/x.toml:18:10: axis `batch` takes a whole number of 1 or more, not `'x'`
        "#);
    insta::assert_snapshot!(errors_after("\n[axes]", "profile.standard.split.tset = 4\n[axes]"), @r#"
        suites/x.toml:12:24: unknown key `tset`
          hint: did you mean `test`? valid: `join`, `train`, `validation`, `test`, `seed`
        "#);
}

#[test]
fn duplicate_workload_names_are_reported() {
    let workload = VALID.split("\n\n").nth(1).unwrap();
    insta::assert_snapshot!(errors(&format!("{VALID}\n{workload}\n")), @r#"
        suites/x.toml:18:8: the suite has more than one workload `reviews`
          hint: use a unique name for each workload
        "#);
}

#[test]
fn toml_syntax_errors_are_reported_alone() {
    insta::assert_snapshot!(errors_after("epochs = 3", "epochs = \nepochs = 4"), @r#"
        suites/x.toml:9:10: string values must be quoted, expected literal string
        suites/x.toml:10:1: duplicate key
        "#);
}

#[test]
fn missing_file_is_an_error_without_a_position() {
    let error = load("no/such/suite.toml".as_ref()).unwrap_err().to_string();
    assert!(
        error.starts_with("no/such/suite.toml: cannot read the file: "),
        "{error}"
    );
}
