#![no_main]

mantissa_fuzz::target!(mantissa_fuzz::inputs::preprocessor_config);
