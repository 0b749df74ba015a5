//! Entry points for hostile input: suites and overrides from bytes. The fuzz targets call the same functions.

use std::fmt::Display;

use mantissa_core::{Axis, AxisValue, Backend, Layout, Profile};
use mantissa_suite::{PlanOptions, StartingWeights, parse, parse_override, plan};

/// Maximum length, in bytes, of a suite that is planned and not only parsed.
const MAX_PLANNED_BYTES: usize = 1500;

fn text(bytes: &[u8]) -> Result<&str, String> {
    str::from_utf8(bytes).map_err(message)
}

fn message(error: impl Display) -> String {
    error.to_string()
}

/// Parses a suite file. Short valid suites are planned too.
pub fn suite(bytes: &[u8]) -> Result<(), String> {
    let suite = parse("hostile", "hostile.toml", text(bytes)?).map_err(message)?;
    // A long suite can have millions of cells.
    if bytes.len() > MAX_PLANNED_BYTES {
        return Ok(());
    }
    for &profile in Profile::ALL {
        let options = PlanOptions {
            profile,
            backend: Backend::Flex,
            overrides: vec![],
            suite_inputs: false,
            data: vec![],
            weights: StartingWeights::Random,
            models: Default::default(),
            filter: None,
        };
        plan(std::slice::from_ref(&suite), &options).map_err(message)?;
    }
    Ok(())
}

/// Parses `axis=value,value` and `axis+axis=value:value`. Checks that values survive a round trip through text.
pub fn axes(bytes: &[u8]) -> Result<(), String> {
    let text = text(bytes)?;
    let sweep = parse_override(text).map_err(message)?;
    for (axis, value) in sweep.rows.iter().flat_map(|row| sweep.axes.iter().zip(row)) {
        // Lists of patterns are excluded, because a pattern can contain separators of the command line.
        if !matches!(value, AxisValue::List(_)) {
            assert_eq!(axis.parse(&value.to_string()).as_ref(), Ok(value), "{text:?}");
        }
    }
    Ok(())
}

/// Parses the text as a value of every axis.
pub fn value(bytes: &[u8]) -> Result<(), String> {
    let text = text(bytes)?;
    let read = Axis::ALL.iter().map(|axis| axis.parse(text));
    let errors: Vec<String> = read.filter_map(Result::err).map(message).collect();
    errors.first().map_or(Ok(()), |error| Err(error.clone()))
}

/// Parses the name of a layout.
pub fn layout(bytes: &[u8]) -> Result<(), String> {
    let layout: Layout = text(bytes)?.parse().map_err(message)?;
    assert_eq!(layout.to_string().parse(), Ok(layout));
    assert!(layout.max_finite().is_finite() && layout.round(1.0) == 1.0);
    Ok(())
}
