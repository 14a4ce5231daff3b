//! Vocabularies in the format of tiktoken, as Kimi-K2 publishes its own: tiktoken.model has a line
//! "<bytes in base64> <rank>" for each token, and the rank is its id. tokenizer_config.json names
//! the special tokens, whose ids follow. The words are those of tokenization_kimi.py.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};

use ahash::AHashMap;
use serde_json::Value;
use tokenizers::models::bpe::BPE;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::{
    AddedToken, Model, ModelWrapper, OffsetType, PreTokenizer, SplitDelimiterBehavior, Token,
    Tokenizer,
};

use crate::border::{fail, Failure, INTERNAL, INVALID_ARGUMENT};

/// Runs of Chinese characters; words by case, with English contractions; up to three digits; runs
/// of other characters with the line ends behind them; blanks without the last one before a word.
const WORDS: &str = concat!(
    r"[\p{Han}]+",
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*",
    r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+",
    r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|\p{N}{1,3}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*",
    r"|\s*[\r\n]+",
    r"|\s+(?!\S)",
    r"|\s+",
);
/// Reserved ids behind the vocabulary, with or without a token in tokenizer_config.json.
const SPECIAL_TOKENS: u32 = 258;
/// tokenization_kimi.py begins a new text after so many characters, or after so many blanks or
/// other characters in a row.
const MOST_CHARACTERS: usize = 400_000;
const LONGEST_RUN: usize = 25_000;
const MOST_TOKENS: usize = 1 << 22;

/// `alphabet`: how a byte is written in the tokenizer's entries.
pub fn load(ranks: &str, config: &str, alphabet: &[char; 256]) -> Result<Tokenizer, Failure> {
    let config: Value = match serde_json::from_str(config) {
        Ok(value) => value,
        Err(e) => {
            return fail(
                INVALID_ARGUMENT,
                format!("tokenizer_config.json: not JSON: {e}"),
            )
        }
    };
    let program = config["auto_map"]["AutoTokenizer"][0]
        .as_str()
        .unwrap_or("");
    if program != "tokenization_kimi.TikTokenTokenizer" {
        return fail(
            INVALID_ARGUMENT,
            format!(
                "the words of a vocabulary of tiktoken are known for Kimi alone \
                 (tokenization_kimi.TikTokenTokenizer), and auto_map.AutoTokenizer of \
                 tokenizer_config.json says '{program}'; convert the vocabulary to a \
                 tokenizer.json, for example with TikTokenConverter of transformers"
            ),
        );
    }
    let vocabulary = parse(ranks, alphabet)?;
    let first_special = vocabulary.len() as u32;
    // The model gets no list of merges, because they follow from the ranks (see `merge`).
    let model = match BPE::builder()
        .vocab_and_merges(vocabulary, Vec::new())
        .build()
    {
        Ok(model) => model,
        Err(e) => return fail(INTERNAL, e),
    };
    let mut tokenizer = Tokenizer::new(model);
    let words = match Split::new(
        SplitPattern::Regex(WORDS.into()),
        SplitDelimiterBehavior::Isolated,
        false,
    ) {
        Ok(words) => words,
        Err(e) => return fail(INTERNAL, e),
    };
    let bytes = ByteLevel::new(false, false, false);
    tokenizer.with_pre_tokenizer(Some(Sequence::new(vec![words.into(), bytes.into()])));
    tokenizer.with_decoder(Some(bytes));
    tokenizer.add_tokens(&special_tokens(&config, first_special)?);
    Ok(tokenizer)
}

fn parse(ranks: &str, alphabet: &[char; 256]) -> Result<AHashMap<String, u32>, Failure> {
    let mut vocabulary = AHashMap::new();
    let mut seen = HashSet::new();
    for (at, line) in ranks.lines().enumerate() {
        let wrong = |what: &str| fail(INVALID_ARGUMENT, format!("line {}: {what}", at + 1));
        if line.is_empty() {
            continue;
        }
        if vocabulary.len() == MOST_TOKENS {
            return wrong("too many tokens");
        }
        let Some((text, rank)) = line.split_once(' ') else {
            return wrong("want '<bytes in base64> <rank>'");
        };
        let Ok(bytes) = base64::decode(text) else {
            return wrong("the first word is not base64");
        };
        let Ok(rank) = rank.parse::<u32>() else {
            return wrong("the rank is not a number");
        };
        let entry: String = bytes.iter().map(|b| alphabet[usize::from(*b)]).collect();
        if entry.is_empty() || vocabulary.insert(entry, rank).is_some() {
            return wrong("the token is empty or occurs twice");
        }
        if !seen.insert(rank) {
            return wrong("the rank occurs twice");
        }
    }
    if let Some(missing) = (0..vocabulary.len() as u32).find(|rank| !seen.contains(rank)) {
        return fail(
            INVALID_ARGUMENT,
            format!("no token has the rank {missing}; ranks must be 0 to the number of tokens"),
        );
    }
    if alphabet
        .iter()
        .any(|byte| !vocabulary.contains_key(&byte.to_string()))
    {
        return fail(
            INVALID_ARGUMENT,
            "want a token for each of the 256 bytes: every text must have tokens",
        );
    }
    Ok(vocabulary)
}

fn special_tokens(config: &Value, first: u32) -> Result<Vec<AddedToken>, Failure> {
    let listed = &config["added_tokens_decoder"];
    let mut names = HashSet::new();
    let mut tokens = Vec::new();
    for id in first..first + SPECIAL_TOKENS {
        let given = &listed[id.to_string()];
        let name = match given["content"].as_str() {
            Some(name) => name.to_string(),
            None => format!("<|reserved_token_{id}|>"),
        };
        if name.is_empty() || !names.insert(name.clone()) {
            return fail(
                INVALID_ARGUMENT,
                format!(
                    "tokenizer_config.json: added_tokens_decoder: the token {id} is empty or occurs twice"
                ),
            );
        }
        let special = given["special"].as_bool().unwrap_or(true);
        tokens.push(AddedToken::from(name, special).normalized(false));
    }
    Ok(tokens)
}

pub fn encode(tokenizer: &Tokenizer, text: &str) -> tokenizers::Result<Vec<u32>> {
    let mut ids = Vec::new();
    for part in parts(text) {
        let mut words = tokenizer
            .get_added_vocabulary()
            .extract_and_normalize(tokenizer.get_normalizer(), part);
        if let Some(splitter) = tokenizer.get_pre_tokenizer() {
            splitter.pre_tokenize(&mut words)?;
        }
        let model = tokenizer.get_model();
        words.tokenize(|word| {
            let token = |id| Token::new(id, String::new(), (0, 0));
            Ok(merge(word.get(), model).into_iter().map(token).collect())
        })?;
        let encoding = words.into_encoding(None, 0, OffsetType::None)?;
        ids.extend_from_slice(encoding.get_ids());
    }
    Ok(ids)
}

/// Cuts long texts, and long runs of blanks or of other characters.
fn parts(text: &str) -> Vec<&str> {
    let mut out = Vec::new();
    let (mut begin, mut characters, mut run, mut is_blank) = (0, 0, 0, false);
    for (at, c) in text.char_indices() {
        // Python counts the separators U+001C to U+001F as blanks.
        let now = c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c);
        run = if now == is_blank { run + 1 } else { 1 };
        is_blank = now;
        if characters == MOST_CHARACTERS || run > LONGEST_RUN {
            out.push(&text[begin..at]);
            begin = at;
            run = 1;
            if characters == MOST_CHARACTERS {
                characters = 0;
            }
        }
        characters += 1;
    }
    out.push(&text[begin..]);
    out
}

/// The tokens of a word, as tiktoken finds them: of all neighbours that are a token together, those
/// of the lowest rank become one, the leftmost first, until there are none.
fn merge(word: &str, model: &ModelWrapper) -> Vec<u32> {
    let rank = |from: usize, to: usize| model.token_to_id(&word[from..to]);
    if let Some(id) = rank(0, word.len()) {
        return vec![id];
    }
    // Part i begins at begins[i] and ends where the part next[i] begins.
    let mut begins: Vec<usize> = word.char_indices().map(|(at, _)| at).collect();
    let count = begins.len();
    begins.push(word.len());
    let mut next: Vec<usize> = (1..=count + 1).collect();
    let mut previous: Vec<usize> = (0..=count).map(|i| i.wrapping_sub(1)).collect();
    let mut is_part = vec![true; count + 1];
    // (rank, part, the end of its neighbour); entries of parts that have changed are passed over.
    let mut pairs = BinaryHeap::new();
    let push = |pairs: &mut BinaryHeap<Reverse<(u32, usize, usize)>>, part: usize, next: &[usize]| {
        if next[part] < count {
            let end = begins[next[next[part]]];
            if let Some(rank) = rank(begins[part], end) {
                pairs.push(Reverse((rank, part, end)));
            }
        }
    };
    for part in 0..count {
        push(&mut pairs, part, &next);
    }
    while let Some(Reverse((_, part, end))) = pairs.pop() {
        let is_current = is_part[part]
            && next[part] < count
            && begins[next[next[part]]] == end;
        if !is_current {
            continue;
        }
        let merged = next[part];
        is_part[merged] = false;
        next[part] = next[merged];
        previous[next[part]] = part;
        push(&mut pairs, part, &next);
        if part > 0 {
            push(&mut pairs, previous[part], &next);
        }
    }
    let mut ids = Vec::new();
    let mut part = 0;
    while part < count {
        // Every byte is a token, so every part is.
        ids.extend(rank(begins[part], begins[next[part]]));
        part = next[part];
    }
    ids
}
