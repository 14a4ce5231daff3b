#pragma once

#include <stddef.h>
#include <stdint.h>

// The border to the Rust archive (rust/): tokenizers, minijinja and llguidance behind plain C. Only
// the wrappers of this folder (tokenizer, detokenizer, chat_template, grammar) include it.
//
// Every function returns 0, or the number of a StatusCode and a message in `error`. Text goes in as
// (bytes, size), without a terminating zero; the other side checks that it is UTF-8. A panic
// becomes Internal (13). The Rust side owns returned buffers: pass each one to its *_free exactly
// once, even an empty one. *_free of a zeroed buffer does nothing.
//
// Threads: many threads may use a tokenizer, a template, a compiler or a grammar at once, but only
// one a detokenizer or a grammar's reader.

#ifdef __cplusplus
extern "C" {
#endif

typedef struct JanusTokenizer JanusTokenizer;
typedef struct JanusDetokenizer JanusDetokenizer;
typedef struct JanusTemplate JanusTemplate;
typedef struct JanusGrammarCompiler JanusGrammarCompiler;
typedef struct JanusGrammar JanusGrammar;
typedef struct JanusGrammarReader JanusGrammarReader;

typedef struct JanusText {
  uint8_t* data;
  size_t size;
  size_t capacity;
} JanusText;

typedef struct JanusIds {
  uint32_t* data;
  size_t size;
  size_t capacity;
} JanusIds;

void janus_text_free(JanusText text);
void janus_ids_free(JanusIds ids);

int32_t janus_tokenizer_load(const uint8_t* json, size_t size, JanusTokenizer** out,
                             JanusText* error);
// A vocabulary in the format of tiktoken and the tokenizer_config.json beside it.
int32_t janus_tokenizer_load_tiktoken(const uint8_t* ranks, size_t size, const uint8_t* config,
                                      size_t config_size, JanusTokenizer** out, JanusText* error);
void janus_tokenizer_free(JanusTokenizer* tokenizer);
// Number of tokens with an id, including added ones.
size_t janus_tokenizer_vocabulary_size(const JanusTokenizer* tokenizer);
// The highest id plus one: ids may have holes.
uint32_t janus_tokenizer_id_limit(const JanusTokenizer* tokenizer);
int32_t janus_tokenizer_encode(const JanusTokenizer* tokenizer, const uint8_t* text, size_t size,
                               int32_t add_special_tokens, JanusIds* out, JanusText* error);
int32_t janus_tokenizer_decode(const JanusTokenizer* tokenizer, const uint32_t* ids, size_t count,
                               int32_t skip_special_tokens, JanusText* out, JanusText* error);
// 5 (NotFound): there is no such token.
int32_t janus_tokenizer_token_to_id(const JanusTokenizer* tokenizer, const uint8_t* token,
                                    size_t size, uint32_t* out, JanusText* error);
int32_t janus_tokenizer_id_to_token(const JanusTokenizer* tokenizer, uint32_t id, JanusText* out,
                                    JanusText* error);
// The bytes that the token adds to a text; alone they may be invalid UTF-8.
int32_t janus_tokenizer_token_bytes(const JanusTokenizer* tokenizer, uint32_t id, JanusText* out,
                                    JanusText* error);
int32_t janus_tokenizer_is_special(const JanusTokenizer* tokenizer, uint32_t id);

// Keeps the tokenizer alive.
int32_t janus_detokenizer_new(const JanusTokenizer* tokenizer, int32_t skip_special_tokens,
                              JanusDetokenizer** out, JanusText* error);
void janus_detokenizer_free(JanusDetokenizer* detokenizer);
int32_t janus_detokenizer_push(JanusDetokenizer* detokenizer, const uint32_t* ids, size_t count,
                               JanusText* out, JanusText* error);
int32_t janus_detokenizer_flush(JanusDetokenizer* detokenizer, JanusText* out, JanusText* error);

int32_t janus_template_compile(const uint8_t* source, size_t size, JanusTemplate** out,
                               JanusText* error);
void janus_template_free(JanusTemplate* compiled);
// `variables`: a JSON object. 8 (ResourceExhausted): more than `fuel` template instructions, or
// more than max_bytes of output. strftime_now shows unix_seconds in the local time zone.
int32_t janus_template_render(const JanusTemplate* compiled, const uint8_t* variables, size_t size,
                              int64_t unix_seconds, uint64_t fuel, size_t max_bytes, JanusText* out,
                              JanusText* error);

int32_t janus_grammar_compiler_new(const JanusTokenizer* tokenizer, JanusGrammarCompiler** out,
                                   JanusText* error);
void janus_grammar_compiler_free(JanusGrammarCompiler* compiler);
int32_t janus_grammar_compile(const JanusGrammarCompiler* compiler, const uint8_t* grammar,
                              size_t size, JanusGrammar** out, JanusText* error);
void janus_grammar_free(JanusGrammar* grammar);
int32_t janus_grammar_start(const JanusGrammar* grammar, JanusGrammarReader** out,
                            JanusText* error);
void janus_grammar_reader_free(JanusGrammarReader* reader);
// `state`: 0, the text must go on; 1, it may end; 2, it must end.
int32_t janus_grammar_reader_consume(JanusGrammarReader* reader, const uint32_t* ids, size_t count,
                                     int32_t* state, JanusText* error);
int32_t janus_grammar_reader_mask(JanusGrammarReader* reader, uint32_t* words, size_t count,
                                  int32_t* state, JanusText* error);

// For the test of this border: panics on the other side.
int32_t janus_text_panic_for_test(JanusText* error);

#ifdef __cplusplus
}
#endif
