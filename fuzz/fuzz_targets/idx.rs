#![no_main]

mantissa_fuzz::target!(mantissa_fuzz::inputs::idx);
