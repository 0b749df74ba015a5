//! Encoders: DistilBERT, BERT and ViT.

use mantissa_core::{BertSize, DistilBertSize, Format, VitSize};

use super::{COLOURS, Forward, transformer_block::Block};
use crate::estimate::ledger::SavedTensor;

impl Forward {
    pub(super) fn distilbert(&mut self, size: &DistilBertSize) -> Vec<SavedTensor> {
        let embedded = self.embed(size.dim);
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
        let first = self.token_per_example(hidden[size.n_layers as usize], size.dim);
        let pooled = self
            .ledger
            .layer(first, "pre_classifier", self.n * u64::from(size.dim));
        let pooled = self.ledger.activation(pooled);
        let pooled = self.ledger.dropout(pooled, size.seq_classif_dropout);
        self.classify(pooled, "classifier");
        hidden
    }

    pub(super) fn bert(&mut self, size: &BertSize) -> Vec<SavedTensor> {
        let (width, dropout) = (size.hidden_size, size.hidden_dropout_prob);
        let embedded = self.embed(width);
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
            let first = self.token_per_example(last, width);
            let pooled = self
                .ledger
                .layer(first, "bert.pooler.dense", self.n * u64::from(width));
            let pooled = self.ledger.activation(pooled);
            let pooled = self.ledger.dropout(pooled, dropout);
            self.classify(pooled, "classifier");
        }
        hidden
    }

    pub(super) fn vit(&mut self, size: &VitSize) -> Vec<SavedTensor> {
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
        let first = self.token_per_example(normal, width);
        self.classify(first, "classifier");
        hidden
    }
}
