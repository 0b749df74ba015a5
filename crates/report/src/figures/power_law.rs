//! Power laws fitted to errors over the size: broad bands below the lines, with their exponents at the right.

use super::{
    axis::Axis,
    canvas::{Canvas, TextStyle},
    datum::{Datum, Quantity},
    palette::Colour,
};
use crate::least_squares::straight_line;

/// Power law of a quantity in the size: a straight line through the logarithms of both.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PowerLaw {
    pub exponent: f64,
    /// Logarithm of the quantity at size 1.
    intercept: f64,
}

impl PowerLaw {
    /// Fits a power law to sizes and quantities; `None` for fewer than three points, and if a quantity is not positive.
    pub fn fit(points: impl Iterator<Item = (f64, f64)>) -> Option<Self> {
        let logs: Vec<(f64, f64)> = points.map(|(size, value)| (size.ln(), value.ln())).collect();
        let (exponent, intercept) = straight_line(&logs)?;
        (exponent.is_finite() && intercept.is_finite()).then_some(Self { exponent, intercept })
    }

    fn at(self, size: f64) -> f64 {
        (self.intercept + self.exponent * size.ln()).exp()
    }
}

/// Distance of an exponent from the end of its band.
const GAP: f64 = 20.0;
const STYLE: TextStyle = TextStyle::new(11.0).bold();

/// A power law with the name and the colour of its line.
pub type NamedLaw<'l> = (PowerLaw, &'l str, Colour);

fn text(law: &PowerLaw) -> String {
    format!("{:.2}", law.exponent)
}

/// Returns the width of the exponents with their distance from the bands; 0 without power laws.
pub fn width(laws: &[NamedLaw<'_>]) -> f64 {
    let widths = laws.iter().map(|(law, ..)| GAP + STYLE.width(&text(law)));
    widths.fold(0.0, f64::max)
}

/// Draws a band per power law from the first size to the last, with its exponent on the right unless it would cover another one.
pub fn draw(canvas: &mut Canvas, laws: &[NamedLaw<'_>], (x, y): (Axis, Axis), sizes: (f64, f64)) {
    const MIN_DISTANCE: f64 = 13.0;
    let end = |law: &PowerLaw| y.at(law.at(sizes.1));
    let mut taken: Vec<f64> = vec![];
    for (law, name, colour) in laws {
        let line = vec![(x.at(sizes.0), y.at(law.at(sizes.0))), (x.at(sizes.1), end(law))];
        let exponent = Quantity::new("exponent", law.exponent, "1", format!("exponent {}", text(law)));
        canvas.mark(Datum::new(name, exponent), |canvas| {
            canvas.faint_line(line, 7.0, *colour, 0.22);
        });
        let free = taken.iter().all(|other| (other - end(law)).abs() >= MIN_DISTANCE);
        if free {
            taken.push(end(law));
            let at = (x.at(sizes.1) + GAP, end(law));
            canvas.text_centred(at, &text(law), STYLE.colour(*colour));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exponent_is_fitted_to_three_points_and_not_to_two() {
        let root = |size: f64| (size, 3e-7 * size.sqrt());
        let law = PowerLaw::fit([64.0, 256.0, 1024.0].map(root).into_iter()).unwrap();
        assert!((law.exponent - 0.5).abs() < 1e-12 && (law.at(4.0) - 6e-7).abs() < 1e-18);
        assert_eq!(PowerLaw::fit([64.0, 256.0].map(root).into_iter()), None);
        assert_eq!(PowerLaw::fit([64.0; 3].map(root).into_iter()), None);
    }

    #[test]
    fn a_quantity_of_zero_has_no_power_law() {
        let values = [(1.0, 0.0), (2.0, 1.0), (4.0, 2.0)];
        assert_eq!(PowerLaw::fit(values.into_iter()), None);
    }
}
