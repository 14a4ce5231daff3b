//! Grammars that an answer must follow, in tokens.

use std::sync::{Arc, Mutex};

use llguidance::api::{GrammarInit, TopLevelGrammar};
use llguidance::toktrie::{ApproximateTokEnv, TokEnv, TokRxInfo, TokTrie};
use llguidance::{Matcher, ParserFactory};

use crate::border::{fail, Failure, INTERNAL, INVALID_ARGUMENT};
use crate::tokenizer::Loaded;

/// Compiles grammars for one tokenizer.
pub struct Compiler {
    factory: ParserFactory,
    tokens: usize,
}

/// A compiled grammar; readers are copies of it. The lock is for the copying.
pub struct Grammar {
    beginning: Mutex<Matcher>,
    tokens: usize,
}

/// Follows one text, from its beginning.
pub struct Reader {
    matcher: Matcher,
    tokens: usize,
}

pub const OPEN: i32 = 0;
pub const MAY_END: i32 = 1;
pub const COMPLETE: i32 = 2;

impl Compiler {
    pub fn new(tokenizer: &Loaded) -> Result<Self, Failure> {
        let tokens = tokenizer.id_limit() as usize;
        let mut words: Vec<Vec<u8>> = (0..tokens as u32)
            .map(|id| {
                let mut bytes = tokenizer.token_bytes(id).unwrap_or_default();
                // A grammar must name a special token to allow it; text never does.
                if tokenizer.is_special(id) {
                    bytes.insert(0, TokTrie::SPECIAL_TOKEN_MARKER);
                }
                bytes
            })
            .collect();
        // The library has one token for the end of a text. No token of the model can be it, because
        // the tokens that end an answer depend on the request.
        words.push(Vec::new());
        let info = TokRxInfo::new(words.len() as u32, tokens as u32);
        let environment: TokEnv =
            Arc::new(ApproximateTokEnv::new(TokTrie::from(&info, &words)));
        let mut factory = ParserFactory::new_simple(&environment)
            .or_else(|e| fail(INTERNAL, format!("cannot read the vocabulary: {e}")))?;
        factory.quiet();
        let limits = factory.limits_mut();
        limits.verbose_errors = false;
        // Some tenths of a second, and some megabytes for each answer.
        limits.max_grammar_size = 200_000;
        limits.initial_lexer_fuel = 1_000_000;
        limits.max_lexer_states = 50_000;
        // An object of 1,000 optional properties has 4,000.
        limits.max_items_in_row = 10_000;
        Ok(Compiler { factory, tokens })
    }

    /// `grammar`: the library's JSON form, {"grammars": [...]}.
    pub fn compile(&self, grammar: &str) -> Result<Grammar, Failure> {
        let parsed: TopLevelGrammar = serde_json::from_str(grammar)
            .or_else(|e| fail(INVALID_ARGUMENT, format!("not a grammar: {e}")))?;
        let parser = self
            .factory
            .create_parser_from_init_default(GrammarInit::Serialized(parsed));
        let matcher = Matcher::new(parser);
        if let Some(error) = matcher.get_error() {
            return fail(INVALID_ARGUMENT, explained(&error));
        }
        Ok(Grammar {
            beginning: Mutex::new(matcher),
            tokens: self.tokens,
        })
    }
}

impl Grammar {
    pub fn start(&self) -> Result<Reader, Failure> {
        match self.beginning.lock() {
            // The copy shares nothing, so one text's limits do not depend on other texts.
            Ok(matcher) => Ok(Reader {
                matcher: matcher.deep_clone(),
                tokens: self.tokens,
            }),
            Err(_) => fail(INTERNAL, "the grammar was lost in a panic"),
        }
    }
}

impl Reader {
    /// Takes tokens of the text, and says how it may go on.
    pub fn consume(&mut self, tokens: &[u32]) -> Result<i32, Failure> {
        if let Some(token) = tokens.iter().find(|t| **t as usize >= self.tokens) {
            return fail(INVALID_ARGUMENT, format!("token id {token} is not of the grammar"));
        }
        self.matcher
            .consume_tokens(tokens)
            .or_else(|e| self.failure(&e.to_string()))?;
        self.state()
    }

    pub fn state(&mut self) -> Result<i32, Failure> {
        if self.matcher.is_stopped() && !self.matcher.is_error() {
            return Ok(COMPLETE);
        }
        match self.matcher.is_accepting() {
            Ok(accepting) => Ok(if accepting { MAY_END } else { OPEN }),
            Err(e) => self.failure(&e.to_string()),
        }
    }

    /// Sets one bit for each token that may come next.
    pub fn mask(&mut self, allowed: &mut [u32]) -> Result<i32, Failure> {
        allowed.fill(0);
        let state = self.state()?;
        if state == COMPLETE {
            return Ok(state);
        }
        let mask = match self.matcher.compute_mask() {
            Ok(mask) => mask,
            // No token of this vocabulary goes on.
            Err(_) if state == MAY_END => return Ok(COMPLETE),
            Err(e) => return self.failure(&e.to_string()),
        };
        for (to, from) in allowed.iter_mut().zip(mask.as_slice()) {
            *to = *from;
        }
        let end = self.tokens;
        if let Some(word) = allowed.get_mut(end / 32) {
            *word &= !(1u32 << (end % 32));
        }
        Ok(state)
    }

    fn failure<T>(&self, error: &str) -> Result<T, Failure> {
        fail(INVALID_ARGUMENT, explained(error))
    }
}

/// The library's messages end with its own state.
fn explained(error: &str) -> String {
    error.replace("<non-verbose/>", "").trim().to_string()
}
