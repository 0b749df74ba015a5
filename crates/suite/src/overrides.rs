//! Axis overrides of the command line: `-a accumulate=1,4`.

use mantissa_core::{Axis, AxisValue};

use crate::PlanError;

/// Reads `axis=value,value`. The values of `keep_f32` are patterns joined by `+`, `none` being no pattern.
///
/// # Errors
/// What is no assignment, an unknown axis, or a value that the axis does not take, with the nearest valid names.
pub fn parse_override(text: &str) -> Result<(Axis, Vec<AxisValue>), PlanError> {
    let Some((axis, values)) = text.split_once('=') else {
        return Err(PlanError::NotAnOverride {
            given: text.to_owned(),
        });
    };
    let axis: Axis = axis.trim().parse()?;
    let values: Result<Vec<_>, _> = values.split(',').map(|value| axis.parse(value.trim())).collect();
    Ok((axis, values?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        parse_override(text).unwrap_err().to_string()
    }

    #[test]
    fn an_override_is_an_axis_and_its_values() {
        let expected = (
            Axis::Accumulate,
            vec![AxisValue::Integer(1), AxisValue::Integer(4)],
        );
        assert_eq!(parse_override("accumulate=1, 4").unwrap(), expected);
        let patterns = vec![
            AxisValue::List(vec![]),
            AxisValue::List(vec!["norm".into(), "head".into()]),
        ];
        assert_eq!(
            parse_override("keep_f32=none,norm+head").unwrap(),
            (Axis::KeepF32, patterns)
        );
    }

    #[test]
    fn what_is_wrong_with_an_override_is_said_with_the_nearest_valid_name() {
        insta::assert_snapshot!(error("accumulate"), @r#"
            `accumulate` is no axis override
              hint: write `axis=value,value`, e.g. `accumulate=1,4`
            "#);
        insta::assert_snapshot!(error("acumulate=1"), @r#"
            unknown axis `acumulate`
              hint: did you mean `accumulate`? valid: `precision`, `matmul`, `accumulate`, `batch`, `sequence`, `size`, `accumulator`, `attention`, `gelu`, `distribution`, `seed`, `optimizer`, `adam_eps`, `learning_rate_scaling`, `batchnorm_momentum`, `checkpointing`, `fusion`, `keep_f32`, `devices`, `backend`
            "#);
        insta::assert_snapshot!(error("matmul=hihg"), @r#"
            unknown matmul precision `hihg`
              hint: did you mean `high`? valid: `highest`, `high`, `medium`
            "#);
        insta::assert_snapshot!(error("batch=8,,16"), @r#"
            axis `batch` takes a whole number of 1 or more, not ``
            "#);
        insta::assert_snapshot!(error("batch="), @r#"axis `batch` takes a whole number of 1 or more, not ``"#);
    }
}
