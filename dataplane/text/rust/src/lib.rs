//! Tokenizer, detokenizer and chat template behind the C ABI of ../../abi.h, which documents it.

mod border;
mod detokenizer;
mod python_json;
mod python_percent;
mod python_text;
mod chat_template;
mod grammar;
mod tiktoken;
mod tokenizer;

use std::sync::Arc;

use border::{fail, guarded, slice, text, Ids, Text, INVALID_ARGUMENT, NOT_FOUND};
use detokenizer::Detokenizer;
use chat_template::Template;
use grammar::{Compiler, Grammar, Reader};
use tokenizer::Loaded;

/// Shared with the detokenizers made from it.
pub struct JanusTokenizer(Arc<Loaded>);

unsafe fn loaded<'a>(tokenizer: *const JanusTokenizer) -> &'a Loaded {
    &(&*tokenizer).0
}

/// # Safety
/// See `Buffer::free`.
#[no_mangle]
pub unsafe extern "C" fn janus_text_free(buffer: Text) {
    buffer.free();
}

/// # Safety
/// See `Buffer::free`.
#[no_mangle]
pub unsafe extern "C" fn janus_ids_free(buffer: Ids) {
    buffer.free();
}

/// # Safety
/// Pointers as described in abi.h; the same for every function below.
#[no_mangle]
pub unsafe extern "C" fn janus_tokenizer_load(
    json: *const u8,
    size: usize,
    out: *mut *mut JanusTokenizer,
    error: *mut Text,
) -> i32 {
    guarded(out, error, || {
        let loaded = Loaded::from_json(text(json, size)?)?;
        Ok(Box::into_raw(Box::new(JanusTokenizer(Arc::new(loaded)))))
    })
}

/// # Safety
/// Pointers as described in abi.h.
#[no_mangle]
pub unsafe extern "C" fn janus_tokenizer_load_tiktoken(
    ranks: *const u8,
    size: usize,
    config: *const u8,
    config_size: usize,
    out: *mut *mut JanusTokenizer,
    error: *mut Text,
) -> i32 {
    guarded(out, error, || {
        let loaded = Loaded::from_tiktoken(text(ranks, size)?, text(config, config_size)?)?;
        Ok(Box::into_raw(Box::new(JanusTokenizer(Arc::new(loaded)))))
    })
}

/// # Safety
/// From a janus_tokenizer_load*; free it once.
#[no_mangle]
pub unsafe extern "C" fn janus_tokenizer_free(tokenizer: *mut JanusTokenizer) {
    if !tokenizer.is_null() {
        drop(Box::from_raw(tokenizer));
    }
}

/// # Safety
/// A live tokenizer.
#[no_mangle]
pub unsafe extern "C" fn janus_tokenizer_vocabulary_size(
    tokenizer: *const JanusTokenizer,
) -> usize {
    loaded(tokenizer).vocabulary_size()
}

/// # Safety
/// A live tokenizer.
#[no_mangle]
pub unsafe extern "C" fn janus_tokenizer_id_limit(tokenizer: *const JanusTokenizer) -> u32 {
    loaded(tokenizer).id_limit()
}

/// # Safety
/// As in abi.h.
#[no_mangle]
pub unsafe extern "C" fn janus_tokenizer_encode(
    tokenizer: *const JanusTokenizer,
    input: *const u8,
    size: usize,
    add_special_tokens: i32,
    out: *mut Ids,
    error: *mut Text,
) -> i32 {
    guarded(out, error, || {
        let ids = loaded(tokenizer).encode(text(input, size)?, add_special_tokens != 0)?;
        Ok(Ids::give(ids))
    })
}

/// # Safety
/// As in abi.h.
#[no_mangle]
pub unsafe extern "C" fn janus_tokenizer_decode(
    tokenizer: *const JanusTokenizer,
    ids: *const u32,
    count: usize,
    skip_special_tokens: i32,
    out: *mut Text,
    error: *mut Text,
) -> i32 {
    guarded(out, error, || {
        let text = loaded(tokenizer).decode(slice(ids, count), skip_special_tokens != 0)?;
        Ok(Text::give(text.into_bytes()))
    })
}

/// # Safety
/// As in abi.h.
#[no_mangle]
pub unsafe extern "C" fn janus_tokenizer_token_to_id(
    tokenizer: *const JanusTokenizer,
    token: *const u8,
    size: usize,
    out: *mut u32,
    error: *mut Text,
) -> i32 {
    guarded(out, error, || {
        let token = text(token, size)?;
        match loaded(tokenizer).inner.token_to_id(token) {
            Some(id) => Ok(id),
            None => fail(NOT_FOUND, format!("no token '{token}' in the vocabulary")),
        }
    })
}

/// # Safety
/// As in abi.h.
#[no_mangle]
pub unsafe extern "C" fn janus_tokenizer_id_to_token(
    tokenizer: *const JanusTokenizer,
    id: u32,
    out: *mut Text,
    error: *mut Text,
) -> i32 {
    guarded(out, error, || {
        match loaded(tokenizer).inner.id_to_token(id) {
            Some(token) => Ok(Text::give(token.into_bytes())),
            None => fail(NOT_FOUND, format!("no token has the id {id}")),
        }
    })
}

/// # Safety
/// As in abi.h.
#[no_mangle]
pub unsafe extern "C" fn janus_tokenizer_token_bytes(
    tokenizer: *const JanusTokenizer,
    id: u32,
    out: *mut Text,
    error: *mut Text,
) -> i32 {
    guarded(out, error, || match loaded(tokenizer).token_bytes(id) {
        Some(bytes) => Ok(Text::give(bytes)),
        None => fail(NOT_FOUND, format!("no token has the id {id}")),
    })
}

/// # Safety
/// A live tokenizer.
#[no_mangle]
pub unsafe extern "C" fn janus_tokenizer_is_special(
    tokenizer: *const JanusTokenizer,
    id: u32,
) -> i32 {
    loaded(tokenizer).is_special(id).into()
}

/// # Safety
/// As in abi.h.
#[no_mangle]
pub unsafe extern "C" fn janus_detokenizer_new(
    tokenizer: *const JanusTokenizer,
    skip_special_tokens: i32,
    out: *mut *mut Detokenizer,
    error: *mut Text,
) -> i32 {
    guarded(out, error, || {
        let shared = Arc::clone(&(*tokenizer).0);
        Ok(Box::into_raw(Box::new(Detokenizer::new(
            shared,
            skip_special_tokens != 0,
        ))))
    })
}

/// # Safety
/// From janus_detokenizer_new; free it once.
#[no_mangle]
pub unsafe extern "C" fn janus_detokenizer_free(detokenizer: *mut Detokenizer) {
    if !detokenizer.is_null() {
        drop(Box::from_raw(detokenizer));
    }
}

/// # Safety
/// As in abi.h; no other call may use this detokenizer meanwhile.
#[no_mangle]
pub unsafe extern "C" fn janus_detokenizer_push(
    detokenizer: *mut Detokenizer,
    ids: *const u32,
    count: usize,
    out: *mut Text,
    error: *mut Text,
) -> i32 {
    guarded(out, error, || {
        let mut text = String::new();
        for id in slice(ids, count) {
            (*detokenizer).push(*id, &mut text)?;
        }
        Ok(Text::give(text.into_bytes()))
    })
}

/// # Safety
/// As in abi.h; no other call may use this detokenizer meanwhile.
#[no_mangle]
pub unsafe extern "C" fn janus_detokenizer_flush(
    detokenizer: *mut Detokenizer,
    out: *mut Text,
    error: *mut Text,
) -> i32 {
    guarded(out, error, || {
        let mut text = String::new();
        (*detokenizer).flush(&mut text)?;
        Ok(Text::give(text.into_bytes()))
    })
}

/// # Safety
/// As in abi.h.
#[no_mangle]
pub unsafe extern "C" fn janus_template_compile(
    source: *const u8,
    size: usize,
    out: *mut *mut Template,
    error: *mut Text,
) -> i32 {
    guarded(out, error, || {
        Ok(Box::into_raw(Box::new(Template::compile(text(
            source, size,
        )?)?)))
    })
}

/// # Safety
/// From janus_template_compile; free it once.
#[no_mangle]
pub unsafe extern "C" fn janus_template_free(compiled: *mut Template) {
    if !compiled.is_null() {
        drop(Box::from_raw(compiled));
    }
}

/// # Safety
/// As in abi.h.
#[no_mangle]
#[allow(clippy::too_many_arguments)]
pub unsafe extern "C" fn janus_template_render(
    compiled: *const Template,
    variables: *const u8,
    size: usize,
    unix_seconds: i64,
    fuel: u64,
    max_bytes: usize,
    out: *mut Text,
    error: *mut Text,
) -> i32 {
    guarded(out, error, || {
        let rendered = (*compiled).render(text(variables, size)?, unix_seconds, fuel, max_bytes)?;
        Ok(Text::give(rendered.into_bytes()))
    })
}

/// # Safety
/// As in abi.h.
#[no_mangle]
pub unsafe extern "C" fn janus_grammar_compiler_new(
    tokenizer: *const JanusTokenizer,
    out: *mut *mut Compiler,
    error: *mut Text,
) -> i32 {
    guarded(out, error, || {
        Ok(Box::into_raw(Box::new(Compiler::new(loaded(tokenizer))?)))
    })
}

/// # Safety
/// From janus_grammar_compiler_new; free it once.
#[no_mangle]
pub unsafe extern "C" fn janus_grammar_compiler_free(compiler: *mut Compiler) {
    if !compiler.is_null() {
        drop(Box::from_raw(compiler));
    }
}

/// # Safety
/// As in abi.h.
#[no_mangle]
pub unsafe extern "C" fn janus_grammar_compile(
    compiler: *const Compiler,
    grammar: *const u8,
    size: usize,
    out: *mut *mut Grammar,
    error: *mut Text,
) -> i32 {
    guarded(out, error, || {
        let compiled = (*compiler).compile(text(grammar, size)?)?;
        Ok(Box::into_raw(Box::new(compiled)))
    })
}

/// # Safety
/// From janus_grammar_compile; free it once.
#[no_mangle]
pub unsafe extern "C" fn janus_grammar_free(grammar: *mut Grammar) {
    if !grammar.is_null() {
        drop(Box::from_raw(grammar));
    }
}

/// # Safety
/// As in abi.h.
#[no_mangle]
pub unsafe extern "C" fn janus_grammar_start(
    grammar: *const Grammar,
    out: *mut *mut Reader,
    error: *mut Text,
) -> i32 {
    guarded(out, error, || {
        Ok(Box::into_raw(Box::new((*grammar).start()?)))
    })
}

/// # Safety
/// From janus_grammar_start; free it once.
#[no_mangle]
pub unsafe extern "C" fn janus_grammar_reader_free(reader: *mut Reader) {
    if !reader.is_null() {
        drop(Box::from_raw(reader));
    }
}

/// # Safety
/// As in abi.h; no other call may use this reader meanwhile.
#[no_mangle]
pub unsafe extern "C" fn janus_grammar_reader_consume(
    reader: *mut Reader,
    ids: *const u32,
    count: usize,
    state: *mut i32,
    error: *mut Text,
) -> i32 {
    guarded(state, error, || (*reader).consume(slice(ids, count)))
}

/// # Safety
/// As in abi.h; no other call may use this reader meanwhile.
#[no_mangle]
pub unsafe extern "C" fn janus_grammar_reader_mask(
    reader: *mut Reader,
    words: *mut u32,
    count: usize,
    state: *mut i32,
    error: *mut Text,
) -> i32 {
    guarded(state, error, || {
        (*reader).mask(std::slice::from_raw_parts_mut(words, count))
    })
}

/// # Safety
/// `error` must be writable.
#[no_mangle]
pub unsafe extern "C" fn janus_text_panic_for_test(error: *mut Text) -> i32 {
    let mut nothing = ();
    guarded(&mut nothing, error, || {
        if error.is_null() {
            return fail(INVALID_ARGUMENT, "no place for the error");
        }
        panic!("asked for by the test")
    })
}
