//! Forward passes of the models, operation by operation, as shapes only.

use mantissa_core::{
    BertSize, BloomSize, Cell, DistilBertSize, Format, GenerateTask, Gpt2Size, ImageNetResNetSize, LlamaSize,
    Model, ResNetSize, TrainTask, VitSize,
};

use crate::data::masked_count;

use super::{
    bytes, kept,
    ledger::{SavedTensor, SavedTensors},
    matmul_format,
};

/// Colour channels of an image.
const COLOURS: u64 = 3;

/// Returns the bytes that the forward pass of a micro-batch saves for its backward pass. With checkpointing, only the hidden states between
/// segments count. `vocabulary_size` and `classes` are parameters because they depend on the data.
pub(super) fn activations(cell: &Cell, task: &TrainTask, (vocabulary_size, classes): (u32, u32)) -> u64 {
    let setting = &cell.setting;
    let examples = task.split.train.unwrap_or(u32::MAX).min(setting.batch());
    let mut forward = Forward {
        ledger: SavedTensors::new(setting, kept(cell)),
        n: examples.into(),
        sequence: setting.sequence().into(),
        vocabulary_size: vocabulary_size.into(),
        classes: classes.into(),
        predicts_tokens: cell.workload.predicts_tokens(),
        predicted_tokens: predicted_tokens(&task.model, setting.sequence()),
    };
    let hidden = match &task.model {
        Model::Distilbert(size) => forward.distilbert(size),
        Model::Bert(size) => forward.bert(size),
        Model::Vit(size) => forward.vit(size),
        Model::Gpt2(size) => forward.gpt2(size),
        Model::Bloom(size) => forward.bloom(size),
        Model::Llama(size) => forward.llama(size),
        Model::Resnet(size) => forward.resnet(size),
        Model::ResnetImagenet(size) => forward.resnet_imagenet(size),
        Model::Own => unreachable!("only built-in models are estimated"),
    };
    match setting.checkpointing() {
        true => hidden.iter().map(SavedTensor::bytes).sum::<u64>() + forward.ledger.moments(),
        false => forward.ledger.bytes(),
    }
}

/// Returns the number of tokens to predict in a passage of `sequence` tokens.
fn predicted_tokens(model: &Model, sequence: u32) -> u64 {
    match model.is_causal() {
        true => u64::from(sequence).saturating_sub(1),
        false => masked_count(sequence) as u64,
    }
}

/// Returns the bytes of the cached keys and values after the last token is generated. The model does not read the last token itself.
pub(super) fn keys_and_values(cell: &Cell, task: &GenerateTask) -> u64 {
    let (layers, width, name): (u32, u64, fn(u32) -> [String; 2]) = match &task.model {
        Model::Llama(size) => (
            size.num_hidden_layers,
            u64::from(size.num_key_value_heads) * u64::from(size.head_dim),
            |layer| ["k_proj", "v_proj"].map(|part| format!("model.layers.{layer}.self_attn.{part}")),
        ),
        Model::Gpt2(size) => (size.n_layer, size.n_embd.into(), |layer| {
            [(); 2].map(|()| format!("transformer.h.{layer}.attn.c_attn"))
        }),
        Model::Bloom(size) => (size.n_layer, size.hidden_size.into(), |layer| {
            [(); 2].map(|()| format!("transformer.h.{layer}.self_attention.query_key_value"))
        }),
        _ => return 0,
    };
    let (kept, precision) = (kept(cell), cell.setting.precision());
    // Keys and values have the format of the layers that compute them.
    let value_bytes = |layer: String| bytes(matmul_format(precision, kept.contains(&layer)));
    let layer_bytes: u64 = (0..layers).flat_map(name).map(value_bytes).sum();
    let tokens = u64::from(task.prompt_tokens) + u64::from(task.new_tokens.saturating_sub(1));
    u64::from(cell.setting.batch()) * tokens * width * layer_bytes
}

/// Forward pass over a micro-batch.
struct Forward {
    ledger: SavedTensors,
    /// Number of examples.
    n: u64,
    /// Tokens per example.
    sequence: u64,
    /// Vocabulary size of the data. Only models whose vocabulary depends on the data use it.
    vocabulary_size: u64,
    classes: u64,
    /// True if the head predicts tokens of running text instead of classes.
    predicts_tokens: bool,
    /// Number of tokens to predict per example.
    predicted_tokens: u64,
}

/// Transformer block in which every head has its own keys and values.
struct Block {
    /// Layers that project to queries, keys and values: three layers, or one fused layer.
    projections: Vec<String>,
    /// Name under which a setting can keep the attention matmuls in f32.
    attention: String,
    /// Output projection, and the two layers of the feed-forward part.
    layers: [String; 3],
    heads: u64,
    width: u64,
    /// Width between the two feed-forward layers.
    inner: u64,
    /// Dropout probabilities: of attention weights, and of the outputs of attention and feed-forward part.
    dropout: [f64; 3],
}

impl Forward {
    /// Returns the number of tokens of a micro-batch.
    fn tokens(&self) -> u64 {
        self.n * self.sequence
    }

    /// Adds the embeddings of the tokens and positions, of width `width`.
    fn embedded(&mut self, width: u32) -> SavedTensor {
        self.ledger.indices(self.tokens());
        self.ledger.full(self.tokens() * u64::from(width))
    }

    /// Adds attention and its output projection.
    fn attended(&mut self, block: &Block, hidden: SavedTensor) -> SavedTensor {
        let tokens = self.tokens();
        let values = tokens * block.width;
        let parts = match block.projections.as_slice() {
            [query, key, value] => [query, key, value].map(|layer| self.ledger.layer(hidden, layer, values)),
            // A view of the fused projection would keep the whole buffer in memory, so each part is a copy.
            layers => {
                let fused = self.ledger.layer(hidden, &layers[0], 3 * values);
                [(); 3].map(|()| self.ledger.part(fused, values))
            }
        };
        let scores = (tokens * block.heads * self.sequence, 1);
        let mixed = self
            .ledger
            .attention(parts, &block.attention, scores, block.dropout[0]);
        let attended = self.ledger.layer(mixed, &block.layers[0], values);
        self.ledger.dropout(attended, block.dropout[1])
    }

    /// Adds the feed-forward part: two layers with an activation between them.
    fn fed_forward(&mut self, block: &Block, hidden: SavedTensor) -> SavedTensor {
        let tokens = self.tokens();
        let [_, first, second] = &block.layers;
        let wide = self.ledger.layer(hidden, first, tokens * block.inner);
        let wide = self.ledger.activation(wide);
        let narrow = self.ledger.layer(wide, second, tokens * block.width);
        self.ledger.dropout(narrow, block.dropout[2])
    }

    /// Adds a block with a norm after attention and after the feed-forward part.
    fn post_norm(&mut self, block: &Block, hidden: SavedTensor) -> SavedTensor {
        let tokens = self.tokens();
        let attended = self.attended(block, hidden);
        let sum = self.ledger.sum([attended, hidden]);
        let hidden = self.ledger.layer_norm(sum, tokens);
        let narrow = self.fed_forward(block, hidden);
        let sum = self.ledger.sum([narrow, hidden]);
        self.ledger.layer_norm(sum, tokens)
    }

    /// Adds a block with a norm before attention and before the feed-forward part.
    fn pre_norm(&mut self, block: &Block, hidden: SavedTensor) -> SavedTensor {
        let tokens = self.tokens();
        let normal = self.ledger.layer_norm(hidden, tokens);
        let attended = self.attended(block, normal);
        let hidden = self.ledger.sum([attended, hidden]);
        let normal = self.ledger.layer_norm(hidden, tokens);
        let narrow = self.fed_forward(block, normal);
        self.ledger.sum([narrow, hidden])
    }

    /// Adds the first token of each example, of width `width`.
    fn first(&mut self, hidden: SavedTensor, width: u32) -> SavedTensor {
        self.ledger.part(hidden, self.n * u64::from(width))
    }

    /// Adds the classification layer and the loss.
    fn classified(&mut self, features: SavedTensor, name: &str) {
        let logits = self.ledger.layer(features, name, self.n * self.classes);
        self.ledger.cross_entropy(logits, self.n);
    }

    /// Gathers the hidden states, of width `width`, from which tokens are predicted: for causal models, all but the last of each example.
    fn predicted_rows(&mut self, hidden: SavedTensor, width: u32) -> (SavedTensor, u64) {
        let rows = self.n * self.predicted_tokens;
        self.ledger.indices(rows);
        (self.ledger.part(hidden, rows * u64::from(width)), rows)
    }

    /// Adds the head that is tied to the embedding table, and the loss.
    fn tied_head(
        &mut self,
        (features, rows): (SavedTensor, u64),
        name: &str,
        (vocabulary_size, width): (u64, u32),
    ) {
        let sizes = (rows * vocabulary_size, vocabulary_size * u64::from(width));
        let logits = self.ledger.tied(features, name, sizes);
        self.ledger.cross_entropy(logits, rows);
    }

    fn distilbert(&mut self, size: &DistilBertSize) -> Vec<SavedTensor> {
        let embedded = self.embedded(size.dim);
        let normal = self.ledger.layer_norm(embedded, self.tokens());
        let mut hidden = vec![self.ledger.dropout(normal, size.dropout)];
        for layer in 0..size.n_layers {
            let name = |part: &str| format!("distilbert.transformer.layer.{layer}.{part}");
            let block = Block {
                projections: ["q_lin", "k_lin", "v_lin"]
                    .map(|part| name(&format!("attention.{part}")))
                    .into(),
                attention: name("attention"),
                layers: ["attention.out_lin", "ffn.lin1", "ffn.lin2"].map(name),
                heads: size.n_heads.into(),
                width: size.dim.into(),
                inner: size.hidden_dim.into(),
                dropout: [size.attention_dropout, 0.0, size.dropout],
            };
            hidden.push(self.post_norm(&block, hidden[layer as usize]));
        }
        let first = self.first(hidden[size.n_layers as usize], size.dim);
        let pooled = self
            .ledger
            .layer(first, "pre_classifier", self.n * u64::from(size.dim));
        let pooled = self.ledger.activation(pooled);
        let pooled = self.ledger.dropout(pooled, size.seq_classif_dropout);
        self.classified(pooled, "classifier");
        hidden
    }

    fn bert(&mut self, size: &BertSize) -> Vec<SavedTensor> {
        let (width, dropout) = (size.hidden_size, size.hidden_dropout_prob);
        let embedded = self.embedded(width);
        let normal = self.ledger.layer_norm(embedded, self.tokens());
        let mut hidden = vec![self.ledger.dropout(normal, dropout)];
        for layer in 0..size.num_hidden_layers {
            let name = |part: &str| format!("bert.encoder.layer.{layer}.{part}");
            let block = Block {
                projections: ["query", "key", "value"]
                    .map(|part| name(&format!("attention.self.{part}")))
                    .into(),
                attention: name("attention"),
                layers: ["attention.output.dense", "intermediate.dense", "output.dense"].map(name),
                heads: size.num_attention_heads.into(),
                width: width.into(),
                inner: size.intermediate_size.into(),
                dropout: [size.attention_probs_dropout_prob, dropout, dropout],
            };
            hidden.push(self.post_norm(&block, hidden[layer as usize]));
        }
        let last = hidden[size.num_hidden_layers as usize];
        if self.predicts_tokens {
            let (predicted, rows) = self.predicted_rows(last, width);
            let values = rows * u64::from(width);
            let transformed = self
                .ledger
                .layer(predicted, "cls.predictions.transform.dense", values);
            let transformed = self.ledger.activation(transformed);
            let normal = self.ledger.layer_norm(transformed, rows);
            self.tied_head(
                (normal, rows),
                "cls.predictions.decoder",
                (self.vocabulary_size, width),
            );
        } else {
            let first = self.first(last, width);
            let pooled = self
                .ledger
                .layer(first, "bert.pooler.dense", self.n * u64::from(width));
            let pooled = self.ledger.activation(pooled);
            let pooled = self.ledger.dropout(pooled, dropout);
            self.classified(pooled, "classifier");
        }
        hidden
    }

    fn vit(&mut self, size: &VitSize) -> Vec<SavedTensor> {
        let (width, dropout) = (size.hidden_size, size.hidden_dropout_prob);
        let side = u64::from(size.image_size / size.patch_size);
        let patches = self.n * side * side;
        self.sequence = 1 + side * side;
        let patch = u64::from(size.patch_size);
        let values = self.ledger.tensor(patches * COLOURS * patch * patch, Format::F32);
        let projection = "vit.embeddings.patch_embeddings.projection";
        self.ledger.layer(values, projection, patches * u64::from(width));
        let placed = self.ledger.full(self.tokens() * u64::from(width));
        let mut hidden = vec![self.ledger.dropout(placed, dropout)];
        for layer in 0..size.num_hidden_layers {
            let name = |part: &str| format!("vit.encoder.layer.{layer}.{part}");
            let block = Block {
                projections: ["query", "key", "value"]
                    .map(|part| name(&format!("attention.attention.{part}")))
                    .into(),
                attention: name("attention.attention"),
                layers: ["attention.output.dense", "intermediate.dense", "output.dense"].map(name),
                heads: size.num_attention_heads.into(),
                width: width.into(),
                inner: size.intermediate_size.into(),
                dropout: [size.attention_probs_dropout_prob, dropout, dropout],
            };
            hidden.push(self.pre_norm(&block, hidden[layer as usize]));
        }
        let last = hidden[size.num_hidden_layers as usize];
        let normal = self.ledger.layer_norm(last, self.tokens());
        let first = self.first(normal, width);
        self.classified(first, "classifier");
        hidden
    }

    fn gpt2(&mut self, size: &Gpt2Size) -> Vec<SavedTensor> {
        let placed = self.embedded(size.n_embd);
        let mut hidden = vec![self.ledger.dropout(placed, size.embd_pdrop)];
        self.causal();
        for layer in 0..size.n_layer {
            let name = |part: &str| format!("transformer.h.{layer}.{part}");
            let block = Block {
                projections: vec![name("attn.c_attn")],
                attention: name("attn"),
                layers: ["attn.c_proj", "mlp.c_fc", "mlp.c_proj"].map(name),
                heads: size.n_head.into(),
                width: size.n_embd.into(),
                inner: size.n_inner.into(),
                dropout: [size.attn_pdrop, size.resid_pdrop, size.resid_pdrop],
            };
            hidden.push(self.pre_norm(&block, hidden[layer as usize]));
        }
        let last = hidden[size.n_layer as usize];
        let normal = self.ledger.layer_norm(last, self.tokens());
        let predicted = self.predicted_rows(normal, size.n_embd);
        self.tied_head(predicted, "lm_head", (size.vocab_size.into(), size.n_embd));
        hidden
    }

    fn bloom(&mut self, size: &BloomSize) -> Vec<SavedTensor> {
        let width = size.hidden_size;
        let embedded = self.embedded(width);
        let mut hidden = vec![self.ledger.layer_norm(embedded, self.tokens())];
        self.causal();
        for layer in 0..size.n_layer {
            let name = |part: &str| format!("transformer.h.{layer}.{part}");
            let block = Block {
                projections: vec![name("self_attention.query_key_value")],
                attention: name("self_attention"),
                layers: ["self_attention.dense", "mlp.dense_h_to_4h", "mlp.dense_4h_to_h"].map(name),
                heads: size.n_head.into(),
                width: width.into(),
                inner: 4 * u64::from(width),
                dropout: [size.attention_dropout, size.hidden_dropout, size.hidden_dropout],
            };
            hidden.push(self.pre_norm(&block, hidden[layer as usize]));
        }
        let last = hidden[size.n_layer as usize];
        let normal = self.ledger.layer_norm(last, self.tokens());
        if self.predicts_tokens {
            let predicted = self.predicted_rows(normal, width);
            self.tied_head(predicted, "lm_head", (size.vocab_size.into(), width));
        } else {
            self.ledger.indices(self.n);
            let last_tokens = self.first(normal, width);
            self.classified(last_tokens, "score");
        }
        hidden
    }

    fn llama(&mut self, size: &LlamaSize) -> Vec<SavedTensor> {
        let (tokens, width) = (self.tokens(), size.hidden_size);
        let head_dim = u64::from(size.head_dim);
        let (heads, shared) = (
            u64::from(size.num_attention_heads),
            u64::from(size.num_key_value_heads),
        );
        let values = tokens * u64::from(width);
        let mut hidden = vec![self.embedded(width)];
        self.causal();
        // Cosines and sines of the rotary embedding.
        self.ledger.constants(self.sequence * head_dim);
        for layer in 0..size.num_hidden_layers {
            let name = |part: &str| format!("model.layers.{layer}.{part}");
            let before = hidden[layer as usize];
            let normal = self.ledger.rms_norm(before, tokens);
            let projections = [("q_proj", heads), ("k_proj", shared), ("v_proj", shared)];
            let [query, key, value] = projections.map(|(part, heads)| {
                let part = name(&format!("self_attn.{part}"));
                self.ledger.layer(normal, &part, tokens * heads * head_dim)
            });
            let [query, key] = [query, key].map(|part| self.ledger.moved(part));
            let scores = (tokens * heads * self.sequence, heads / shared);
            let mixed = self
                .ledger
                .attention([query, key, value], &name("self_attn"), scores, 0.0);
            let attended = self.ledger.layer(mixed, &name("self_attn.o_proj"), values);
            let between = self.ledger.sum([attended, before]);
            let normal = self.ledger.rms_norm(between, tokens);
            let wide = tokens * u64::from(size.intermediate_size);
            let gate = self.ledger.layer(normal, &name("mlp.gate_proj"), wide);
            let open = self.ledger.silu(gate);
            let up = self.ledger.layer(normal, &name("mlp.up_proj"), wide);
            let gated = self.ledger.product([open, up]);
            let narrow = self.ledger.layer(gated, &name("mlp.down_proj"), values);
            hidden.push(self.ledger.sum([narrow, between]));
        }
        let last = hidden[size.num_hidden_layers as usize];
        let normal = self.ledger.rms_norm(last, tokens);
        let (predicted, rows) = self.predicted_rows(normal, width);
        let vocabulary_size = u64::from(size.vocab_size);
        if size.tie_word_embeddings {
            self.tied_head((predicted, rows), "lm_head", (vocabulary_size, width));
        } else {
            let logits = self.ledger.layer(predicted, "lm_head", rows * vocabulary_size);
            self.ledger.cross_entropy(logits, rows);
        }
        hidden
    }

    /// Adds the causal mask, which all layers share.
    fn causal(&mut self) {
        self.ledger.mask(self.sequence * self.sequence);
    }

    /// Adds images of three colour channels, `edge` pixels high and wide.
    fn images(&mut self, edge: u64) -> SavedTensor {
        self.ledger.tensor(self.n * COLOURS * edge * edge, Format::F32)
    }

    /// Adds a convolution and its batch norm. The output has `channels` channels and is `edge` pixels high and wide.
    fn convolved(&mut self, images: SavedTensor, name: &str, [channels, edge]: [u64; 2]) -> SavedTensor {
        let values = self.n * channels * edge * edge;
        let images = self.ledger.layer(images, name, values);
        self.ledger.batch_norm(images, channels)
    }

    /// Adds average pooling of each channel, and the classification layer.
    fn pooled(&mut self, channels: u64, name: &str) {
        let pooled = self.ledger.full(self.n * channels);
        self.classified(pooled, name);
    }

    fn resnet(&mut self, size: &ResNetSize) -> Vec<SavedTensor> {
        let (mut edge, width) = (u64::from(ResNetSize::IMAGE), u64::from(size.width));
        let images = self.images(edge);
        let stem = self.convolved(images, "conv1", [width, edge]);
        let mut hidden = vec![self.ledger.activation(stem)];
        let mut before = hidden[0];
        for stage in 0..3 {
            let channels = width << stage;
            for number in 0..size.blocks() {
                let narrows = stage > 0 && number == 0;
                edge = if narrows { edge.div_ceil(2) } else { edge };
                let name = format!("layer{}.{number}", stage + 1);
                let inner = self.convolved(before, &format!("{name}.conv1"), [channels, edge]);
                let inner = self.ledger.activation(inner);
                let inner = self.convolved(inner, &format!("{name}.conv2"), [channels, edge]);
                let shortcut = match narrows {
                    true => self.ledger.part(before, self.n * channels * edge * edge),
                    false => before,
                };
                let sum = self.ledger.sum([inner, shortcut]);
                before = self.ledger.activation(sum);
                hidden.push(before);
            }
        }
        self.pooled(width << 2, "linear");
        hidden
    }

    fn resnet_imagenet(&mut self, size: &ImageNetResNetSize) -> Vec<SavedTensor> {
        let (blocks, has_bottlenecks) = match size.depth {
            18 => ([2, 2, 2, 2], false),
            _ => ([3, 4, 6, 3], true),
        };
        let expansion = if has_bottlenecks { 4 } else { 1 };
        let width = u64::from(size.width);
        let images = self.images(size.image_size.into());
        let mut edge = u64::from(size.image_size).div_ceil(2);
        let stem = self.convolved(images, "conv1", [width, edge]);
        let stem = self.ledger.activation(stem);
        edge = edge.div_ceil(2);
        let mut before = self.ledger.max_pool(stem, self.n * width * edge * edge);
        let mut hidden = vec![before];
        let mut from = width;
        for (stage, blocks) in (0..).zip(blocks) {
            let (planes, to) = (width << stage, (width << stage) * expansion);
            for number in 0..blocks {
                let stride = if stage > 0 && number == 0 { 2 } else { 1 };
                let (wide, narrow) = (edge, edge.div_ceil(stride));
                edge = narrow;
                let layers = match has_bottlenecks {
                    true => vec![[planes, wide], [planes, narrow], [to, narrow]],
                    false => vec![[to, narrow]; 2],
                };
                let name = format!("layer{}.{number}", stage + 1);
                let mut inner = before;
                for (number, shape) in (1..).zip(layers) {
                    if number > 1 {
                        inner = self.ledger.activation(inner);
                    }
                    inner = self.convolved(inner, &format!("{name}.conv{number}"), shape);
                }
                let shortcut = match stride > 1 || from != to {
                    true => self.convolved(before, &format!("{name}.downsample.0"), [to, edge]),
                    false => before,
                };
                let sum = self.ledger.sum([inner, shortcut]);
                before = self.ledger.activation(sum);
                hidden.push(before);
                from = to;
            }
        }
        self.pooled(from, "fc");
        hidden
    }
}
