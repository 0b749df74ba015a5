//! The pictures, one module each. A figure is drawn once onto a [`Canvas`] and comes out as SVG and as PNG.

mod accumulation;
mod article;
mod axis;
mod canvas;
mod formats;
mod kernel;
mod loss;
mod memory;
mod palette;
mod pixels;
mod type_setting;

pub use canvas::Canvas;
pub(crate) use type_setting::font_faces;

use crate::Report;

/// A drawn figure.
#[derive(Debug, Clone)]
pub struct Figure {
    /// File name without its ending.
    pub id: String,
    /// The suite it belongs to; none for the format figure.
    pub suite: Option<String>,
    /// What it shows, for captions and for readers who cannot see it.
    pub caption: String,
    /// The drawing.
    pub canvas: Canvas,
}

/// Every figure of a report, in the order of its pages. A figure without anything to show is left out.
pub fn figures(report: &Report<'_>) -> Vec<Figure> {
    let mut figures = Vec::new();
    for suite in &report.suites {
        for group in &suite.groups {
            let several = suite.groups.len() > 1;
            let drawn = [
                ("times", article::draw(suite, group)),
                ("accumulation", accumulation::draw(suite, group)),
                ("memory", memory::draw(suite, group)),
                ("loss", loss::draw(report.run, suite, group)),
                ("kernel", kernel::draw(suite, group)),
            ];
            for (kind, drawing) in drawn {
                let Some((canvas, caption)) = drawing else {
                    continue;
                };
                let name = if several {
                    format!("{}-{}", suite.info.name, group.workload)
                } else {
                    suite.info.name.clone()
                };
                let id = file_name(&format!("{name}-{kind}"), figures.len());
                figures.push(Figure {
                    id,
                    suite: Some(suite.info.name.clone()),
                    caption,
                    canvas,
                });
            }
        }
    }
    let (canvas, caption) = formats::draw();
    figures.push(Figure {
        id: "formats".to_owned(),
        suite: None,
        caption,
        canvas,
    });
    figures
}

/// A name that is safe as a file name everywhere; `index` keeps it unique if something had to be replaced.
fn file_name(name: &str, index: usize) -> String {
    let safe: String = name
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || c == '-' {
                c
            } else {
                '-'
            }
        })
        .take(80)
        .collect();
    if safe == name {
        safe
    } else {
        format!("{safe}-{index}")
    }
}

/// `showing 40 of 1,000`, if something was left out.
fn shown_of(shown: usize, all: usize) -> Option<String> {
    (shown < all).then(|| format!("showing {shown} of {}", crate::units::count(all as u64)))
}
