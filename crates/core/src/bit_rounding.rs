//! Rounding of f32 bit patterns to a layout with fewer bits.

use crate::{Format, Layout};

/// Constants for rounding f32 bit patterns to a layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BitRounding {
    /// Exponent field of the f32 that equals the smallest normal value of the layout.
    pub lowest: u32,
    /// Number of f32 fraction bits that a normal value of the layout lacks.
    pub dropped: u32,
    /// f32 bit pattern of the smallest subnormal value of the layout.
    pub smallest: u32,
    /// f32 bit pattern of the largest finite value of the layout.
    pub largest: u32,
}

const FRACTION: u32 = Format::F32.fraction_bits();
const HIDDEN: u32 = 1 << FRACTION;
const INFINITE: u32 = 0x7f80_0000;

impl BitRounding {
    /// Returns the constants of a layout.
    ///
    /// # Panics
    /// If the layout has more exponent or fraction bits than f32.
    pub fn of(layout: Layout) -> Self {
        let (exponent, fraction) = (layout.exponent_bits(), layout.fraction_bits());
        assert!(
            exponent <= Format::F32.exponent_bits() && fraction <= FRACTION,
            "layout {layout} has more bits than f32"
        );
        let bias = Format::F32.bias();
        Self {
            lowest: (1 - layout.bias() + bias) as u32,
            dropped: FRACTION - fraction,
            smallest: (layout.ulp(0.0) as f32).to_bits(),
            largest: (layout.max_finite() as f32).to_bits(),
        }
    }

    /// Returns the nearest value of the layout, ties to even. Infinities and NaN are unchanged.
    #[inline]
    pub fn round(self, x: f32) -> f32 {
        let bits = x.to_bits();
        let magnitude = bits & 0x7fff_ffff;
        let field = (magnitude >> FRACTION).max(1);
        // Below the smallest normal value, each halving of the magnitude drops one more fraction bit.
        let dropped = self.dropped + self.lowest.saturating_sub(field);
        let shift = dropped.min(FRACTION - 1);
        let half = (1u32 << shift) >> 1;
        let odd = (magnitude >> shift) & 1;
        let up = half.wrapping_sub(1).wrapping_add(odd) & 0u32.wrapping_sub(u32::from(shift > 0));
        let ordinary = magnitude.wrapping_add(up) & !((1u32 << shift) - 1);
        let rounded = if dropped < FRACTION {
            ordinary
        } else if dropped == FRACTION {
            // The only significand bit that is kept is the implicit leading 1. This significand is odd, so ties round up.
            (magnitude + HIDDEN / 2) & !(HIDDEN - 1)
        } else if dropped == FRACTION + 1 && magnitude & (HIDDEN - 1) != 0 {
            // More than half of the smallest subnormal value rounds up; exactly half rounds to zero.
            self.smallest
        } else {
            0
        };
        let rounded = if rounded > self.largest { INFINITE } else { rounded };
        let kept = if magnitude >= INFINITE { magnitude } else { rounded };
        f32::from_bits(bits & 0x8000_0000 | kept)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn agrees(x: f32, layout: Layout) -> Result<(), TestCaseError> {
        let (got, want) = (
            f64::from(BitRounding::of(layout).round(x)),
            layout.round(f64::from(x)),
        );
        prop_assert!(
            got.is_nan() && want.is_nan() || got.to_bits() == want.to_bits(),
            "{layout}: {x} is {got}, not {want}"
        );
        Ok(())
    }

    proptest! {
        #[test]
        fn bit_rounding_matches_layout_rounding(bits in any::<u32>(), e in 2u32..=8, m in 1u32..=23) {
            agrees(f32::from_bits(bits), Layout::new(e, m))?;
        }

        #[test]
        fn bit_rounding_matches_near_limits_and_ties(e in 2u32..=8, m in 1u32..=23, steps in 0u32..40, quarter in -3i32..=3) {
            let layout = Layout::new(e, m);
            for near in [0.0, layout.ulp(0.0), layout.ulp(0.0) * f64::from(1 << m.min(22)), layout.max_finite(), 1.0] {
                let spacing = layout.ulp(near);
                let x = near + spacing * (f64::from(steps) + f64::from(quarter) / 4.0);
                agrees(x as f32, layout)?;
                agrees(-x as f32, layout)?;
            }
        }
    }
}
