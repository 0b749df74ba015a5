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

/// Colours of lines without a fixed meaning: those of Okabe and Ito, which are distinct for readers with any colour vision
/// (jfly.uni-koeln.de/color), slightly darkened for contrast on white.
pub const SERIES: [Colour; 8] = [
    (0x00, 0x72, 0xB2),
    (0xD5, 0x5E, 0x00),
    (0x00, 0x9E, 0x73),
    (0xB0, 0x57, 0x8D),
    (0xBF, 0x83, 0x00),
    (0x3A, 0x9B, 0xD0),
    (0x6B, 0x72, 0x80),
    (0x94, 0x5C, 0x30),
];

/// Returns the colour of bars and lines by matmul precision: blue, green and grey as in the articles, and different in lightness.
pub const fn matmul(precision: MatmulPrecision) -> Colour {
    match precision {
        MatmulPrecision::Highest => (0x0F, 0x6D, 0xB4),
        MatmulPrecision::High => (0x0F, 0x85, 0x62),
        MatmulPrecision::Medium => GREY,
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

    /// Returns the colour that replaces a colour of a figure in dark mode.
    fn dark_mode_colour(colour: Colour) -> Colour {
        let css = include_str!("../../assets/page.css");
        let fill = format!(
            r##"[fill="#{:02X}{:02X}{:02X}"] {{ fill: var("##,
            colour.0, colour.1, colour.2
        );
        match css.split_once(&fill).and_then(|(_, rest)| rest.split_once(')')) {
            Some((name, _)) => page_colours(name)[1],
            None => colour,
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
            let both = [contrast(colour, light), contrast(dark_mode_colour(colour), dark)];
            assert!(
                both.iter().all(|ratio| *ratio >= MIN_SHAPE_CONTRAST),
                "{colour:02X?}: {both:.2?}"
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
