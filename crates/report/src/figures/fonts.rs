//! Text in figures in an embedded font, which looks the same on a machine without fonts.
//!
//! This module places the glyphs, because plotters drops the side bearing of every glyph and rounds every advance to whole pixels. Like
//! plotters, it rasterises the outlines with `ab_glyph`.

use std::sync::LazyLock;

use ab_glyph::{Font, FontRef, PxScale, ScaleFont, point};
use base64::prelude::{BASE64_STANDARD, Engine as _};

/// Weights of the embedded font.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weight {
    /// For nearly all text.
    Regular,
    /// For titles and emphasis.
    SemiBold,
}

const REGULAR_FILE: &[u8] = include_bytes!("../../assets/fonts/Inter-Regular.otf");
const SEMI_BOLD_FILE: &[u8] = include_bytes!("../../assets/fonts/Inter-SemiBold.otf");
static REGULAR: LazyLock<FontRef<'static>> = LazyLock::new(|| embedded(REGULAR_FILE));
static SEMI_BOLD: LazyLock<FontRef<'static>> = LazyLock::new(|| embedded(SEMI_BOLD_FILE));

fn embedded(bytes: &'static [u8]) -> FontRef<'static> {
    FontRef::try_from_slice(bytes).expect("the embedded font is a valid OpenType font")
}

/// Returns the CSS rules that embed the font. The layout uses the widths of texts in this font; in another font, neighbouring texts may overlap.
pub fn font_faces() -> String {
    let face = |weights: &str, file: &[u8]| {
        let data = BASE64_STANDARD.encode(file);
        format!(
            "@font-face {{ font-family: Figures; font-weight: {weights}; src: url(data:font/otf;base64,{data}); }}\n"
        )
    };
    face("100 500", REGULAR_FILE) + &face("600 900", SEMI_BOLD_FILE)
}

fn font(weight: Weight) -> &'static FontRef<'static> {
    match weight {
        Weight::Regular => &REGULAR,
        Weight::SemiBold => &SEMI_BOLD,
    }
}

/// Converts pixels per em to ab_glyph's scale, which counts from ascender to descender.
fn scale(font: &FontRef<'_>, size: f64) -> PxScale {
    let em = f64::from(font.units_per_em().unwrap_or(1000.0));
    PxScale::from((size * f64::from(font.height_unscaled()) / em) as f32)
}

/// Returns the width of a line of text at `size` pixels per em, in pixels.
pub fn width(text: &str, size: f64, weight: Weight) -> f64 {
    let font = font(weight);
    let scaled = font.as_scaled(scale(font, size));
    text.chars()
        .map(|c| f64::from(scaled.h_advance(scaled.glyph_id(c))))
        .sum()
}

/// Shortens a text that is wider than `max_width` pixels, with an ellipsis.
pub fn fit(text: &str, size: f64, weight: Weight, max_width: f64) -> String {
    if width(text, size, weight) <= max_width {
        return text.to_owned();
    }
    let mut kept = String::new();
    for c in text.chars() {
        kept.push(c);
        if width(&kept, size, weight) + width("…", size, weight) > max_width {
            kept.pop();
            break;
        }
    }
    format!("{}…", kept.trim_end())
}

/// Breaks a text between words into at most `max_lines` lines of `max_width` pixels. Lines that are still too wide end in an ellipsis.
pub fn wrap(text: &str, size: f64, weight: Weight, max_width: f64, max_lines: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let count = lines.len();
        let last = &mut lines[count - 1];
        let fits = count == max_lines || width(&format!("{last} {word}"), size, weight) <= max_width;
        if last.is_empty() {
            last.push_str(word);
        } else if fits {
            last.extend([" ", word]);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
        .iter()
        .map(|line| fit(line, size, weight, max_width))
        .collect()
}

/// Calls `paint(x, y, coverage)` for every pixel that the text touches. The baseline starts at the given point.
pub fn rasterise(
    text: &str,
    (x, y): (f64, f64),
    size: f64,
    weight: Weight,
    mut paint: impl FnMut(i32, i32, f64),
) {
    let font = font(weight);
    let scale = scale(font, size);
    let scaled = font.as_scaled(scale);
    let mut pen = x as f32;
    for c in text.chars() {
        let id = scaled.glyph_id(c);
        let glyph = id.with_scale_and_position(scale, point(pen, y as f32));
        pen += scaled.h_advance(id);
        if let Some(outline) = font.outline_glyph(glyph) {
            let corner = outline.px_bounds().min;
            outline.draw(|dx, dy, coverage| {
                paint(
                    corner.x as i32 + dx as i32,
                    corner.y as i32 + dy as i32,
                    f64::from(coverage).min(1.0),
                );
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_weights_have_every_character_that_the_figures_use() {
        for weight in [Weight::Regular, Weight::SemiBold] {
            for c in "AZaz09 –—…×·µ±≥≤−⁻⁰¹²³⁴⁵⁶⁷⁸⁹%()/.,:;üéß".chars() {
                assert_ne!(font(weight).glyph_id(c).0, 0, "{c}");
            }
        }
    }

    #[test]
    fn digits_have_equal_widths() {
        let one = width("1", 100.0, Weight::Regular);
        assert!(
            "023456789"
                .chars()
                .all(|c| (width(&c.to_string(), 100.0, Weight::Regular) - one).abs() < 1e-3)
        );
    }

    #[test]
    fn a_text_that_fits_is_unchanged_and_a_longer_one_is_shortened() {
        assert_eq!(fit("highest", 12.0, Weight::Regular, 100.0), "highest");
        let cut = fit(&"wide ".repeat(30), 12.0, Weight::Regular, 100.0);
        assert!(cut.ends_with('…') && width(&cut, 12.0, Weight::Regular) <= 100.0);
    }

    #[test]
    fn long_text_is_wrapped_between_words_and_shortened() {
        let wrapped = |text: &str| wrap(text, 12.0, Weight::Regular, 100.0, 2);
        assert_eq!(wrapped("highest"), ["highest"]);
        assert_eq!(
            wrapped("as fast as the baseline").join(" "),
            "as fast as the baseline"
        );
        assert_eq!(wrapped("as fast as the baseline").len(), 2);
        let cut = wrapped(&"wide ".repeat(30));
        assert!(cut.len() == 2 && !cut[0].ends_with('…') && cut[1].ends_with('…'));
        assert!(wrapped(&"w".repeat(99))[0].ends_with('…') && wrapped("") == [""]);
    }

    #[test]
    fn text_is_drawn_above_the_baseline() {
        let mut ink = 0.0;
        rasterise("H", (2.0, 20.0), 20.0, Weight::Regular, |_, y, coverage| {
            assert!(y < 21, "an H has no pixels below the baseline");
            ink += coverage;
        });
        assert!(ink > 20.0, "{ink}");
    }
}
