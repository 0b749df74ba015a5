//! Texts of a figure with the areas that they cover.

use ab_glyph::{Font, FontRef};

/// A text with its left, top, right and bottom, in logical pixels.
#[derive(Debug)]
pub struct PlacedText {
    pub text: String,
    pub area: [f64; 4],
}

/// Returns the width of a text in the font of the figures.
fn width(text: &str, size: f64, bold: bool) -> f64 {
    let file: &[u8] = match bold {
        true => include_bytes!("../../assets/fonts/Inter-SemiBold.otf"),
        false => include_bytes!("../../assets/fonts/Inter-Regular.otf"),
    };
    let font = FontRef::try_from_slice(file).unwrap();
    let advances = text.chars().map(|c| font.h_advance_unscaled(font.glyph_id(c)));
    f64::from(advances.sum::<f32>() / font.units_per_em().unwrap()) * size
}

/// Returns the texts of an SVG.
pub fn texts(svg: &str) -> Vec<PlacedText> {
    /// The view box has four units per logical pixel.
    const SCALE: f64 = 4.0;
    let lines: Vec<&str> = svg.lines().collect();
    let placed = lines.windows(2).filter(|pair| pair[0].starts_with("<text"));
    let placed = placed.map(|pair| {
        let attribute = |name: &str| {
            let (_, rest) = pair[0].split_once(&format!(" {name}=\"")).unwrap();
            rest.split_once('"').unwrap().0
        };
        let number = |name: &str| attribute(name).parse::<f64>().unwrap() / SCALE;
        let size = number("font-size");
        let (x, baseline) = (number("x"), number("y") + 0.76 * size);
        let mut text = pair[1].to_owned();
        for (entity, c) in [
            ("&lt;", "<"),
            ("&gt;", ">"),
            ("&quot;", "\""),
            ("&apos;", "'"),
            ("&amp;", "&"),
        ] {
            text = text.replace(entity, c);
        }
        let width = width(&text, size, pair[0].contains("font-weight"));
        let left = match attribute("text-anchor") {
            "start" => x,
            "middle" => x - width / 2.0,
            _ => x - width,
        };
        // Capitals of the font are 0.73 em high, and descenders less than 0.25 em deep.
        let area = [left, baseline - 0.73 * size, left + width, baseline + 0.25 * size];
        PlacedText { text, area }
    });
    placed.collect()
}

/// Asserts that every text of a figure is complete, on the sheet, and not covered by another one.
pub fn assert_readable(id: &str, svg: &str) {
    let (_, size) = svg.split_once("<svg width=\"").unwrap();
    let (sheet_width, rest) = size.split_once("\" height=\"").unwrap();
    let sheet_height: f64 = rest.split_once('"').unwrap().0.parse().unwrap();
    let sheet_width: f64 = sheet_width.parse().unwrap();
    let texts = texts(svg);
    assert!(!texts.is_empty(), "{id}");
    for (index, PlacedText { text, area }) in texts.iter().enumerate() {
        let [left, top, right, bottom] = *area;
        assert!(!text.ends_with('…'), "{id}: `{text}` is cut");
        let inside = left >= 0.0 && top >= 0.0 && right <= sheet_width && bottom <= sheet_height;
        assert!(inside, "{id}: `{text}` leaves the sheet: {area:.1?}");
        for other in &texts[..index] {
            // Rounding to quarters of a pixel and tight line heights are not collisions.
            let apart = left > other.area[2] - 1.0
                || right < other.area[0] + 1.0
                || top > other.area[3] - 1.0
                || bottom < other.area[1] + 1.0;
            assert!(
                apart,
                "{id}: `{text}` and `{}` overlap: {area:.1?} {:.1?}",
                other.text, other.area
            );
        }
    }
}
