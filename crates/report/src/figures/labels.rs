//! Placement of labels next to points without overlaps.

use super::{
    canvas::{Anchor, Canvas, TextStyle},
    palette::CARD,
};

/// Left, top, right and bottom, in pixels.
type Rect = (f64, f64, f64, f64);

/// Half the edge length of the square around a point that labels avoid.
const POINT_MARGIN: f64 = 6.0;
/// Distances between a label and its point, in the order of preference.
const DISTANCES: [f64; 4] = [9.0, 20.0, 34.0, 50.0];
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
    /// Areas that labels must not overlap.
    taken: Vec<Rect>,
    /// Lines that labels avoid if possible.
    lines: Vec<Rect>,
    names: Vec<PlacedLabel>,
}

/// A placed label.
struct PlacedLabel {
    place: Rect,
    /// Labelled point, if a line must connect it with the label.
    from: Option<(f64, f64)>,
    text: String,
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
            lines: vec![],
            names: vec![],
        }
    }

    /// Adds a horizontal or vertical line that labels avoid if possible.
    pub fn avoid(&mut self, (x0, y0): (f64, f64), (x1, y1): (f64, f64)) {
        self.lines.push((x0.min(x1), y0.min(y1), x0.max(x1), y0.max(y1)));
    }

    /// Places a label next to a point. Returns `false` if there is no room.
    pub fn place(&mut self, point: (f64, f64), text: &str, style: TextStyle) -> bool {
        let size = (style.width(text), style.size);
        let places = || {
            DISTANCES
                .iter()
                .flat_map(|distance| DIRECTIONS.iter().map(move |direction| (*distance, *direction)))
        };
        let free = |crossing: bool| {
            places().find_map(|(distance, direction)| {
                let place = place(point, distance, direction, size);
                self.is_free(place, crossing).then_some((place, distance))
            })
        };
        let Some((place, distance)) = free(false).or_else(|| free(true)) else {
            return false;
        };
        self.taken.push(place);
        self.names.push(PlacedLabel {
            place,
            from: (distance > DISTANCES[0]).then_some(point),
            text: text.to_owned(),
            style,
        });
        true
    }

    /// Draws the labels, with thin lines to points that are not adjacent.
    pub fn draw(self, canvas: &mut Canvas) {
        for name in &self.names {
            let near = |point: (f64, f64)| {
                let (left, top, right, bottom) = name.place;
                (point.0.clamp(left, right), point.1.clamp(top, bottom))
            };
            if let Some(point) = name.from {
                canvas.line(vec![point, near(point)], 1.0, name.style.colour);
            }
        }
        for PlacedLabel {
            place, text, style, ..
        } in &self.names
        {
            // Interrupt lines that the label could not avoid.
            canvas.rectangle((place.0 - 1.0, place.1), (place.2 + 1.0, place.3), CARD);
            let middle = (place.1 + place.3) / 2.0;
            canvas.text_centred((place.0, middle), text, style.anchor(Anchor::Start));
        }
    }

    fn is_free(&self, place: Rect, crossing: bool) -> bool {
        let frame = self.frame;
        let inside = place.0 >= frame.0 && place.1 >= frame.1 && place.2 <= frame.2 && place.3 <= frame.3;
        let over =
            |other: &Rect| place.0 < other.2 && other.0 < place.2 && place.1 < other.3 && other.1 < place.3;
        inside && !self.taken.iter().any(over) && (crossing || !self.lines.iter().any(over))
    }
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
    fn a_label_without_room_is_left_out() {
        let mut labels = Labels::new((0.0, 0.0, 20.0, 20.0), &[(10.0, 10.0)]);
        assert!(!labels.place((10.0, 10.0), "much too long a name", STYLE));
    }
}
