//! Distance of colours as readers with different colour vision see them, for the test of the palette.

use super::palette::Colour;

/// Linear red, green and blue as seen with normal vision, protanopia and deuteranopia: the matrices for severity 1.0 of Machado, Oliveira
/// and Fernandes, "A Physiologically-based Model for Simulation of Color Vision Deficiency", IEEE Transactions on Visualization and
/// Computer Graphics 15 (6), 2009.
const VISIONS: [[[f64; 3]; 3]; 3] = [
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
    [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
];

/// Linear sRGB to CIE XYZ under the illuminant D65 (IEC 61966-2-1).
const TO_XYZ: [[f64; 3]; 3] = [
    [0.4124564, 0.3575761, 0.1804375],
    [0.2126729, 0.7151522, 0.0721750],
    [0.0193339, 0.1191920, 0.9503041],
];

type Lab = [f64; 3];

/// Returns the smallest CIEDE2000 distance between two of the colours, over all kinds of colour vision.
pub fn smallest_distance(colours: &[Colour]) -> f64 {
    let distances = VISIONS.iter().flat_map(|vision| {
        let seen: Vec<Lab> = colours.iter().map(|colour| lab(*colour, vision)).collect();
        let pairs = (0..seen.len()).flat_map(|a| (0..a).map(move |b| (a, b)));
        pairs
            .map(|(a, b)| ciede2000(seen[a], seen[b]))
            .collect::<Vec<_>>()
    });
    distances.fold(f64::INFINITY, f64::min)
}

fn product(matrix: &[[f64; 3]; 3], vector: [f64; 3]) -> [f64; 3] {
    matrix.map(|row| row.iter().zip(vector).map(|(a, b)| a * b).sum())
}

/// Returns the colour in CIELAB as seen with a kind of vision.
fn lab(colour: Colour, vision: &[[f64; 3]; 3]) -> Lab {
    let linear = [colour.0, colour.1, colour.2].map(|channel| match f64::from(channel) / 255.0 {
        low if low <= 0.04045 => low / 12.92,
        high => ((high + 0.055) / 1.055).powf(2.4),
    });
    let seen = product(vision, linear).map(|channel| channel.clamp(0.0, 1.0));
    let (xyz, white) = (product(&TO_XYZ, seen), product(&TO_XYZ, [1.0; 3]));
    let [x, y, z] = [0, 1, 2].map(|at| match xyz[at] / white[at] {
        large if large > (6.0_f64 / 29.0).powi(3) => large.cbrt(),
        small => small / (3.0 * (6.0_f64 / 29.0).powi(2)) + 4.0 / 29.0,
    });
    [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
}

/// Returns the colour difference CIEDE2000 in the notation of Sharma, Wu and Dalal, "The CIEDE2000 Color-Difference Formula", Color Research
/// and Application 30 (1), 2005.
fn ciede2000([l1, a1, b1]: Lab, [l2, a2, b2]: Lab) -> f64 {
    let seventh = |chroma: f64| (chroma.powi(7) / (chroma.powi(7) + 25_f64.powi(7))).sqrt();
    let g = 0.5 * (1.0 - seventh((a1.hypot(b1) + a2.hypot(b2)) / 2.0));
    let (a1, a2) = ((1.0 + g) * a1, (1.0 + g) * a2);
    let (c1, c2) = (a1.hypot(b1), a2.hypot(b2));
    let hue = |a: f64, b: f64| b.atan2(a).to_degrees().rem_euclid(360.0);
    let (h1, h2) = (hue(a1, b1), hue(a2, b2));
    let grey = c1 * c2 == 0.0;
    let turn = match h2 - h1 {
        _ if grey => 0.0,
        turn if turn > 180.0 => turn - 360.0,
        turn if turn < -180.0 => turn + 360.0,
        turn => turn,
    };
    let mean_hue = match h1 + h2 {
        sum if grey => sum,
        sum if (h1 - h2).abs() <= 180.0 => sum / 2.0,
        sum if sum < 360.0 => (sum + 360.0) / 2.0,
        sum => (sum - 360.0) / 2.0,
    };
    let (l, c) = ((l1 + l2) / 2.0, (c1 + c2) / 2.0);
    let cos = |degrees: f64| degrees.to_radians().cos();
    let t = 1.0 - 0.17 * cos(mean_hue - 30.0) + 0.24 * cos(2.0 * mean_hue) + 0.32 * cos(3.0 * mean_hue + 6.0)
        - 0.20 * cos(4.0 * mean_hue - 63.0);
    let rotation = 60.0 * (-((mean_hue - 275.0) / 25.0).powi(2)).exp();
    let lightness = (l2 - l1) / (1.0 + 0.015 * (l - 50.0).powi(2) / (20.0 + (l - 50.0).powi(2)).sqrt());
    let chroma = (c2 - c1) / (1.0 + 0.045 * c);
    let hue = 2.0 * (c1 * c2).sqrt() * (turn / 2.0).to_radians().sin() / (1.0 + 0.015 * c * t);
    let mixed = -rotation.to_radians().sin() * 2.0 * seventh(c) * chroma * hue;
    (lightness.powi(2) + chroma.powi(2) + hue.powi(2) + mixed).sqrt()
}

#[test]
fn ciede2000_reproduces_published_distances() {
    // Pairs of Table 1 of Sharma, Wu and Dalal.
    for (a, b, expected) in [
        ([50.0, 2.6772, -79.7751], [50.0, 0.0, -82.7485], 2.0425),
        ([50.0, 0.0, 0.0], [50.0, -1.0, 2.0], 2.3669),
        ([50.0, 2.5, 0.0], [50.0, 0.0, -2.5], 4.3065),
        ([22.7233, 20.0904, -46.694], [23.0331, 14.973, -42.5619], 2.0373),
        ([90.8027, -2.0831, 1.441], [91.1528, -1.6435, 0.0447], 1.4441),
    ] {
        let distance = ciede2000(a, b);
        assert!((distance - expected).abs() < 5e-5, "{a:?} {b:?}: {distance}");
    }
}
