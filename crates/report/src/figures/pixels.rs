//! A canvas as SVG text and as PNG bytes, both through plotters' backends.

use plotters::{
    backend::{BitMapBackend, SVGBackend},
    prelude::DrawingBackend,
    style::{
        Color, FontStyle, IntoFont, RGBColor, ShapeStyle,
        text_anchor::{HPos, Pos, VPos},
    },
};

use super::{
    canvas::{Anchor, Canvas, Shape},
    palette::{CARD, Colour},
    type_setting::{self, Weight},
};

/// plotters draws on whole pixels: SVG gets four to a logical one, so that curves stay smooth.
const SVG_STEPS: f64 = 4.0;
/// Pixels of a PNG to a logical one, for dense screens and print.
const PNG_SCALE: usize = 2;
/// Samples along each edge of a PNG's pixel: plotters' polygons have no soft edges of their own.
const OVERSAMPLING: usize = 2;

impl Canvas {
    /// The drawing as a self-contained SVG document in a generic sans-serif font.
    pub fn svg(&self) -> Result<String, String> {
        let size = |logical: f64, steps: f64| (logical * steps).round() as u32;
        let (width, height) = (size(self.width, SVG_STEPS), size(self.height, SVG_STEPS));
        let mut text = String::new();
        {
            let mut backend = SVGBackend::with_string(&mut text, (width, height));
            for shape in &self.shapes {
                paint(&mut backend, shape, SVG_STEPS, false, svg_text)?;
            }
            backend.present().map_err(|error| error.to_string())?;
        }
        let shown = format!(
            "width=\"{}\" height=\"{}\"",
            size(self.width, 1.0),
            size(self.height, 1.0)
        );
        Ok(text.replacen(&format!("width=\"{width}\" height=\"{height}\""), &shown, 1))
    }

    /// The drawing as a PNG at twice its logical size.
    pub fn png(&self) -> Result<Vec<u8>, String> {
        let (width, height) = (
            self.width as usize * PNG_SCALE,
            self.height.ceil() as usize * PNG_SCALE,
        );
        let (fine_width, fine_height) = (width * OVERSAMPLING, height * OVERSAMPLING);
        let mut fine = vec![0xFF; fine_width * fine_height * 3];
        {
            let size = (fine_width as u32, fine_height as u32);
            let mut backend = BitMapBackend::with_buffer(&mut fine, size);
            for shape in &self.shapes {
                paint(
                    &mut backend,
                    shape,
                    (PNG_SCALE * OVERSAMPLING) as f64,
                    true,
                    bitmap_text,
                )?;
            }
            backend.present().map_err(|error| error.to_string())?;
        }
        encode(&average(&fine, width, height), width, height)
    }
}

fn style(colour: Colour, opacity: f64, thickness: f64) -> ShapeStyle {
    let color = RGBColor(colour.0, colour.1, colour.2).mix(opacity);
    ShapeStyle {
        color,
        filled: true,
        stroke_width: thickness.round().max(1.0) as u32,
    }
}

/// Draws one shape. `flat` backends get colours blended with the sheet in advance, and thick lines as filled shapes.
fn paint<B: DrawingBackend>(
    backend: &mut B,
    shape: &Shape,
    scale: f64,
    flat: bool,
    draw_text: fn(&mut B, &Shape, f64) -> Result<(), String>,
) -> Result<(), String> {
    let at = |(x, y): (f64, f64)| ((x * scale).round() as i32, (y * scale).round() as i32);
    let inside = |(x, y): (f64, f64), (x0, y0): (i32, i32)| {
        // plotters includes the far edge of a filled rectangle in a bitmap and excludes it in SVG.
        let (x1, y1) = at((x, y));
        if flat {
            ((x1 - 1).max(x0), (y1 - 1).max(y0))
        } else {
            (x1, y1)
        }
    };
    let drawn = match shape {
        Shape::Rectangle { from, to, colour } => {
            backend.draw_rect(at(*from), inside(*to, at(*from)), &style(*colour, 1.0, 1.0), true)
        }
        Shape::Outline { from, to, colour } => {
            let corners = [*from, (to.0, from.1), *to, (from.0, to.1), *from];
            return paint_line(backend, &corners, (scale, flat), style(*colour, 1.0, scale));
        }
        Shape::Line {
            points,
            thickness,
            colour,
            opacity,
        } => {
            let pen = if flat {
                style(blend(*colour, *opacity), 1.0, thickness * scale)
            } else {
                style(*colour, *opacity, thickness * scale)
            };
            return paint_line(backend, points, (scale, flat), pen);
        }
        Shape::Polygon {
            points,
            colour,
            opacity,
        } => backend.fill_polygon(points.iter().copied().map(at), &style(*colour, *opacity, 1.0)),
        Shape::Disc {
            centre,
            radius,
            colour,
        } => {
            let radius = (radius * scale).round().max(1.0) as u32;
            backend.draw_circle(at(*centre), radius, &style(*colour, 1.0, 1.0), true)
        }
        Shape::Text { .. } => return draw_text(backend, shape, scale),
    };
    drawn.map_err(|error| error.to_string())
}

/// A line: a path in SVG; in a bitmap a filled strip a segment with a disc at every joint, because plotters' own
/// thick lines come apart at sharp corners.
fn paint_line<B: DrawingBackend>(
    backend: &mut B,
    points: &[(f64, f64)],
    (scale, flat): (f64, bool),
    pen: ShapeStyle,
) -> Result<(), String> {
    let at = |(x, y): (f64, f64)| ((x * scale).round() as i32, (y * scale).round() as i32);
    if !flat {
        return backend
            .draw_path(points.iter().copied().map(at), &pen)
            .map_err(|error| error.to_string());
    }
    let half = f64::from(pen.stroke_width) / 2.0 / scale;
    for pair in points.windows(2) {
        let ((x0, y0), (x1, y1)) = (pair[0], pair[1]);
        let length = (x1 - x0).hypot(y1 - y0);
        if length == 0.0 {
            continue;
        }
        let (dx, dy) = (-(y1 - y0) / length * half, (x1 - x0) / length * half);
        let strip = [
            (x0 + dx, y0 + dy),
            (x1 + dx, y1 + dy),
            (x1 - dx, y1 - dy),
            (x0 - dx, y0 - dy),
        ];
        backend
            .fill_polygon(strip.map(at), &pen)
            .map_err(|error| error.to_string())?;
    }
    if points.len() > 2 && half * scale >= 2.0 {
        for joint in &points[1..points.len() - 1] {
            let radius = (half * scale).floor() as u32;
            backend
                .draw_circle(at(*joint), radius, &pen, true)
                .map_err(|error| error.to_string())?;
        }
    }
    Ok(())
}

/// A colour at some opacity over the sheet.
fn blend(colour: Colour, opacity: f64) -> Colour {
    let mix = |c: u8, sheet: u8| (f64::from(c) * opacity + f64::from(sheet) * (1.0 - opacity)).round() as u8;
    (
        mix(colour.0, CARD.0),
        mix(colour.1, CARD.1),
        mix(colour.2, CARD.2),
    )
}

/// Text as a `<text>` element. plotters puts the baseline of top-anchored text 0.76 em below its anchor, and writes
/// its size over 1.24.
fn svg_text(backend: &mut SVGBackend<'_>, shape: &Shape, scale: f64) -> Result<(), String> {
    let Shape::Text {
        baseline: (x, y),
        text,
        style,
    } = shape
    else {
        return Ok(());
    };
    let weight = match style.weight {
        Weight::Regular => FontStyle::Normal,
        Weight::SemiBold => FontStyle::Bold,
    };
    let horizontal = match style.anchor {
        Anchor::Start => HPos::Left,
        Anchor::Middle => HPos::Center,
        Anchor::End => HPos::Right,
    };
    let font = ("sans-serif", style.size * scale * 1.24)
        .into_font()
        .style(weight);
    let color = RGBColor(style.colour.0, style.colour.1, style.colour.2);
    let set = font.color(&color).pos(Pos::new(horizontal, VPos::Top));
    let anchor = (
        (x * scale).round() as i32,
        ((y - 0.76 * style.size) * scale).round() as i32,
    );
    backend
        .draw_text(text, &set, anchor)
        .map_err(|error| error.to_string())
}

/// Text as pixels of the embedded font.
fn bitmap_text(backend: &mut BitMapBackend<'_>, shape: &Shape, scale: f64) -> Result<(), String> {
    let Shape::Text {
        baseline: (x, y),
        text,
        style,
    } = shape
    else {
        return Ok(());
    };
    let width = style.width(text);
    let left = match style.anchor {
        Anchor::Start => *x,
        Anchor::Middle => x - width / 2.0,
        Anchor::End => x - width,
    };
    let color = RGBColor(style.colour.0, style.colour.1, style.colour.2);
    let (right, bottom) = backend.get_size();
    let mut failure = None;
    type_setting::rasterise(
        text,
        (left * scale, y * scale),
        style.size * scale,
        style.weight,
        |x, y, coverage| {
            let inside = x >= 0 && y >= 0 && (x as u32) < right && (y as u32) < bottom;
            if inside && let Err(error) = backend.draw_pixel((x, y), color.mix(coverage).to_backend_color()) {
                failure = Some(error.to_string());
            }
        },
    );
    failure.map_or(Ok(()), Err)
}

/// Averages every block of samples into one pixel.
fn average(fine: &[u8], width: usize, height: usize) -> Vec<u8> {
    const SAMPLES: usize = OVERSAMPLING * OVERSAMPLING;
    let fine_row = width * OVERSAMPLING * 3;
    let mut pixels = vec![0; width * height * 3];
    for (y, row) in pixels.chunks_exact_mut(width * 3).enumerate() {
        for (index, channel) in row.iter_mut().enumerate() {
            let (x, c) = (index / 3, index % 3);
            let mut sum = SAMPLES / 2;
            for sample in 0..SAMPLES {
                let (sx, sy) = (
                    x * OVERSAMPLING + sample % OVERSAMPLING,
                    y * OVERSAMPLING + sample / OVERSAMPLING,
                );
                sum += usize::from(fine[sy * fine_row + sx * 3 + c]);
            }
            *channel = (sum / SAMPLES) as u8;
        }
    }
    pixels
}

fn encode(pixels: &[u8], width: usize, height: usize) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width as u32, height as u32);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_compression(png::Compression::Fast);
    encoder.set_filter(png::FilterType::Up);
    let mut writer = encoder.write_header().map_err(|error| error.to_string())?;
    writer
        .write_image_data(pixels)
        .map_err(|error| error.to_string())?;
    writer.finish().map_err(|error| error.to_string())?;
    Ok(bytes)
}
