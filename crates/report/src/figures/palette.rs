//! Colours. In dark mode, the page's style sheet matches the neutral colours by value and replaces them.

use mantissa_core::MatmulPrecision;

/// Red, green, blue.
pub type Colour = (u8, u8, u8);

/// Sheet below a figure.
pub const CARD: Colour = (0xFF, 0xFF, 0xFF);
/// Text.
pub const INK: Colour = (0x1B, 0x1F, 0x24);
/// Secondary text.
pub const MUTED: Colour = (0x5E, 0x66, 0x70);
/// De-emphasised marks (published, dominated, not different from the baseline) and outlines that carry information.
pub const GREY: Colour = (0x8A, 0x92, 0x9E);
/// Grid lines.
pub const FAINT: Colour = (0xDD, 0xE1, 0xE6);
/// Divergence and failure.
pub const ALARM: Colour = (0xC2, 0x41, 0x0C);
/// Background of throttled time spans and of out-of-range values.
pub const ALARM_WASH: Colour = (0xFB, 0xE3, 0xD6);
/// Text on dark bars. The value differs from [`CARD`], because dark mode must not replace it.
pub const ON_DARK: Colour = (0xFE, 0xFE, 0xFE);
/// Text on light bars. The value differs from [`INK`] for the same reason.
pub const ON_LIGHT: Colour = (0x11, 0x14, 0x18);

/// Colours of lines without a fixed meaning. They are distinct for readers with any colour vision. All of them have enough contrast with
/// a white and with a dark sheet, unlike those of Okabe and Ito (jfly.uni-koeln.de/color), which differ mainly in lightness.
pub const SERIES: [Colour; 8] = [
    (0x00, 0x72, 0xB2),
    (0xD5, 0x5E, 0x00),
    (0x45, 0xA4, 0x8A),
    (0xA8, 0x51, 0x7C),
    (0x9F, 0x82, 0x59),
    (0x39, 0x8E, 0xA3),
    (0x62, 0x78, 0xFF),
    (0x8F, 0x5A, 0x37),
];

/// Returns the colour of bars and lines by matmul precision: blue, green and orange. Grey is the colour of published
/// bars and of settings that are undecided, failed or dominated.
pub const fn matmul(precision: MatmulPrecision) -> Colour {
    match precision {
        MatmulPrecision::Highest => (0x0F, 0x6D, 0xB4),
        MatmulPrecision::High => (0x0F, 0x85, 0x62),
        MatmulPrecision::Medium => SERIES[1],
    }
}

/// Returns the readable text colour on a bar of this colour.
pub fn text_on(bar: Colour) -> Colour {
    if contrast(bar, ON_LIGHT) > contrast(bar, ON_DARK) {
        ON_LIGHT
    } else {
        ON_DARK
    }
}

/// Returns the contrast ratio of two colours, from 1 to 21, as defined by the Web Content Accessibility Guidelines 2.2.
fn contrast(a: Colour, b: Colour) -> f64 {
    let linear = |channel: u8| match f64::from(channel) / 255.0 {
        low if low <= 0.04045 => low / 12.92,
        high => ((high + 0.055) / 1.055).powf(2.4),
    };
    let luminance = |c: Colour| 0.2126 * linear(c.0) + 0.7152 * linear(c.1) + 0.0722 * linear(c.2);
    let (a, b) = (luminance(a) + 0.05, luminance(b) + 0.05);
    a.max(b) / a.min(b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::{
        colour_vision::smallest_distance,
        formats::{EXPONENT, FRACTION, SIGN},
    };

    /// Palette of Okabe and Ito, "Color Universal Design", 2008.
    const OKABE_ITO: [Colour; 8] = [
        (0x00, 0x00, 0x00),
        (0xE6, 0x9F, 0x00),
        (0x56, 0xB4, 0xE9),
        (0x00, 0x9E, 0x73),
        (0xF0, 0xE4, 0x42),
        (0x00, 0x72, 0xB2),
        (0xD5, 0x5E, 0x00),
        (0xCC, 0x79, 0xA7),
    ];

    /// Minimum contrast of shapes (success criterion 1.4.11) and of text (1.4.3) in the guidelines.
    const MIN_SHAPE_CONTRAST: f64 = 3.0;
    const MIN_TEXT_CONTRAST: f64 = 4.5;

    /// Returns a colour variable of the page in light and in dark mode.
    fn page_colours(name: &str) -> [Colour; 2] {
        let css = include_str!("../../assets/page.css");
        let (_, rest) = css.split_once(&format!("{name}: light-dark(")).unwrap();
        let (both, _) = rest.split_once(')').unwrap();
        let colours: Vec<Colour> = both.split(", ").map(parse).collect();
        colours.try_into().unwrap()
    }

    fn parse(hex: &str) -> Colour {
        let channel = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
        (channel(1), channel(3), channel(5))
    }

    /// Properties whose colours the page replaces in dark mode.
    const PAINTS: [&str; 2] = ["fill", "stroke"];

    /// Returns the colour that replaces a colour of a figure in dark mode.
    fn dark_mode_colour(colour: Colour, paint: &str) -> Colour {
        let css = include_str!("../../assets/page.css");
        let hex = format!("#{:02X}{:02X}{:02X}", colour.0, colour.1, colour.2);
        let rule = format!("[{paint}=\"{hex}\"] {{ {paint}: var(");
        match css.split_once(&rule).and_then(|(_, rest)| rest.split_once(')')) {
            Some((name, _)) => page_colours(name)[1],
            None => colour,
        }
    }

    #[test]
    fn colours_of_a_figure_differ_with_any_colour_vision() {
        // The palette that readers with any colour vision are known to tell apart sets the smallest distance: orange and yellow with
        // deuteranopia.
        let least = smallest_distance(&OKABE_ITO);
        assert!((least - 11.61).abs() < 0.01, "{least}");
        let matmuls = MatmulPrecision::ALL.iter().map(|one| matmul(*one));
        let matmuls: Vec<Colour> = matmuls.chain([GREY]).collect();
        for (colours, paints) in [
            (&SERIES[..], &PAINTS[..]),
            (&matmuls[..], &PAINTS[..]),
            // Faster, slower, and neither.
            (&[SERIES[0], SERIES[1], GREY][..], &PAINTS[..]),
            // Bits are filled.
            (&[SIGN, EXPONENT, FRACTION][..], &PAINTS[..1]),
        ] {
            let dark = |paint: &&str| -> Vec<Colour> {
                let dark = colours.iter().map(|one| dark_mode_colour(*one, paint));
                dark.collect()
            };
            for shown in paints.iter().map(dark).chain([colours.to_vec()]) {
                let distance = smallest_distance(&shown);
                assert!(distance >= least, "{shown:02X?}: {distance:.2}");
            }
        }
    }

    #[test]
    fn contrast_ranges_from_1_to_21() {
        assert!((contrast((0, 0, 0), (255, 255, 255)) - 21.0).abs() < 1e-9);
        assert!((contrast(GREY, GREY) - 1.0).abs() < 1e-9);
        // Example from the guidelines: #767676 is the lightest grey for text on white.
        assert!((contrast((0x76, 0x76, 0x76), CARD) - 4.54).abs() < 0.01);
    }

    #[test]
    fn chart_colours_have_contrast_in_light_and_dark_mode() {
        let [light, dark] = page_colours("--card");
        assert_eq!(light, CARD);
        let matmuls = MatmulPrecision::ALL.iter().map(|precision| matmul(*precision));
        for colour in matmuls.chain(SERIES).chain([GREY, MUTED, INK, ALARM]) {
            let dark = PAINTS.map(|paint| contrast(dark_mode_colour(colour, paint), dark));
            let ratios = [contrast(colour, light), dark[0], dark[1]];
            assert!(
                ratios.iter().all(|ratio| *ratio >= MIN_SHAPE_CONTRAST),
                "{colour:02X?}: {ratios:.2?}"
            );
        }
    }

    #[test]
    fn page_text_and_outlines_have_enough_contrast() {
        for (name, least) in [
            ("--edge", MIN_SHAPE_CONTRAST),
            ("--ink", MIN_TEXT_CONTRAST),
            ("--muted", MIN_TEXT_CONTRAST),
            ("--accent", MIN_TEXT_CONTRAST),
        ] {
            for ground in ["--page", "--card"] {
                let ratios =
                    [0, 1].map(|screen| contrast(page_colours(name)[screen], page_colours(ground)[screen]));
                assert!(
                    ratios.iter().all(|ratio| *ratio >= least),
                    "{name} on {ground}: {ratios:.2?}"
                );
            }
        }
        for precision in MatmulPrecision::ALL {
            let bar = matmul(*precision);
            assert!(contrast(bar, text_on(bar)) >= MIN_TEXT_CONTRAST, "{precision:?}");
        }
    }
}
