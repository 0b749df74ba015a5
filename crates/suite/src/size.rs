//! `model = "…"` and `[workload.model_size]`: the model of a workload. Its size defaults to the published base size.

use mantissa_core::{
    BertSize, BloomSize, DistilBertSize, Gpt2Size, ImageNetResNetSize, LlamaSize, Model, ResNetSize,
    RopeScaling, VitSize,
};

use crate::{
    keys::{self, bert, bloom, distilbert, gpt2, imagenet, llama, resnet, rope_scaling, train, vit},
    section::Section,
};

/// Reads a model with its size.
pub(crate) fn model(section: &Section<'_>) -> Option<Model> {
    let model = read_model(section)?;
    if model.layers() > Model::MAX_LAYERS {
        section.report_at(
            &train::MODEL_SIZE,
            format_args!(
                "the model has {} layers, the maximum is {}",
                model.layers(),
                Model::MAX_LAYERS
            ),
        );
        return None;
    }
    Some(model)
}

fn read_model(section: &Section<'_>) -> Option<Model> {
    match section.listed_name(&train::MODEL)? {
        keys::DISTILBERT => distilbert_size(section).map(Model::Distilbert),
        keys::BERT => bert_size(section).map(Model::Bert),
        keys::RESNET => resnet_size(section).map(Model::Resnet),
        keys::RESNET_IMAGENET => imagenet_size(section).map(Model::ResnetImagenet),
        keys::VIT => vit_size(section).map(Model::Vit),
        keys::LLAMA => llama_size(section).map(Model::Llama),
        keys::GPT2 => gpt2_size(section).map(Model::Gpt2),
        keys::BLOOM => bloom_size(section).map(Model::Bloom),
        keys::OWN => user_defined(section),
        other => unreachable!("the size of model `{other}` is not implemented"),
    }
}

/// Reads `model = "own"`. The program that runs the suite defines this model and its size.
fn user_defined(section: &Section<'_>) -> Option<Model> {
    let size = section.table(&train::MODEL_SIZE, "`[workload.model_size]`")?;
    size.reject_unknown_keys(&[]);
    Some(Model::Own)
}

fn distilbert_size(section: &Section<'_>) -> Option<DistilBertSize> {
    let size = section.table(&train::MODEL_SIZE, "`[workload.model_size]`")?;
    size.reject_unknown_keys(&[distilbert::KEYS]);
    let n_layers = size.whole(&distilbert::N_LAYERS);
    let dim = size.whole(&distilbert::DIM);
    let n_heads = size.whole(&distilbert::N_HEADS);
    let hidden_dim = size.whole(&distilbert::HIDDEN_DIM);
    let max_position_embeddings = size.whole(&distilbert::MAX_POSITION);
    let dropout = size.number(&distilbert::DROPOUT);
    let attention_dropout = size.number(&distilbert::ATTENTION_DROPOUT);
    let seq_classif_dropout = size.number(&distilbert::CLASSIFIER_DROPOUT);
    let (dim, n_heads) = check_multiple(&size, (&distilbert::DIM, dim?), (&distilbert::N_HEADS, n_heads?))?;
    Some(DistilBertSize {
        n_layers: n_layers?,
        dim,
        n_heads,
        hidden_dim: hidden_dim?,
        max_position_embeddings: max_position_embeddings?,
        dropout: dropout?,
        attention_dropout: attention_dropout?,
        seq_classif_dropout: seq_classif_dropout?,
    })
}

/// Returns a size and its divisor, or reports that the size is not a multiple of the divisor.
fn check_multiple(
    size: &Section<'_>,
    (width, n): (&keys::Key, u32),
    (part, divisor): (&keys::Key, u32),
) -> Option<(u32, u32)> {
    if n.is_multiple_of(divisor) {
        return Some((n, divisor));
    }
    size.report_at(
        width,
        format_args!(
            "`{0}` {n} is not a multiple of `{1}` {divisor}\n  hint: try `{0} = {2}`",
            width.name,
            part.name,
            n.checked_next_multiple_of(divisor).unwrap_or(n - n % divisor)
        ),
    );
    None
}

fn bert_size(section: &Section<'_>) -> Option<BertSize> {
    let size = section.table(&train::MODEL_SIZE, "`[workload.model_size]`")?;
    size.reject_unknown_keys(&[bert::KEYS]);
    let [hidden_size, heads, layers, intermediate, positions] = [
        &bert::HIDDEN_SIZE,
        &bert::HEADS,
        &bert::LAYERS,
        &bert::INTERMEDIATE,
        &bert::MAX_POSITION,
    ]
    .map(|key| size.whole(key));
    let [dropout, attention_dropout, epsilon] =
        [&bert::DROPOUT, &bert::ATTENTION_DROPOUT, &bert::NORM_EPSILON].map(|key| size.number(key));
    let (hidden_size, num_attention_heads) =
        check_multiple(&size, (&bert::HIDDEN_SIZE, hidden_size?), (&bert::HEADS, heads?))?;
    Some(BertSize {
        hidden_size,
        num_hidden_layers: layers?,
        num_attention_heads,
        intermediate_size: intermediate?,
        max_position_embeddings: positions?,
        hidden_dropout_prob: dropout?,
        attention_probs_dropout_prob: attention_dropout?,
        layer_norm_eps: epsilon?,
    })
}

fn vit_size(section: &Section<'_>) -> Option<VitSize> {
    let size = section.table(&train::MODEL_SIZE, "`[workload.model_size]`")?;
    size.reject_unknown_keys(&[vit::KEYS]);
    let [image_size, patch_size, hidden_size, heads, layers, intermediate] = [
        &vit::IMAGE_SIZE,
        &vit::PATCH_SIZE,
        &vit::HIDDEN_SIZE,
        &vit::HEADS,
        &vit::LAYERS,
        &vit::INTERMEDIATE,
    ]
    .map(|key| size.whole(key));
    let [dropout, attention_dropout, epsilon] =
        [&vit::DROPOUT, &vit::ATTENTION_DROPOUT, &vit::NORM_EPSILON].map(|key| size.number(key));
    let (hidden_size, num_attention_heads) =
        check_multiple(&size, (&vit::HIDDEN_SIZE, hidden_size?), (&vit::HEADS, heads?))?;
    let (image_size, patch_size) = check_multiple(
        &size,
        (&vit::IMAGE_SIZE, image_size?),
        (&vit::PATCH_SIZE, patch_size?),
    )?;
    Some(VitSize {
        image_size,
        patch_size,
        hidden_size,
        num_hidden_layers: layers?,
        num_attention_heads,
        intermediate_size: intermediate?,
        hidden_dropout_prob: dropout?,
        attention_probs_dropout_prob: attention_dropout?,
        layer_norm_eps: epsilon?,
    })
}

fn imagenet_size(section: &Section<'_>) -> Option<ImageNetResNetSize> {
    let size = section.table(&train::MODEL_SIZE, "`[workload.model_size]`")?;
    size.reject_unknown_keys(&[imagenet::KEYS]);
    let [depth, width, image_size] =
        [&imagenet::DEPTH, &imagenet::WIDTH, &imagenet::IMAGE_SIZE].map(|key| size.whole(key));
    let depth = depth?;
    if ![18, 50].contains(&depth) {
        size.report_at(
            &imagenet::DEPTH,
            format_args!("`depth` {depth} is not implemented\n  hint: use 18 or 50"),
        );
        return None;
    }
    Some(ImageNetResNetSize {
        depth,
        width: width?,
        image_size: image_size?,
    })
}

fn resnet_size(section: &Section<'_>) -> Option<ResNetSize> {
    let size = section.table(&train::MODEL_SIZE, "`[workload.model_size]`")?;
    size.reject_unknown_keys(&[resnet::KEYS]);
    let (depth, width) = (size.whole(&resnet::DEPTH)?, size.whole(&resnet::WIDTH)?);
    if depth % 6 != 2 {
        let nearest = depth - (depth - 2) % 6;
        size.report_at(
            &resnet::DEPTH,
            format_args!(
                "`depth` {depth} is not 2 more than a multiple of 6\n  hint: try `depth = {nearest}`"
            ),
        );
        return None;
    }
    Some(ResNetSize { depth, width })
}

fn llama_size(section: &Section<'_>) -> Option<LlamaSize> {
    let size = section.table(&train::MODEL_SIZE, "`[workload.model_size]`")?;
    size.reject_unknown_keys(&[llama::KEYS]);
    let [
        vocab_size,
        hidden_size,
        intermediate_size,
        layers,
        heads,
        positions,
    ] = [
        &llama::VOCABULARY,
        &llama::HIDDEN_SIZE,
        &llama::INTERMEDIATE,
        &llama::LAYERS,
        &llama::HEADS,
        &llama::MAX_POSITION,
    ]
    .map(|key| size.whole(key));
    let [key_value_heads, width] =
        [&llama::KEY_VALUE_HEADS, &llama::HEAD_WIDTH].map(|key| size.optional_whole(key));
    let [epsilon, theta] = [&llama::NORM_EPSILON, &llama::ROPE_THETA].map(|key| size.number(key));
    let [interleaved, tied] = [&llama::ROPE_INTERLEAVED, &llama::TIED].map(|key| size.flag(key));
    let scaling = match size.has(&llama::ROPE_SCALING) {
        true => Some(read_rope_scaling(&size)?),
        false => None,
    };
    let (hidden_size, heads) = (hidden_size?, heads?);
    let key_value_heads = key_value_heads?.unwrap_or(heads);
    let (heads, key_value_heads) = check_multiple(
        &size,
        (&llama::HEADS, heads),
        (&llama::KEY_VALUE_HEADS, key_value_heads),
    )?;
    let head_dim = match width? {
        Some(width) => width,
        None => {
            check_multiple(&size, (&llama::HIDDEN_SIZE, hidden_size), (&llama::HEADS, heads))?;
            hidden_size / heads
        }
    };
    if !head_dim.is_multiple_of(2) {
        size.report_at(
            &llama::HEAD_WIDTH,
            format_args!("the head width {head_dim} is odd, but rotary embeddings rotate pairs of elements"),
        );
        return None;
    }
    Some(LlamaSize {
        vocab_size: vocab_size?,
        hidden_size,
        intermediate_size: intermediate_size?,
        num_hidden_layers: layers?,
        num_attention_heads: heads,
        num_key_value_heads: key_value_heads,
        head_dim,
        max_position_embeddings: positions?,
        rms_norm_eps: epsilon?,
        rope_theta: theta?,
        rope_scaling: scaling,
        rope_interleaved: interleaved?,
        tie_word_embeddings: tied?,
    })
}

fn read_rope_scaling(size: &Section<'_>) -> Option<RopeScaling> {
    let table = size.table(&llama::ROPE_SCALING, "`[workload.model_size.rope_scaling]`")?;
    table.reject_unknown_keys(&[rope_scaling::KEYS]);
    let [factor, low, high] =
        [&rope_scaling::FACTOR, &rope_scaling::LOW, &rope_scaling::HIGH].map(|key| table.number(key));
    let original = table.whole(&rope_scaling::ORIGINAL);
    let (low, high) = (low?, high?);
    if low >= high {
        table.report_at(
            &rope_scaling::LOW,
            format_args!("`low_freq_factor` {low} is not less than `high_freq_factor` {high}"),
        );
        return None;
    }
    Some(RopeScaling {
        factor: factor?,
        low_freq_factor: low,
        high_freq_factor: high,
        original_max_position_embeddings: original?,
    })
}

fn gpt2_size(section: &Section<'_>) -> Option<Gpt2Size> {
    let size = section.table(&train::MODEL_SIZE, "`[workload.model_size]`")?;
    size.reject_unknown_keys(&[gpt2::KEYS]);
    let [vocab_size, n_positions, n_embd, n_layer, n_head] = [
        &gpt2::VOCABULARY,
        &gpt2::POSITIONS,
        &gpt2::WIDTH,
        &gpt2::LAYERS,
        &gpt2::HEADS,
    ]
    .map(|key| size.whole(key));
    let n_inner = size.optional_whole(&gpt2::INNER);
    let [epsilon, embedding_dropout, attention_dropout, layer_dropout] = [
        &gpt2::NORM_EPSILON,
        &gpt2::EMBEDDING_DROPOUT,
        &gpt2::ATTENTION_DROPOUT,
        &gpt2::DROPOUT,
    ]
    .map(|key| size.number(key));
    let (n_embd, n_head) = check_multiple(&size, (&gpt2::WIDTH, n_embd?), (&gpt2::HEADS, n_head?))?;
    Some(Gpt2Size {
        vocab_size: vocab_size?,
        n_positions: n_positions?,
        n_embd,
        n_layer: n_layer?,
        n_head,
        n_inner: n_inner?.unwrap_or(n_embd.saturating_mul(4)),
        layer_norm_epsilon: epsilon?,
        embd_pdrop: embedding_dropout?,
        attn_pdrop: attention_dropout?,
        resid_pdrop: layer_dropout?,
    })
}

fn bloom_size(section: &Section<'_>) -> Option<BloomSize> {
    let size = section.table(&train::MODEL_SIZE, "`[workload.model_size]`")?;
    size.reject_unknown_keys(&[bloom::KEYS]);
    let [vocab_size, hidden_size, n_layer, n_head] = [
        &bloom::VOCABULARY,
        &bloom::HIDDEN_SIZE,
        &bloom::LAYERS,
        &bloom::HEADS,
    ]
    .map(|key| size.whole(key));
    let [epsilon, dropout, attention_dropout] =
        [&bloom::NORM_EPSILON, &bloom::DROPOUT, &bloom::ATTENTION_DROPOUT].map(|key| size.number(key));
    let (hidden_size, n_head) = check_multiple(
        &size,
        (&bloom::HIDDEN_SIZE, hidden_size?),
        (&bloom::HEADS, n_head?),
    )?;
    Some(BloomSize {
        vocab_size: vocab_size?,
        hidden_size,
        n_layer: n_layer?,
        n_head,
        layer_norm_epsilon: epsilon?,
        hidden_dropout: dropout?,
        attention_dropout: attention_dropout?,
    })
}
