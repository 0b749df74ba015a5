//! Placement of labels next to points without overlaps.

use super::{
    canvas::{Anchor, Canvas, TextStyle},
    fonts::wrap,
    palette::CARD,
};

/// Left, top, right and bottom, in pixels.
type Rect = (f64, f64, f64, f64);

/// Half the edge length of the square around a point that labels avoid.
const POINT_MARGIN: f64 = 6.0;
/// Maximum width of a line. Wider labels take several lines.
const MAX_WIDTH: f64 = 210.0;
const MAX_LINES: usize = 6;
/// Distances between a label and its point, in the order of preference.
const DISTANCES: [f64; 4] = [9.0, 20.0, 34.0, 50.0];
/// Maximum distance of a label from its point, if there is no room in any preferred place.
const MAX_DISTANCE: f64 = 160.0;
/// Distance of the other places that are tried.
const STEP: f64 = 6.0;
/// Directions from a point, in the order of preference.
const DIRECTIONS: [(f64, f64); 8] = [
    (1.0, 0.0),
    (-1.0, 0.0),
    (0.0, -1.0),
    (0.0, 1.0),
    (0.8, -0.8),
    (-0.8, -0.8),
    (0.8, 0.8),
    (-0.8, 0.8),
];

/// Label placement within a frame.
pub struct Labels {
    frame: Rect,
    /// Areas and lines that labels must not overlap.
    taken: Vec<Rect>,
    names: Vec<PlacedLabel>,
}

/// A placed label.
struct PlacedLabel {
    place: Rect,
    /// Labelled point, if a line must connect it with the label.
    from: Option<(f64, f64)>,
    lines: Vec<String>,
    style: TextStyle,
}

impl Labels {
    /// Creates a frame with points and no labels.
    pub fn new(frame: Rect, points: &[(f64, f64)]) -> Self {
        let square = |(x, y): &(f64, f64)| {
            (
                x - POINT_MARGIN,
                y - POINT_MARGIN,
                x + POINT_MARGIN,
                y + POINT_MARGIN,
            )
        };
        Self {
            frame,
            taken: points.iter().map(square).collect(),
            names: vec![],
        }
    }

    /// Adds a horizontal or vertical line that labels must not cover.
    pub fn avoid(&mut self, (x0, y0): (f64, f64), (x1, y1): (f64, f64)) {
        self.taken.push((x0.min(x1), y0.min(y1), x0.max(x1), y0.max(y1)));
    }

    /// Places a label next to a point. Returns `false` if there is no room.
    pub fn place(&mut self, point: (f64, f64), text: &str, style: TextStyle) -> bool {
        let lines = wrap(text, style.size, style.weight, MAX_WIDTH, MAX_LINES);
        let width = lines.iter().map(|line| style.width(line)).fold(0.0, f64::max);
        let more = Canvas::LINE_HEIGHT * (lines.len() - 1) as f64;
        let size = (width, style.size + more);
        let preferred = DISTANCES
            .iter()
            .flat_map(|distance| DIRECTIONS.iter().map(move |direction| (*distance, *direction)));
        let mut places = preferred.map(|(distance, direction)| place(point, distance, direction, size));
        let Some(place) = places
            .find(|place| self.is_free(*place))
            .or_else(|| self.nearest_place(point, size))
        else {
            return false;
        };
        self.taken.push(place);
        self.names.push(PlacedLabel {
            place,
            from: (distance(place, point) > DISTANCES[0] + 1.0).then_some(point),
            lines,
            style,
        });
        true
    }

    /// Draws the labels, with thin lines to points that are not adjacent.
    pub fn draw(self, canvas: &mut Canvas) {
        for name in &self.names {
            if let Some(point) = name.from {
                canvas.line(vec![point, nearest(name.place, point)], 1.0, name.style.colour);
            }
        }
        for PlacedLabel {
            place, lines, style, ..
        } in &self.names
        {
            // Interrupt the grid and the lines to other labels.
            canvas.rectangle((place.0 - 1.0, place.1), (place.2 + 1.0, place.3), CARD);
            let middle = (place.1 + place.3) / 2.0;
            canvas.lines_centred((place.0, middle), lines, style.anchor(Anchor::Start));
        }
    }

    /// Returns the nearest free place within [`MAX_DISTANCE`] of a point.
    fn nearest_place(&self, point: (f64, f64), (width, height): (f64, f64)) -> Option<Rect> {
        let (left, top, right, bottom) = self.frame;
        let steps = |from: f64, to: f64| {
            let count = ((to - from) / STEP).floor().max(-1.0) as i64;
            (0..=count).map(move |step| from + STEP * step as f64)
        };
        let height = height + 2.0;
        let rows = steps(top, bottom - height);
        let places =
            rows.flat_map(|y| steps(left, right - width).map(move |x| (x, y, x + width, y + height)));
        let near = |place: &Rect| (DISTANCES[0]..=MAX_DISTANCE).contains(&distance(*place, point));
        places
            .filter(|place| near(place) && self.is_free(*place))
            .min_by(|a, b| distance(*a, point).total_cmp(&distance(*b, point)))
    }

    fn is_free(&self, place: Rect) -> bool {
        let frame = self.frame;
        let inside = place.0 >= frame.0 && place.1 >= frame.1 && place.2 <= frame.2 && place.3 <= frame.3;
        let over =
            |other: &Rect| place.0 < other.2 && other.0 < place.2 && place.1 < other.3 && other.1 < place.3;
        inside && !self.taken.iter().any(over)
    }
}

/// Returns the point of an area that is nearest to a point.
fn nearest((left, top, right, bottom): Rect, (x, y): (f64, f64)) -> (f64, f64) {
    (x.clamp(left, right), y.clamp(top, bottom))
}

fn distance(place: Rect, point: (f64, f64)) -> f64 {
    let near = nearest(place, point);
    (near.0 - point.0).hypot(near.1 - point.1)
}

/// Returns the area of a text of this size at a distance and direction from a point.
fn place((x, y): (f64, f64), distance: f64, (dx, dy): (f64, f64), (width, height): (f64, f64)) -> Rect {
    let left = match dx {
        0.0 => x - width / 2.0,
        right if right > 0.0 => x + dx * distance,
        _ => x + dx * distance - width,
    };
    let middle = y + dy * (distance + if dx == 0.0 { height / 2.0 } else { 0.0 });
    (
        left,
        middle - height / 2.0 - 1.0,
        left + width,
        middle + height / 2.0 + 1.0,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const STYLE: TextStyle = TextStyle::new(11.0);

    #[test]
    fn labels_do_not_overlap_and_stay_in_the_frame() {
        let points: Vec<_> = (0..12)
            .map(|i| (100.0 + f64::from(i % 3), 100.0 + 7.0 * f64::from(i / 3)))
            .collect();
        let frame = (0.0, 0.0, 240.0, 200.0);
        let mut labels = Labels::new(frame, &points);

        let written = points
            .iter()
            .filter(|point| labels.place(**point, "bf16-mixed", STYLE));
        assert!(written.count() > 4);
        let names = &labels.taken[points.len()..];
        for (index, name) in names.iter().enumerate() {
            let others = names[..index].iter().chain(&labels.taken[..points.len()]);
            let over =
                |other: &Rect| name.0 < other.2 && other.0 < name.2 && name.1 < other.3 && other.1 < name.3;
            assert!(!others.into_iter().any(over), "{name:?}");
            assert!(name.0 >= 0.0 && name.2 <= 240.0 && name.1 >= 0.0 && name.3 <= 200.0);
        }
    }

    #[test]
    fn labels_do_not_cover_whiskers() {
        let points: Vec<_> = (0..5).map(|i| (60.0 + 9.0 * f64::from(i), 100.0)).collect();
        let mut labels = Labels::new((0.0, 0.0, 400.0, 200.0), &points);
        let whiskers: Vec<_> = points.iter().map(|(x, _)| ((*x, 20.0), (*x, 180.0))).collect();
        whiskers.iter().for_each(|(from, to)| labels.avoid(*from, *to));
        for point in &points {
            assert!(labels.place(*point, "bf16-mixed", STYLE), "{point:?}");
        }
        for name in &labels.names {
            let (left, top, right, bottom) = name.place;
            let covered = |x: f64| left < x && x < right && top < 180.0 && bottom > 20.0;
            assert!(
                !whiskers.iter().any(|(from, _)| covered(from.0)),
                "{:?}",
                name.place
            );
        }
    }

    #[test]
    fn a_label_without_room_is_left_out() {
        let mut labels = Labels::new((0.0, 0.0, 20.0, 20.0), &[(10.0, 10.0)]);
        assert!(!labels.place((10.0, 10.0), "much too long a name", STYLE));
    }
}
