#![no_main]

mantissa_fuzz::target!(mantissa_fuzz::runs::records);
