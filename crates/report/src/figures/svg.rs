//! Export of a canvas as SVG text through plotters' backend.

use plotters::{
    backend::SVGBackend,
    prelude::DrawingBackend,
    style::{
        FontStyle, IntoFont, RGBColor,
        text_anchor::{HPos, Pos, VPos},
    },
};

use super::{
    canvas::{Anchor, Canvas, Shape},
    fonts::Weight,
    pixels::{Grid, draw_shape},
};

/// SVG steps per logical pixel. plotters draws on whole pixels, which are too coarse for smooth curves.
const SVG_STEPS: f64 = 4.0;
/// End of plotters' documents.
const END: &str = "</svg>\n";

impl Canvas {
    /// Renders the drawing as a self-contained SVG document in a generic sans-serif font. Marks have their values as hover texts.
    pub fn svg(&self) -> Result<String, String> {
        let head = self.document(&[])?;
        let elements = |shapes: &[Shape]| Ok::<_, String>(self.document(shapes)?.split_off(head.len()));
        let (width, height) = self.size(SVG_STEPS);
        let (shown_width, shown_height) = self.size(1.0);
        let mut text = head.replacen(
            &format!("width=\"{width}\" height=\"{height}\""),
            &format!("width=\"{shown_width}\" height=\"{shown_height}\""),
            1,
        );
        let mut drawn = 0;
        for (shapes, datum) in self.marks.iter().filter(|(shapes, _)| !shapes.is_empty()) {
            text += &elements(&self.shapes[drawn..shapes.start])?;
            let title = escape(&datum.hover_text());
            text += &format!(
                "<g><title>{title}</title>\n{}</g>\n",
                elements(&self.shapes[shapes.clone()])?
            );
            drawn = shapes.end;
        }
        Ok(text + &elements(&self.shapes[drawn..])? + END)
    }

    /// Renders shapes as an SVG document without its [`END`], at [`SVG_STEPS`] steps per logical pixel.
    fn document(&self, shapes: &[Shape]) -> Result<String, String> {
        let mut text = String::new();
        {
            let mut backend = SVGBackend::with_string(&mut text, self.size(SVG_STEPS));
            let grid = Grid {
                scale: SVG_STEPS,
                top: 0,
                is_bitmap: false,
            };
            for shape in shapes {
                draw_shape(&mut backend, shape, grid, svg_text)?;
            }
            backend.present().map_err(|error| error.to_string())?;
        }
        text.truncate(text.len() - END.len());
        Ok(text)
    }

    /// Returns the size of the sheet in steps.
    fn size(&self, steps: f64) -> (u32, u32) {
        let size = |logical: f64| (logical * steps).round() as u32;
        (size(self.width), size(self.height))
    }
}

/// Escapes a text for the content of an SVG element. A line break is replaced by a space.
fn escape(text: &str) -> String {
    let text = text
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;");
    text.replace(['\n', '\r'], " ")
}

/// Draws text as a `<text>` element. plotters puts the baseline of top-anchored text 0.76 em below its anchor, and writes its size
/// divided by 1.24.
fn svg_text(backend: &mut SVGBackend<'_>, shape: &Shape, grid: Grid) -> Result<(), String> {
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
    let font = ("sans-serif", style.size * grid.scale * 1.24)
        .into_font()
        .style(weight);
    let color = RGBColor(style.colour.0, style.colour.1, style.colour.2);
    let set = font.color(&color).pos(Pos::new(horizontal, VPos::Top));
    let anchor = grid.at((*x, y - 0.76 * style.size));
    backend
        .draw_text(text, &set, anchor)
        .map_err(|error| error.to_string())
}
