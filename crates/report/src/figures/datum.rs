//! Values of drawn marks: hover texts of an SVG and rows of a CSV.

use mantissa_core::MetricName;

use crate::{
    export::{csv_number, escape_formula},
    setting::Spot,
    units::Scale,
};

/// A quantity of a mark.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Quantity {
    pub name: String,
    /// Value in `unit`.
    pub value: f64,
    /// Ends of the whiskers.
    pub ends: Option<(f64, f64)>,
    /// Base unit; `1` for ratios and shares.
    pub unit: &'static str,
    /// Value with a readable unit.
    pub text: String,
}

impl Quantity {
    /// Creates a quantity without whiskers.
    pub fn new(name: &str, value: f64, unit: &'static str, text: String) -> Self {
        Self {
            name: name.to_owned(),
            value,
            ends: None,
            unit,
            text,
        }
    }

    /// Creates a quantity from a metric.
    pub fn of(metric: MetricName, spot: Spot) -> Self {
        Self {
            ends: spot.whiskers,
            ..Self::new(
                metric.name(),
                spot.value,
                metric.unit().name(),
                Scale::of(metric, spot.value).text(spot.value),
            )
        }
    }
}

/// Values of a mark.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Datum {
    /// Series or setting.
    pub series: String,
    /// Position on the horizontal axis, if that axis is a quantity of its own.
    pub x: Option<Quantity>,
    pub value: Quantity,
}

impl Datum {
    /// Creates a datum without a position.
    pub fn new(series: &str, value: Quantity) -> Self {
        Self {
            series: series.to_owned(),
            x: None,
            value,
        }
    }

    /// Returns the datum at a position.
    pub fn at(self, x: Quantity) -> Self {
        Self { x: Some(x), ..self }
    }

    /// Formats the hover text: `bf16-mixed, size 1,024: 206.0 GFLOP/s`.
    pub fn hover_text(&self) -> String {
        let at = self.x.as_ref().map(|x| format!(", {} {}", x.name, x.text));
        format!("{}{}: {}", self.series, at.unwrap_or_default(), self.value.text)
    }
}

/// Formats data as CSV with a row per datum. An absent value is an empty field.
pub(super) fn csv<'d>(data: impl Iterator<Item = &'d Datum>) -> Result<Vec<u8>, ::csv::Error> {
    let mut bytes = Vec::new();
    let mut writer = ::csv::Writer::from_writer(&mut bytes);
    writer.write_record([
        "series", "x_name", "x", "x_low", "x_high", "x_unit", "name", "value", "low", "high", "unit",
    ])?;
    for datum in data {
        writer.write_field(escape_formula(&datum.series).as_bytes())?;
        for quantity in [datum.x.as_ref(), Some(&datum.value)] {
            let number = |value: Option<f64>| value.map(csv_number).unwrap_or_default();
            let ends = quantity.and_then(|quantity| quantity.ends);
            writer.write_field(quantity.map_or("", |quantity| &quantity.name))?;
            writer.write_field(number(quantity.map(|quantity| quantity.value)))?;
            writer.write_field(number(ends.map(|ends| ends.0)))?;
            writer.write_field(number(ends.map(|ends| ends.1)))?;
            writer.write_field(quantity.map_or("", |quantity| quantity.unit))?;
        }
        writer.write_record(None::<&[u8]>)?;
    }
    writer.flush()?;
    drop(writer);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datum_is_a_hover_text_and_a_row_in_base_units() {
        let spot = Spot {
            value: 90.5,
            whiskers: Some((90.0, 91.25)),
        };
        let time = Quantity::of(MetricName::TrainSeconds, spot);
        let plain = Datum::new("=1", time);
        let placed = plain
            .clone()
            .at(Quantity::new("size", 1024.0, "1", "1,024".to_owned()));
        assert_eq!(plain.hover_text(), "=1: 90.50 s");
        assert_eq!(placed.hover_text(), "=1, size 1,024: 90.50 s");
        let text = String::from_utf8(csv([plain, placed].iter()).unwrap()).unwrap();
        assert_eq!(
            text,
            "series,x_name,x,x_low,x_high,x_unit,name,value,low,high,unit\n\
             '=1,,,,,,train_seconds,90.5,90,91.25,s\n\
             '=1,size,1024,,,1,train_seconds,90.5,90,91.25,s\n"
        );
    }
}
