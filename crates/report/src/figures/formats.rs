//! Bit layouts: sign, exponent and fraction of every format, one box per bit.

use mantissa_core::Format;

use super::{
    canvas::{Anchor, Canvas, MARGIN, TextStyle, WIDTH},
    datum::{Datum, Quantity},
    palette::{Colour, GREY, INK, MUTED},
};
use crate::units;

pub(super) const SIGN: Colour = (0xC2, 0x41, 0x0C);
pub(super) const EXPONENT: Colour = (0x0B, 0x62, 0xA4);
pub(super) const FRACTION: Colour = (0x12, 0x96, 0x6E);
const LEFT: f64 = MARGIN + 64.0;
const ROW_HEIGHT: f64 = 74.0;
const BIT_HEIGHT: f64 = 24.0;
/// Width of a bit. The widest format has 64 bits.
const BIT_WIDTH: f64 = (WIDTH - MARGIN - LEFT) / 64.0;

/// Draws the layouts. The figure is the same for every run.
pub fn draw() -> (Canvas, String) {
    let top = Canvas::CONTENT_TOP + 30.0;
    let mut canvas = Canvas::titled(
        top + Format::ALL.len() as f64 * ROW_HEIGHT,
        "Bit layouts of the number formats",
        "Exponent bits determine the range, fraction bits the precision. TF32 is stored in 32 bits and uses 19 of them.",
    );
    legend(&mut canvas);
    for (index, format) in Format::ALL.iter().enumerate() {
        row(&mut canvas, *format, top + index as f64 * ROW_HEIGHT);
    }
    (
        canvas,
        "Bit layouts of f64, f32, TF32, bf16 and f16: sign, exponent and fraction.".to_owned(),
    )
}

fn row(canvas: &mut Canvas, format: Format, y: f64) {
    canvas.text_centred(
        (MARGIN, y + BIT_HEIGHT / 2.0),
        format.name(),
        TextStyle::new(15.0).bold(),
    );
    let fields = [
        ("sign", 1, SIGN),
        ("exponent", format.exponent_bits(), EXPONENT),
        ("fraction", format.fraction_bits(), FRACTION),
    ];
    let note = TextStyle::new(11.5).colour(MUTED);
    let mut bit = 0;
    for (index, (name, bits, colour)) in fields.into_iter().enumerate() {
        let text = format!("{bits} bits of {name}");
        let datum = Datum::new(format.name(), Quantity::new(name, f64::from(bits), "bit", text));
        canvas.mark(datum, |canvas| {
            for x in (bit..bit + bits).map(|bit| LEFT + f64::from(bit) * BIT_WIDTH) {
                canvas.rectangle((x, y), (x + BIT_WIDTH - 2.0, y + BIT_HEIGHT), colour);
            }
        });
        bit += bits;
        if index > 0 {
            let middle = LEFT + (f64::from(bit) - f64::from(bits) / 2.0) * BIT_WIDTH - 1.0;
            let at = (middle, y + BIT_HEIGHT + 15.0);
            canvas.text(at, &bits.to_string(), note.anchor(Anchor::Middle).colour(INK));
        }
    }
    for unused in format.bits()..format.storage_bytes() * 8 {
        let x = LEFT + f64::from(unused) * BIT_WIDTH;
        canvas.outline(
            (x + 0.5, y + 0.5),
            (x + BIT_WIDTH - 2.5, y + BIT_HEIGHT - 0.5),
            GREY,
        );
    }
    let limits = format!(
        "max {} · smallest normal {} · eps {} · {} decimal digits",
        units::limit(format.max_finite()),
        units::limit(format.min_normal()),
        units::limit(format.epsilon()),
        format.decimal_digits()
    );
    canvas.text((LEFT, y + BIT_HEIGHT + 32.0), &limits, note);
}

fn legend(canvas: &mut Canvas) {
    let style = TextStyle::new(11.5).colour(MUTED);
    let y = Canvas::CONTENT_TOP + 6.0;
    let mut x = LEFT;
    for (name, colour) in [("sign", SIGN), ("exponent", EXPONENT), ("fraction", FRACTION)] {
        canvas.rectangle((x, y - 6.0), (x + 12.0, y + 6.0), colour);
        canvas.text_centred((x + 18.0, y), name, style);
        x += 36.0 + style.width(name);
    }
    canvas.outline((x + 0.5, y - 5.5), (x + 11.5, y + 5.5), GREY);
    canvas.text_centred((x + 18.0, y), "stored but unused", style);
}
