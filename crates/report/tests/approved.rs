//! Comparison of rendered figures with approved pictures.
//!
//! After an intended change, `MANTISSA_APPROVE=1 cargo test -p mantissa-report approved` writes the pictures anew. Look at each of them before
//! committing it.

use std::{collections::BTreeMap, env, fs, path::Path};

use crate::comparisons::{empty_run, figure_and_svg};
use crate::histograms::add_ulp_distances;
use crate::readable::long_labels;
use crate::reductions::run_with_reductions;
use crate::scaling::run_with_several_devices;
use crate::staleness::run_with_staleness;
use crate::support::invented;
use crate::traces::run_with_traces;
use mantissa_core::Axis;

/// Edge of the squares of PNG pixels that are averaged into one pixel of an approved picture, to keep the files small.
const REDUCTION: usize = 4;
/// Maximum difference of a channel. A square has eight samples per edge (four pixels of two samples each). A different rounding of a
/// coordinate moves an edge by one sample, which changes a channel by an eighth of its range.
const MAX_DIFFERENCE: u8 = 32;
/// Difference of a channel from which on a pixel counts as changed.
const CHANGED: u8 = 8;
/// Maximum number of changed pixels per thousand. A missing grid line of a panel changes more.
const MAX_CHANGED_PER_THOUSAND: usize = 1;

/// Red, green and blue of each pixel, row by row.
struct Picture {
    width: usize,
    pixels: Vec<[u8; 3]>,
}

impl Picture {
    fn decode(bytes: &[u8]) -> Self {
        let mut reader = png::Decoder::new(bytes).read_info().unwrap();
        let mut buffer = vec![0; reader.output_buffer_size()];
        let width = reader.next_frame(&mut buffer).unwrap().width as usize;
        Self {
            width,
            pixels: buffer
                .chunks_exact(3)
                .map(|pixel| [pixel[0], pixel[1], pixel[2]])
                .collect(),
        }
    }

    /// Averages squares of pixels. Incomplete squares at the edges are dropped.
    fn reduced(&self) -> Self {
        let (width, height) = (self.width / REDUCTION, self.pixels.len() / self.width / REDUCTION);
        let average = |x: usize, y: usize, channel: usize| {
            let square = (0..REDUCTION * REDUCTION).map(|at| {
                let (x, y) = (x * REDUCTION + at % REDUCTION, y * REDUCTION + at / REDUCTION);
                usize::from(self.pixels[y * self.width + x][channel])
            });
            (square.sum::<usize>() / (REDUCTION * REDUCTION)) as u8
        };
        let places = (0..height).flat_map(|y| (0..width).map(move |x| (x, y)));
        Self {
            width,
            pixels: places
                .map(|(x, y)| [0, 1, 2].map(|channel| average(x, y, channel)))
                .collect(),
        }
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let height = self.pixels.len() / self.width;
        let mut encoder = png::Encoder::new(&mut bytes, self.width as u32, height as u32);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_compression(png::Compression::Best);
        let mut writer = encoder.write_header().unwrap();
        writer.write_image_data(self.pixels.as_flattened()).unwrap();
        writer.finish().unwrap();
        bytes
    }

    /// Describes the difference from an approved picture; `None` if it is within the tolerances.
    fn difference(&self, approved: &Self) -> Option<String> {
        let size = |picture: &Self| (picture.width, picture.pixels.len() / picture.width);
        if size(self) != size(approved) {
            return Some(format!(
                "the size is {:?} instead of {:?}",
                size(self),
                size(approved)
            ));
        }
        let pairs = self.pixels.iter().zip(&approved.pixels);
        let differences = pairs.map(|(a, b)| (0..3).map(|at| a[at].abs_diff(b[at])).max().unwrap());
        let differences: Vec<u8> = differences.collect();
        let count = |least: u8| {
            differences
                .iter()
                .filter(|difference| **difference > least)
                .count()
        };
        let (changed, strongly) = (count(CHANGED), count(MAX_DIFFERENCE));
        let is_within = strongly == 0 && 1_000 * changed <= MAX_CHANGED_PER_THOUSAND * differences.len();
        (!is_within)
            .then(|| format!("{changed} pixels differ, {strongly} of them by more than {MAX_DIFFERENCE}"))
    }
}

/// Renders the figures that have an approved picture, as PNG by name.
fn rendered() -> BTreeMap<String, Vec<u8>> {
    let mut ulps = empty_run(&[Axis::Precision]);
    add_ulp_distances(&mut ulps, "32-true", &[900.0, 80.0, 0.0, 20.0]);
    add_ulp_distances(&mut ulps, "16-true", &[1.0]);
    let reductions =
        run_with_reductions(
            |algorithm, format, devices, error| match (algorithm, format, devices) {
                ("ring", "f32", 2) => 0.0,
                _ => error,
            },
        );
    let runs = [
        (
            "invented",
            invented(),
            &[
                "article-times",
                "article-pareto",
                "article-memory",
                "article-loss",
                "kernels-kernel",
            ][..],
        ),
        ("observed", run_with_traces(), &["s-trace", "s-samples"][..]),
        ("long-labels", long_labels(), &["s-speed"][..]),
        ("distances", ulps, &["s-ulps"][..]),
        ("devices", run_with_several_devices(), &["s-devices"][..]),
        ("reductions", reductions, &["s-gradient-error"][..]),
        ("stale", run_with_staleness(), &["s-staleness"][..]),
    ];
    let mut pictures = BTreeMap::new();
    for (name, run, ids) in &runs {
        for id in *ids {
            let (figure, _) = figure_and_svg(run, id).unwrap();
            pictures.insert(format!("{name}-{id}"), figure.canvas.png().unwrap());
        }
    }
    pictures
}

#[test]
fn figures_look_like_their_approved_pictures() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/approved");
    let mut failures = vec![];
    for (name, png) in rendered() {
        let picture = Picture::decode(&png).reduced();
        let path = folder.join(format!("{name}.png"));
        if env::var_os("MANTISSA_APPROVE").is_some() {
            fs::create_dir_all(&folder).unwrap();
            fs::write(&path, picture.encode()).unwrap();
            continue;
        }
        let approved = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        if let Some(difference) = picture.difference(&Picture::decode(&approved)) {
            let actual = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.png"));
            fs::write(&actual, picture.encode()).unwrap();
            failures.push(format!("{name}: {difference}; see {}", actual.display()));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn a_picture_that_moves_by_a_pixel_or_loses_a_line_is_not_accepted() {
    let (figure, _) = figure_and_svg(&invented(), "article-times").unwrap();
    let picture = Picture::decode(&figure.canvas.png().unwrap());
    let approved = picture.reduced();
    assert_eq!(picture.reduced().difference(&approved), None);
    assert!(
        Picture::decode(&approved.encode())
            .difference(&approved)
            .is_none()
    );
    let changed = |change: &dyn Fn(usize, [u8; 3]) -> [u8; 3]| {
        let pixels = picture
            .pixels
            .iter()
            .enumerate()
            .map(|(at, pixel)| change(at, *pixel));
        let changed = Picture {
            width: picture.width,
            pixels: pixels.collect(),
        };
        changed.reduced().difference(&approved)
    };
    // A logical pixel is two PNG pixels wide.
    let moved = changed(&|at, _| picture.pixels[at.saturating_sub(2)]);
    let without_grid = changed(&|_, pixel| {
        if pixel == [0xDD, 0xE1, 0xE6] {
            [0xFF; 3]
        } else {
            pixel
        }
    });
    let recoloured = changed(&|_, pixel| {
        if pixel == [0x0F, 0x6D, 0xB4] {
            [0x0F, 0x85, 0x62]
        } else {
            pixel
        }
    });
    for difference in [moved, without_grid, recoloured] {
        assert!(difference.is_some());
    }
}
