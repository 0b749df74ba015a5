//! Colours. The page's style sheet finds the neutral ones by their value and exchanges them in dark mode.

use mantissa_core::MatmulPrecision;

/// Red, green, blue.
pub type Colour = (u8, u8, u8);

/// The sheet that figures are drawn on.
pub const CARD: Colour = (0xFF, 0xFF, 0xFF);
/// Text.
pub const INK: Colour = (0x1B, 0x1F, 0x24);
/// Secondary text.
pub const MUTED: Colour = (0x5E, 0x66, 0x70);
/// Grid lines and outlines.
pub const FAINT: Colour = (0xDD, 0xE1, 0xE6);
/// Trouble: divergence and failure.
pub const ALARM: Colour = (0xC2, 0x41, 0x0C);
/// The ground behind a time of trouble.
pub const ALARM_WASH: Colour = (0xFB, 0xE3, 0xD6);
/// Text on dark bars; differs from [`CARD`] so that dark mode leaves it alone.
pub const ON_DARK: Colour = (0xFE, 0xFE, 0xFE);
/// Text on light bars; differs from [`INK`] for the same reason.
pub const ON_LIGHT: Colour = (0x11, 0x14, 0x18);

/// Lines that stand for anything: Okabe and Ito's colours, which readers with any colour vision tell apart
/// (jfly.uni-koeln.de/color), slightly darkened to read on white.
pub const SERIES: [Colour; 8] = [
    (0x00, 0x72, 0xB2),
    (0xD5, 0x5E, 0x00),
    (0x00, 0x9E, 0x73),
    (0xB0, 0x57, 0x8D),
    (0xC9, 0x8A, 0x00),
    (0x3A, 0x9B, 0xD0),
    (0x6B, 0x72, 0x80),
    (0x8C, 0x56, 0x2B),
];

/// Bars and lines by matmul precision: blue, green, grey as in the articles, apart in lightness as well.
pub const fn matmul(precision: MatmulPrecision) -> Colour {
    match precision {
        MatmulPrecision::Highest => (0x0B, 0x62, 0xA4),
        MatmulPrecision::High => (0x12, 0x96, 0x6E),
        MatmulPrecision::Medium => (0xB3, 0xBA, 0xC4),
    }
}

/// The text colour that reads on a bar of this colour.
pub fn on(bar: Colour) -> Colour {
    let luma = 0.299 * f64::from(bar.0) + 0.587 * f64::from(bar.1) + 0.114 * f64::from(bar.2);
    if luma > 150.0 { ON_LIGHT } else { ON_DARK }
}
