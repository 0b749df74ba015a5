//! Export of a canvas as PNG bytes, and the drawing of shapes on plotters' backends.

use plotters::{
    backend::BitMapBackend,
    prelude::DrawingBackend,
    style::{Color, RGBColor, ShapeStyle},
};

use super::{
    canvas::{Anchor, Canvas, Shape},
    fonts,
    palette::{CARD, Colour},
};

/// Pixels of a PNG per logical pixel, for dense screens and print.
const PNG_SCALE: usize = 2;
/// Samples per PNG pixel and axis, because plotters does not antialias polygons.
const OVERSAMPLING: usize = 2;
/// Number of PNG rows sampled at a time. Sampling all rows of a tall figure at once would dominate the peak memory of a report.
const BAND_ROWS: usize = 128;

/// Mapping from logical pixels to the samples of a backend.
#[derive(Clone, Copy)]
pub(super) struct Grid {
    /// Samples per logical pixel.
    pub scale: f64,
    /// Row of samples at the top of the backend.
    pub top: i32,
    /// `true` for bitmaps: colours are blended with the sheet in advance, and thick lines are drawn as filled shapes.
    pub is_bitmap: bool,
}

impl Grid {
    pub fn at(self, (x, y): (f64, f64)) -> (i32, i32) {
        (
            (x * self.scale).round() as i32,
            (y * self.scale).round() as i32 - self.top,
        )
    }
}

impl Canvas {
    /// Renders the drawing as a PNG at twice its logical size.
    pub fn png(&self) -> Result<Vec<u8>, String> {
        self.png_by(BAND_ROWS)
    }

    /// Renders the drawing as a PNG, sampling `band` rows at a time.
    fn png_by(&self, band: usize) -> Result<Vec<u8>, String> {
        let (width, height) = (
            self.width as usize * PNG_SCALE,
            self.height.ceil() as usize * PNG_SCALE,
        );
        let mut pixels = vec![0; width * height * 3];
        let mut fine = vec![];
        for (index, rows) in pixels.chunks_mut(band * width * 3).enumerate() {
            fine.clear();
            fine.resize(rows.len() * OVERSAMPLING * OVERSAMPLING, 0xFF);
            self.sample(&mut fine, width * OVERSAMPLING, index * band * OVERSAMPLING)?;
            average(&fine, rows, width);
        }
        drop(fine);
        encode(&pixels, width, height)
    }

    /// Draws rows of samples into `fine`: as many as fit, beginning with row `top`.
    fn sample(&self, fine: &mut [u8], width: usize, top: usize) -> Result<(), String> {
        let height = fine.len() / 3 / width;
        let grid = Grid {
            scale: (PNG_SCALE * OVERSAMPLING) as f64,
            top: top as i32,
            is_bitmap: true,
        };
        let (from, to) = (top as f64 / grid.scale, (top + height) as f64 / grid.scale);
        let mut backend = BitMapBackend::with_buffer(fine, (width as u32, height as u32));
        for shape in &self.shapes {
            let (first, last) = vertical_extent(shape);
            if first < to && last > from {
                draw_shape(&mut backend, shape, grid, bitmap_text)?;
            }
        }
        backend.present().map_err(|error| error.to_string())
    }
}

/// Returns an upper bound of the vertical extent of a shape, in logical pixels.
fn vertical_extent(shape: &Shape) -> (f64, f64) {
    /// Maximum error of rounding to whole samples.
    const ROUNDING: f64 = 2.0;
    let extent = |points: &[(f64, f64)], more: f64| {
        let ys = points.iter().map(|point| point.1);
        ys.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), y| {
            (low.min(y - more - ROUNDING), high.max(y + more + ROUNDING))
        })
    };
    match shape {
        Shape::Rectangle { from, to, .. } => extent(&[*from, *to], 0.0),
        Shape::Outline { from, to, .. } => extent(&[*from, *to], 1.0),
        Shape::Line {
            points, thickness, ..
        } => extent(points, *thickness),
        Shape::Polygon { points, .. } => extent(points, 0.0),
        Shape::Disc { centre, radius, .. } => extent(&[*centre], *radius),
        // Glyphs extend beyond their line by less than twice the font size.
        Shape::Text { baseline, style, .. } => extent(&[*baseline], 2.0 * style.size),
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

/// Draws one shape.
pub(super) fn draw_shape<B: DrawingBackend>(
    backend: &mut B,
    shape: &Shape,
    grid: Grid,
    draw_text: fn(&mut B, &Shape, Grid) -> Result<(), String>,
) -> Result<(), String> {
    let Grid { scale, is_bitmap, .. } = grid;
    let at = |point: (f64, f64)| grid.at(point);
    let inside = |(x, y): (f64, f64), (x0, y0): (i32, i32)| {
        // plotters includes the far edge of a filled rectangle in a bitmap and excludes it in SVG.
        let (x1, y1) = at((x, y));
        if is_bitmap {
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
            return draw_line(backend, &corners, grid, style(*colour, 1.0, scale));
        }
        Shape::Line {
            points,
            thickness,
            colour,
            opacity,
        } => {
            let pen = if is_bitmap {
                style(blend(*colour, *opacity), 1.0, thickness * scale)
            } else {
                style(*colour, *opacity, thickness * scale)
            };
            return draw_line(backend, points, grid, pen);
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
        Shape::Text { .. } => return draw_text(backend, shape, grid),
    };
    drawn.map_err(|error| error.to_string())
}

/// Draws a line: a path in SVG; in a bitmap, one filled strip per segment with a disc at every joint, because plotters' thick lines
/// break at sharp corners.
fn draw_line<B: DrawingBackend>(
    backend: &mut B,
    points: &[(f64, f64)],
    grid: Grid,
    pen: ShapeStyle,
) -> Result<(), String> {
    let Grid { scale, is_bitmap, .. } = grid;
    let at = |point: (f64, f64)| grid.at(point);
    if !is_bitmap {
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

/// Blends a colour with the sheet at an opacity.
fn blend(colour: Colour, opacity: f64) -> Colour {
    let mix = |c: u8, sheet: u8| (f64::from(c) * opacity + f64::from(sheet) * (1.0 - opacity)).round() as u8;
    (
        mix(colour.0, CARD.0),
        mix(colour.1, CARD.1),
        mix(colour.2, CARD.2),
    )
}

/// Draws text as pixels of the embedded font.
fn bitmap_text(backend: &mut BitMapBackend<'_>, shape: &Shape, grid: Grid) -> Result<(), String> {
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
    fonts::rasterise(
        text,
        (left * grid.scale, y * grid.scale),
        style.size * grid.scale,
        style.weight,
        |x, y, coverage| {
            let y = y - grid.top;
            let inside = x >= 0 && y >= 0 && (x as u32) < right && (y as u32) < bottom;
            if inside && let Err(error) = backend.draw_pixel((x, y), color.mix(coverage).to_backend_color()) {
                failure = Some(error.to_string());
            }
        },
    );
    failure.map_or(Ok(()), Err)
}

/// Averages every block of samples into one pixel.
fn average(fine: &[u8], pixels: &mut [u8], width: usize) {
    const SAMPLES: usize = OVERSAMPLING * OVERSAMPLING;
    let fine_row = width * OVERSAMPLING * 3;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::{canvas::TextStyle, palette::SERIES};

    #[test]
    fn png_does_not_depend_on_the_band_height() {
        let mut canvas = Canvas::titled(330.0, "Every shape crosses a band", "subtitle");
        for step in 0..40 {
            let (x, y) = (20.0 + 22.3 * f64::from(step), 70.0 + 6.1 * f64::from(step));
            let colour = SERIES[step as usize % SERIES.len()];
            canvas.rectangle((x, y), (x + 9.0, y + 31.0), colour);
            canvas.outline((x + 2.0, y + 3.0), (x + 30.0, y + 20.0), colour);
            canvas.line(
                vec![(x, y), (x + 70.0, y - 33.3), (x + 80.0, y + 41.0)],
                2.5,
                colour,
            );
            canvas.faint_line(vec![(x, y), (x + 171.0, y + 7.7)], 1.0, colour, 0.22);
            canvas.disc((x + 40.0, y), 4.5, colour);
            canvas.band(
                vec![(x, y), (x + 33.0, y + 9.1)],
                vec![(x, y + 30.0), (x + 33.0, y + 50.7)],
                colour,
                0.22,
            );
            canvas.text((x, y + 11.0), "Åg√j 4.06×", TextStyle::new(12.5));
        }
        let whole = canvas.png_by(10_000).unwrap();
        for band in [BAND_ROWS, 7, 61] {
            assert!(canvas.png_by(band).unwrap() == whole, "{band} rows at a time");
        }
    }
}
