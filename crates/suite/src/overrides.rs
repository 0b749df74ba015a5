//! Axis overrides from the command line: `-a accumulate=1,4`, or `-a batch+accumulate=32:1,8:4` for axes that change
//! together.

use mantissa_core::{Axis, in_one_line};

use crate::{
    PlanError,
    axes::{AXIS_SEPARATOR, Sweep},
};

/// Separator of the values of axes that are swept together.
const VALUE_SEPARATOR: char = ':';

/// Parses `axis=value,value` or `axis+axis=value:value,value:value`. A value of `keep_f32` is a list of patterns joined
/// by `+`, or `none` for an empty list.
///
/// # Errors
/// A missing `=`, a row that does not have one value per axis, or an invalid axis or value. Errors contain the nearest valid names.
pub fn parse_override(text: &str) -> Result<Sweep, PlanError> {
    let Some((names, values)) = text.split_once('=') else {
        return Err(PlanError::InvalidOverride {
            given: in_one_line(&text),
        });
    };
    let axes: Vec<Axis> = names
        .split(AXIS_SEPARATOR)
        .map(|name| name.trim().parse())
        .collect::<Result<_, _>>()?;
    let row = |row: &str| {
        let values: Vec<&str> = match axes.len() {
            1 => vec![row],
            _ => row.split(VALUE_SEPARATOR).collect(),
        };
        if values.len() != axes.len() {
            return Err(PlanError::InvalidRow {
                names: in_one_line(&names),
                given: in_one_line(&row),
                wanted: vec!["value"; axes.len()].join(":"),
            });
        }
        let values = axes
            .iter()
            .zip(values)
            .map(|(axis, value)| axis.parse(value.trim()));
        values.map(|value| value.map_err(PlanError::from)).collect()
    };
    let rows = values.split(',').map(row).collect::<Result<_, _>>()?;
    Ok(Sweep::new(axes, rows))
}

#[cfg(test)]
mod tests {
    use mantissa_core::AxisValue;

    use super::*;

    /// Returns the error of an override. Masks the list of all axes, so that a new axis does not change the expected error.
    fn error(text: &str) -> String {
        let axes: Vec<String> = Axis::ALL.iter().map(|axis| format!("`{axis}`")).collect();
        let error = parse_override(text).unwrap_err().to_string();
        error.replace(&axes.join(", "), "[all axes]")
    }

    #[test]
    fn errors_do_not_contain_blank_lines() {
        for text in [
            "accu\n\nmulate",
            "accu\n\nmulate=1",
            "accumulate=\n\n1\n\n2",
            "precision=16\n\n-mixed",
            "batch\n\n+accumulate=32",
            "batch+accumulate=3\r\n\r\n2",
        ] {
            let error = error(text);
            assert!(!error.contains("\n\n") && !error.contains('\r'), "{error:?}");
        }
    }

    #[test]
    fn override_has_an_axis_and_its_values() {
        let expected = Sweep::single(
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
            Sweep::single(Axis::KeepF32, patterns)
        );
    }

    #[test]
    fn joined_axes_take_one_value_each() {
        let row = |batch, accumulate| vec![AxisValue::Integer(batch), AxisValue::Integer(accumulate)];
        let expected = Sweep::new(vec![Axis::Batch, Axis::Accumulate], vec![row(32, 1), row(2, 16)]);
        assert_eq!(parse_override("batch+accumulate=32:1, 2:16").unwrap(), expected);
        insta::assert_snapshot!(error("batch+accumulate=32:1,2"), @r#"
            `batch+accumulate` takes `value:value`, not `2`
            "#);
    }

    #[test]
    fn invalid_overrides_suggest_the_nearest_name() {
        insta::assert_snapshot!(error("accumulate"), @r#"
            `accumulate` is not a valid axis override
              hint: write `axis=value,value`, e.g. `accumulate=1,4`
            "#);
        insta::assert_snapshot!(error("acumulate=1"), @r#"
            unknown axis `acumulate`
              hint: did you mean `accumulate`? valid: [all axes]
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
