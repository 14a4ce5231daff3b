//! Turns a growing list of tokens into text, piece by piece, without broken characters.
//!
//! A token's text depends on the tokens before it: a decoder may strip the first space of all, or
//! join bytes of several tokens into one character. So each new token decodes a short window of
//! tokens again; text beyond what was returned so far is new. The window begins at the second last
//! point where the text ended in a whole character, so it is a few tokens long. Streams of
//! text-generation servers use the same idea.
//!
//! An incomplete character decodes to U+FFFD at the end. At most three of them are held back,
//! because a character has at most four bytes and a byte-fallback decoder shows each byte as one
//! U+FFFD. More than three in a row cannot become one character, so the first ones are final.

use std::sync::Arc;

use crate::border::Failure;
use crate::tokenizer::Loaded;

const BROKEN: char = '\u{FFFD}';
const MAX_HELD: usize = 3;
/// Only reached if all tokens end within a character; then the older half is dropped.
const MAX_WINDOW: usize = 32;

pub struct Detokenizer {
    tokenizer: Arc<Loaded>,
    skip_special_tokens: bool,
    window: Vec<u32>,
    /// Index in the window of the first token after the last whole character.
    pending: usize,
    /// Text of the window that was returned already.
    emitted: String,
}

impl Detokenizer {
    pub fn new(tokenizer: Arc<Loaded>, skip_special_tokens: bool) -> Self {
        Detokenizer {
            tokenizer,
            skip_special_tokens,
            window: Vec::new(),
            pending: 0,
            emitted: String::new(),
        }
    }

    /// Appends to `out` the text that `id` makes final.
    pub fn push(&mut self, id: u32, out: &mut String) -> Result<(), Failure> {
        // A token without text must not become the window's only context.
        let skipped = self.skip_special_tokens && self.tokenizer.is_special(id);
        if skipped || self.tokenizer.inner.id_to_token(id).is_none() {
            return Ok(());
        }
        self.window.push(id);
        let mut text = self.decode(&self.window)?;
        if !text.starts_with(&self.emitted) {
            // A byte-fallback decoder turns a whole run of bytes into U+FFFD while its last
            // character is incomplete, even characters returned before. The character may be
            // complete within four tokens.
            if self.window.len() - self.pending <= MAX_HELD {
                return Ok(());
            }
            self.window.drain(..self.pending);
            self.pending = 0;
            self.emitted.clear();
            text = self.decode(&self.window)?;
        }
        let settled = settled_length(&text);
        if settled > self.emitted.len() {
            out.push_str(&text[self.emitted.len()..settled]);
            self.emitted.truncate(0);
            self.emitted.push_str(&text[..settled]);
        }
        if settled == text.len() {
            self.window.drain(..self.pending);
            self.pending = self.window.len();
            self.emitted = self.decode(&self.window)?;
        } else if self.window.len() >= MAX_WINDOW {
            self.window.drain(..MAX_WINDOW / 2);
            self.pending = 0;
            let rest = self.decode(&self.window)?;
            self.emitted = rest[..settled_length(&rest)].to_string();
        }
        Ok(())
    }

    /// Appends the text held back, broken or not, and starts over.
    pub fn flush(&mut self, out: &mut String) -> Result<(), Failure> {
        let text = self.decode(&self.window)?;
        match text.strip_prefix(self.emitted.as_str()) {
            Some(rest) => out.push_str(rest),
            None => out.push_str(&self.decode(&self.window[self.pending..])?),
        }
        self.window.clear();
        self.pending = 0;
        self.emitted.clear();
        Ok(())
    }

    fn decode(&self, ids: &[u32]) -> Result<String, Failure> {
        self.tokenizer.decode_known(ids, self.skip_special_tokens)
    }
}

/// Bytes of `text` that no later token can change.
fn settled_length(text: &str) -> usize {
    let held = text
        .chars()
        .rev()
        .take(MAX_HELD)
        .take_while(|c| *c == BROKEN)
        .count();
    text.len() - held * BROKEN.len_utf8()
}
