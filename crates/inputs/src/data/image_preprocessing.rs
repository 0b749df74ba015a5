//! Image preprocessing, configured by `processor_config.json` or `preprocessor_config.json` next to the weights.

use std::path::Path;

use image::{
    RgbImage,
    imageops::{self, FilterType},
};
use serde_json::{Map, Value, json};

use super::{DataError, images::Normalization};
use crate::{contents, weights::Fields};

/// File name of the configuration of an image processor.
const PREPROCESSOR_CONFIG: &str = "preprocessor_config.json";
/// File name of a configuration that may include the configuration of an image processor. If both files exist, transformers prefers this one.
const PROCESSOR_CONFIG: &str = "processor_config.json";

/// Names of image processors with the same steps as `ViTImageProcessor`. A name may also have the suffix `Fast`.
const SUPPORTED_PROCESSORS: [&str; 7] = [
    "ViTImageProcessor",
    "ViTFeatureExtractor",
    "DeiTImageProcessor",
    "DeiTFeatureExtractor",
    "BitImageProcessor",
    "CLIPImageProcessor",
    "CLIPFeatureExtractor",
];

/// Name prefixes of image processors for which an integer `size` is the shorter side.
const BY_SHORTER_SIDE: [&str; 2] = ["Bit", "CLIP"];

/// Maximum shorter side before a crop, as a multiple of the input size of the model. Published configurations have at most 1.4. With much
/// larger values, the resized images would not fit in memory.
const MAX_SHORTER_SIDE: u32 = 2;

/// Resizing, cropping and normalization of images.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ImagePreprocessing {
    /// Mean and standard deviation of each color channel.
    pub normalization: Normalization,
    resize_mode: ResizeMode,
    filter: FilterType,
}

/// Method of resizing an image to the input size of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ResizeMode {
    /// Resizes the shorter side to this many pixels (`None`: the input size of the model), then crops the center.
    Crop(Option<u32>),
    /// Resizes both sides to the input size of the model, ignoring the aspect ratio.
    Stretch,
    /// Rejects images that do not have the input size of the model, because the configuration file with this name disables resizing.
    Disabled(&'static str),
}

/// Fields that do not affect pixels.
const IGNORED: &[&str] = &[
    "_processor_class",
    "_valid_processor_keys",
    "data_format",
    "device",
    "disable_grouping",
    "do_convert_rgb",
    "image_seq_length",
    "input_data_format",
    "processor_class",
    "return_tensors",
];

/// Fields whose defaults differ between image processors. Only the defaults of ViT are implemented, so configurations of other processors must
/// contain these fields.
const REQUIRED_FIELDS: [&str; 6] = [
    "do_resize",
    "size",
    "resample",
    "do_center_crop",
    "image_mean",
    "image_std",
];

impl ImagePreprocessing {
    /// Returns the preprocessing of a model without a configuration: a bilinear resize, then a center crop.
    pub fn without_config(normalization: Normalization) -> Self {
        Self {
            normalization,
            resize_mode: ResizeMode::Crop(None),
            filter: FilterType::Triangle,
        }
    }

    /// Reads the configuration next to a checkpoint (a file or a folder) of a model with inputs of `edge` × `edge` pixels. Without a configuration,
    /// returns [`without_config`](Self::without_config).
    ///
    /// # Errors
    /// A malformed configuration, or one with values that are not implemented; the message names the fields.
    pub fn for_weights(weights: &Path, edge: u32, normalization: Normalization) -> Result<Self, DataError> {
        let path = if weights.is_dir() {
            weights.join(PREPROCESSOR_CONFIG)
        } else {
            weights.with_file_name(PREPROCESSOR_CONFIG)
        };
        let processor_config = path.with_file_name(PROCESSOR_CONFIG);
        if processor_config.is_file() {
            let invalid = |reason: String| DataError::Configuration {
                path: processor_config.clone(),
                reason,
            };
            let fields: Map<String, Value> = contents::json(&processor_config).map_err(invalid)?;
            match fields.get("image_processor") {
                Some(Value::Object(fields)) => {
                    return Self::read(fields, edge, normalization, PROCESSOR_CONFIG).map_err(invalid);
                }
                Some(_) => return Err(invalid("its `image_processor` is not an object".to_owned())),
                None => {}
            }
        }
        if !path.is_file() {
            return Ok(Self::without_config(normalization));
        }
        let invalid = |reason: String| DataError::Configuration {
            path: path.clone(),
            reason,
        };
        let fields: Map<String, Value> = contents::json(&path).map_err(invalid)?;
        Self::read(&fields, edge, normalization, PREPROCESSOR_CONFIG).map_err(invalid)
    }

    /// Reads the fields of the file `config_name`. `normalization` has the default mean and standard deviation.
    fn read(
        fields: &Map<String, Value>,
        edge: u32,
        normalization: Normalization,
        config_name: &'static str,
    ) -> Result<Self, String> {
        let fields = Fields::new(fields);
        fields.require_value("do_rescale", true);
        fields.require_value("do_pad", false);
        fields.require_value("do_reduce_labels", false);
        let processors =
            ["image_processor_type", "feature_extractor_type"].map(|name| (name, fields.get(name)));
        let mut by_shorter_side = false;
        for (name, kind) in processors {
            let Some(kind) = kind else { continue };
            let known = kind.as_str().map(|kind| kind.trim_end_matches("Fast"));
            if !known.is_some_and(|kind| SUPPORTED_PROCESSORS.contains(&kind)) {
                fields.report(format!(
                    "`{name}` is {kind}; supported are {}",
                    SUPPORTED_PROCESSORS.join(", ")
                ));
            }
            by_shorter_side |=
                known.is_some_and(|kind| BY_SHORTER_SIDE.iter().any(|prefix| kind.starts_with(prefix)));
        }
        let kind = processors
            .iter()
            .filter_map(|(_, kind)| kind.and_then(Value::as_str));
        let kind = kind.into_iter().find(|kind| !kind.starts_with("ViT"));
        if let Some(kind) = kind {
            // An absent field gets the default of ViT, which may be wrong for other processors.
            let absent = REQUIRED_FIELDS
                .iter()
                .filter(|name| !fields.has(name))
                .map(|name| format!("`{name}`"));
            let absent: Vec<String> = absent.collect();
            if !absent.is_empty() {
                fields.report(format!(
                    "{} must be set, because the defaults of `{kind}` are not supported",
                    absent.join(", ")
                ));
            }
        }
        if let Some(factor) = fields.get("rescale_factor") {
            let is_supported = factor
                .as_f64()
                .is_some_and(|factor| (factor * 255.0 - 1.0).abs() < 1e-6);
            if !is_supported {
                fields.report(format!("`rescale_factor` is {factor}; only 1/255 is supported"));
            }
        }
        let triple = |name: &str, default: [f32; 3]| {
            let Some(value) = fields.get(name) else {
                return default;
            };
            let numbers: Option<Vec<f64>> = match value {
                Value::Array(values) => values.iter().map(Value::as_f64).collect(),
                value => value.as_f64().map(|number| vec![number; 3]),
            };
            match numbers.as_deref() {
                Some(&[red, green, blue]) => [red as f32, green as f32, blue as f32],
                _ => {
                    fields.report(format!("`{name}` is {value}; expected three numbers"));
                    default
                }
            }
        };
        let (means, deviations) = (
            triple("image_mean", normalization.means()),
            triple("image_std", normalization.deviations()),
        );
        if deviations.iter().any(|deviation| *deviation <= 0.0) {
            fields.report("`image_std` must be above 0".to_owned());
        }
        let normalization = match fields.flag_or("do_normalize", true) {
            true => Normalization::new(means, deviations),
            false => Normalization::new([0.0; 3], [1.0; 3]),
        };
        let filter = match fields.get("resample").map_or(Some(2), Value::as_u64) {
            Some(0) => FilterType::Nearest,
            Some(1) => FilterType::Lanczos3,
            Some(2) => FilterType::Triangle,
            Some(3) => FilterType::CatmullRom,
            _ => {
                fields.report("`resample` must be 0, 1, 2 or 3".to_owned());
                FilterType::Triangle
            }
        };
        let crops = fields.flag_or("do_center_crop", false);
        let crop = fields.get("crop_size");
        if crops && crop.is_some_and(|crop| square(crop) != Some(edge)) {
            fields.report(format!(
                "`crop_size` is {}, but the model expects {edge}",
                crop.unwrap_or(&Value::Null)
            ));
        }
        let size = fields.get("size").cloned().unwrap_or(json!(edge));
        // If `default_to_square` is true, an integer `size` is the edge of a square, otherwise it is the shorter side.
        let by_shorter_side = !fields.flag_or("default_to_square", !by_shorter_side);
        let size = match size.is_number() && by_shorter_side {
            true => json!({ "shortest_edge": size }),
            false => size,
        };
        let shortest = size
            .get("shortest_edge")
            .and_then(Value::as_u64)
            .and_then(|size| u32::try_from(size).ok());
        let resize_mode = match (fields.flag_or("do_resize", true), shortest, square(&size)) {
            (false, ..) if !crops => ResizeMode::Disabled(config_name),
            (true, Some(shortest), _)
                if crops && (edge..=edge.saturating_mul(MAX_SHORTER_SIDE)).contains(&shortest) =>
            {
                ResizeMode::Crop(Some(shortest))
            }
            (true, Some(shortest), _) if shortest == edge => ResizeMode::Crop(None),
            (true, None, Some(size)) if size == edge => ResizeMode::Stretch,
            _ => {
                fields.report(format!(
                    "`size` is {size} with `do_center_crop` {crops}, but the model expects {edge} × {edge} pixels"
                ));
                ResizeMode::Disabled(config_name)
            }
        };
        match fields.finish(IGNORED) {
            problems if problems.is_empty() => Ok(Self {
                normalization,
                resize_mode,
                filter,
            }),
            problems => Err(problems.join("\n  ")),
        }
    }

    /// Returns true if an image of this size is not resized or cropped.
    pub(super) fn is_unchanged(&self, (width, height): (u32, u32), edge: u32) -> bool {
        (width, height) == (edge, edge)
            && !matches!(self.resize_mode, ResizeMode::Crop(Some(shorter)) if shorter != edge)
    }

    /// Resizes and crops an image to `edge` × `edge` pixels.
    ///
    /// # Errors
    /// The image has another size and the configuration does not allow resizing.
    pub(super) fn resize_and_crop(&self, image: RgbImage, edge: u32) -> Result<RgbImage, String> {
        let (width, height) = image.dimensions();
        if self.is_unchanged((width, height), edge) {
            return Ok(image);
        }
        // Pillow and the image processors of transformers round to 8 bits after the horizontal pass.
        let resized = |width, height| {
            let narrowed = imageops::resize(&image, width, image.height(), self.filter);
            imageops::resize(&narrowed, width, height, self.filter)
        };
        match self.resize_mode {
            ResizeMode::Disabled(config_name) => Err(format!(
                "it has {width} × {height} pixels, but the model expects {edge} × {edge} and `{config_name}` disables resizing"
            )),
            ResizeMode::Stretch => Ok(resized(edge, edge)),
            ResizeMode::Crop(shorter) => {
                let (wanted, shorter) = (shorter.unwrap_or(edge), width.min(height).max(1));
                let scaled = |side: u32| {
                    (u64::from(side) * u64::from(wanted) / u64::from(shorter)).max(u64::from(wanted)) as u32
                };
                let (width, height) = (scaled(width), scaled(height));
                let image = resized(width, height);
                Ok(
                    imageops::crop_imm(&image, (width - edge) / 2, (height - edge) / 2, edge, edge)
                        .to_image(),
                )
            }
        }
    }
}

/// Reads the edge of a square: a number, or an object with equal `height` and `width`.
fn square(size: &Value) -> Option<u32> {
    let number = |value: &Value| value.as_u64().and_then(|number| u32::try_from(number).ok());
    match size {
        Value::Object(_) => {
            let [height, width] = ["height", "width"].map(|side| size.get(side).and_then(number));
            height.filter(|_| height == width)
        }
        size => number(size),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(value: Value) -> Result<ImagePreprocessing, String> {
        ImagePreprocessing::read(
            value.as_object().unwrap(),
            4,
            Normalization::UNIT,
            PREPROCESSOR_CONFIG,
        )
    }

    #[test]
    fn published_configurations_are_read() {
        let vit = json!({
            "do_normalize": true, "do_resize": true, "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5],
            "size": 4, "image_processor_type": "ViTImageProcessor", "resample": 2
        });
        let expected = ImagePreprocessing {
            resize_mode: ResizeMode::Stretch,
            ..ImagePreprocessing::without_config(Normalization::UNIT)
        };
        assert_eq!(read(vit), Ok(expected));
        let crop = json!({
            "size": { "shortest_edge": 6 }, "do_center_crop": true, "crop_size": { "height": 4, "width": 4 }, "resample": 3,
            "image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225], "rescale_factor": 0.00392156862745098
        });
        let expected = ImagePreprocessing {
            normalization: Normalization::IMAGENET,
            resize_mode: ResizeMode::Crop(Some(6)),
            filter: FilterType::CatmullRom,
        };
        assert_eq!(read(crop), Ok(expected));
    }

    #[test]
    fn unsupported_values_are_rejected_by_name() {
        for (name, value) in [
            ("do_rescale", json!(false)),
            ("rescale_factor", json!(1.0)),
            ("image_mean", json!([0.5])),
            ("image_std", json!([0.5, 0.0, 0.5])),
            ("resample", json!(9)),
            ("size", json!(5)),
            ("size", json!({ "shortest_edge": 6 })),
            ("do_flip_channel_order", json!(true)),
        ] {
            let error = read(json!({ name: value })).unwrap_err();
            assert!(error.contains(name), "{name}: {error}");
        }
    }

    #[test]
    fn images_are_stretched_cropped_or_rejected() {
        let wide = || RgbImage::from_fn(8, 4, |x, _| image::Rgb([if x < 4 { 0 } else { 255 }, 0, 0]));
        let fitted = |value: Value| read(value).unwrap().resize_and_crop(wide(), 4);
        let reds = |image: RgbImage| image.pixels().take(4).map(|pixel| pixel.0[0]).collect::<Vec<_>>();
        // Stretching halves the width; cropping keeps the four columns in the center.
        assert_eq!(
            reds(fitted(json!({ "size": 4, "resample": 0 })).unwrap()),
            [0, 0, 255, 255]
        );
        let middle = json!({ "size": { "shortest_edge": 4 }, "do_center_crop": true, "crop_size": 4 });
        assert_eq!(reds(fitted(middle).unwrap()), [0, 0, 255, 255]);
        assert!(
            fitted(json!({ "do_resize": false }))
                .unwrap_err()
                .contains("8 × 4 pixels")
        );
    }

    #[test]
    fn integer_size_is_interpreted_per_image_processor() {
        let config = |kind: &str, more: Value| {
            let mut config = json!({
                "image_processor_type": kind, "do_resize": true, "size": 4, "resample": 2, "do_center_crop": true,
                "crop_size": 4, "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]
            });
            config
                .as_object_mut()
                .unwrap()
                .extend(more.as_object().unwrap().clone());
            read(config)
        };
        let mode = |kind: &str, more: Value| config(kind, more).unwrap().resize_mode;
        assert_eq!(mode("ViTImageProcessorFast", json!({})), ResizeMode::Stretch);
        let cropped = [ResizeMode::Crop(Some(4)), ResizeMode::Crop(None)];
        for kind in ["CLIPImageProcessor", "BitImageProcessor"] {
            assert!(cropped.contains(&mode(kind, json!({}))), "{kind}");
        }
        assert!(cropped.contains(&mode("ViTImageProcessor", json!({ "default_to_square": false }))));
        for kind in [
            "ViTHybridImageProcessor",
            "LevitImageProcessor",
            "MobileViTImageProcessor",
            "ConvNextImageProcessor",
        ] {
            let error = config(kind, json!({})).unwrap_err();
            assert!(error.contains("`image_processor_type`"), "{error}");
        }
        assert!(config("", json!({ "image_processor_type": 5 })).is_err());
    }

    #[test]
    fn a_processor_configuration_takes_precedence() {
        let folder = tempfile::tempdir().unwrap();
        let put =
            |name: &str, value: Value| std::fs::write(folder.path().join(name), value.to_string()).unwrap();
        let read = || ImagePreprocessing::for_weights(folder.path(), 4, Normalization::UNIT).unwrap();
        put(
            PREPROCESSOR_CONFIG,
            json!({ "size": 4, "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5] }),
        );
        assert_eq!(read().normalization, Normalization::UNIT);
        put(
            PROCESSOR_CONFIG,
            json!({ "image_processor": { "size": 4, "image_mean": [0.1, 0.2, 0.3] } }),
        );
        assert_eq!(read().normalization.means(), [0.1, 0.2, 0.3]);
        put(
            PROCESSOR_CONFIG,
            json!({ "image_processor": { "do_resize": false } }),
        );
        let error = read().resize_and_crop(RgbImage::new(8, 4), 4).unwrap_err();
        assert!(
            error.ends_with("`processor_config.json` disables resizing"),
            "{error}"
        );
    }

    #[test]
    fn resized_pixels_match_pillow() {
        let picture = RgbImage::from_fn(11, 7, |x, y| {
            image::Rgb([0, 1, 2].map(|colour| ((x * 37 + y * 101 + colour * 53) * 29 % 256) as u8))
        });
        // Computed with Pillow 13.0.0: `Image.resize((4, 4), resample)`.
        let expected = [
            (
                2,
                [
                    97, 127, 135, 152, 119, 120, 115, 126, 148, 132, 132, 119, 126, 128, 152, 132,
                ],
            ),
            (
                3,
                [
                    93, 128, 136, 156, 122, 117, 113, 125, 148, 135, 131, 117, 123, 127, 157, 132,
                ],
            ),
            (
                1,
                [
                    89, 129, 137, 158, 128, 109, 116, 123, 146, 141, 127, 117, 121, 126, 159, 133,
                ],
            ),
        ];
        for (resample, expected) in expected {
            let resized = read(json!({ "size": 4, "resample": resample })).unwrap();
            let resized = resized.resize_and_crop(picture.clone(), 4).unwrap();
            let reds: Vec<u8> = resized.pixels().map(|pixel| pixel.0[0]).collect();
            assert_eq!(reds, expected, "resample {resample}");
        }
    }
}
