//! A loaded vocabulary.

use std::collections::HashMap;

use tokenizers::Tokenizer;

use crate::border::{fail, Failure, INTERNAL, INVALID_ARGUMENT};
use crate::tiktoken;

pub struct Loaded {
    pub inner: Tokenizer,
    vocabulary_size: usize,
    id_limit: u32,
    /// By id; decoding leaves special tokens out on request.
    special: Vec<bool>,
    added: Vec<bool>,
    spelling: Spelling,
    /// Words become tokens by tiktoken's rule instead of by the model's own.
    is_tiktoken: bool,
}

/// How a vocabulary entry encodes bytes, according to the decoder.
struct Spelling {
    /// Character of a byte-level entry -> byte; None: the decoder has no ByteLevel part.
    byte_level: Option<HashMap<char, u8>>,
    /// Entries <0x00>..<0xFF> stand for one byte.
    byte_fallback: bool,
    /// U+2581 stands for a space.
    metaspace: bool,
}

impl Loaded {
    pub fn from_json(json: &str) -> Result<Self, Failure> {
        let mut inner: Tokenizer = match json.parse() {
            Ok(tokenizer) => tokenizer,
            Err(e) => return fail(INVALID_ARGUMENT, explain(json, &e.to_string())),
        };
        // Both are for training batches; a prompt must not be cut or padded silently.
        inner.with_padding(None);
        if let Err(e) = inner.with_truncation(None) {
            return fail(INTERNAL, e);
        }
        Self::new(inner, false)
    }

    pub fn from_tiktoken(ranks: &str, config: &str) -> Result<Self, Failure> {
        let mut alphabet = ['\0'; 256];
        for (written, byte) in byte_level_alphabet() {
            alphabet[usize::from(byte)] = written;
        }
        Self::new(tiktoken::load(ranks, config, &alphabet)?, true)
    }

    fn new(inner: Tokenizer, is_tiktoken: bool) -> Result<Self, Failure> {
        let vocabulary = inner.get_vocab(true);
        let id_limit = vocabulary
            .values()
            .max()
            .map_or(0, |id| id.saturating_add(1));
        if id_limit == 0 {
            return fail(INVALID_ARGUMENT, "not a tokenizer: the vocabulary is empty");
        }
        // Ids index tables here and logits elsewhere, so one wrong huge id would cause a huge
        // allocation.
        const MAX_ID_LIMIT: u32 = 1 << 24;
        if id_limit > MAX_ID_LIMIT {
            return fail(
                INVALID_ARGUMENT,
                format!(
                    "token id {} is beyond the {} supported",
                    id_limit - 1,
                    MAX_ID_LIMIT
                ),
            );
        }
        let mut special = vec![false; id_limit as usize];
        let mut added = vec![false; id_limit as usize];
        for (id, token) in inner.get_added_vocabulary().get_added_tokens_decoder() {
            added[*id as usize] = true;
            special[*id as usize] = token.special;
        }
        let decoder = match inner.get_decoder().map(serde_json::to_string) {
            Some(Ok(json)) => json,
            _ => String::new(),
        };
        let spelling = Spelling {
            byte_level: decoder.contains("\"ByteLevel\"").then(byte_level_alphabet),
            byte_fallback: decoder.contains("\"ByteFallback\""),
            metaspace: decoder.contains('\u{2581}'),
        };
        let vocabulary_size = vocabulary.len();
        Ok(Loaded {
            inner,
            vocabulary_size,
            id_limit,
            special,
            added,
            spelling,
            is_tiktoken,
        })
    }

    pub fn vocabulary_size(&self) -> usize {
        self.vocabulary_size
    }

    pub fn id_limit(&self) -> u32 {
        self.id_limit
    }

    pub fn is_special(&self, id: u32) -> bool {
        self.special.get(id as usize).copied().unwrap_or(false)
    }

    pub fn encode(&self, text: &str, add_special_tokens: bool) -> Result<Vec<u32>, Failure> {
        let ids = if self.is_tiktoken {
            tiktoken::encode(&self.inner, text)
        } else {
            self.inner
                .encode_fast(text, add_special_tokens)
                .map(|encoding| encoding.get_ids().to_vec())
        };
        match ids {
            Ok(ids) => Ok(ids),
            Err(e) => fail(INVALID_ARGUMENT, format!("cannot tokenize: {e}")),
        }
    }

    pub fn decode(&self, ids: &[u32], skip_special_tokens: bool) -> Result<String, Failure> {
        if let Some(id) = ids.iter().find(|id| **id >= self.id_limit) {
            return fail(
                INVALID_ARGUMENT,
                format!(
                    "token id {id} is not below the vocabulary's {}",
                    self.id_limit
                ),
            );
        }
        self.decode_known(ids, skip_special_tokens)
    }

    /// Ids without a token decode to nothing.
    pub fn decode_known(&self, ids: &[u32], skip_special_tokens: bool) -> Result<String, Failure> {
        self.inner
            .decode(ids, skip_special_tokens)
            .or_else(|e| fail(INTERNAL, format!("cannot decode: {e}")))
    }

    pub fn token_bytes(&self, id: u32) -> Option<Vec<u8>> {
        let token = self.inner.id_to_token(id)?;
        if self.added.get(id as usize).copied().unwrap_or(false) {
            return Some(token.into_bytes());
        }
        if let Some(alphabet) = &self.spelling.byte_level {
            let bytes: Option<Vec<u8>> = token.chars().map(|c| alphabet.get(&c).copied()).collect();
            return Some(bytes.unwrap_or_else(|| token.into_bytes()));
        }
        if self.spelling.byte_fallback && token.len() == 6 && token.starts_with("<0x") {
            if let Some(byte) = token
                .get(3..5)
                .and_then(|hex| u8::from_str_radix(hex, 16).ok())
            {
                return Some(vec![byte]);
            }
        }
        if self.spelling.metaspace {
            return Some(token.replace('\u{2581}', " ").into_bytes());
        }
        Some(token.into_bytes())
    }
}

/// For an unknown model the parser only reports that no variant matched.
fn explain(json: &str, error: &str) -> String {
    const KNOWN: [&str; 4] = ["BPE", "WordPiece", "WordLevel", "Unigram"];
    let root: serde_json::Value = serde_json::from_str(json).unwrap_or_default();
    match root["model"]["type"].as_str() {
        Some(kind) if !KNOWN.contains(&kind) => {
            format!(
                "not a tokenizer: the model is of type '{kind}', known are {}",
                KNOWN.join(", ")
            )
        }
        _ => format!("not a tokenizer: {error}"),
    }
}

/// GPT-2's alphabet: printable Latin-1 bytes represent themselves, the others U+0100 and up in
/// ascending order.
fn byte_level_alphabet() -> HashMap<char, u8> {
    let mut next = 0x100u32;
    (0u8..=255)
        .map(|byte| {
            let own = matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
            let code = if own {
                u32::from(byte)
            } else {
                next += 1;
                next - 1
            };
            (char::from_u32(code).expect("below the surrogates"), byte)
        })
        .collect()
}
