#![no_main]

mantissa_fuzz::target!(mantissa_fuzz::runs::packed_samples);
