#include "dataplane/text/grammar.h"

#include <string>

#include "dataplane/text/text_buffer.h"

namespace janus::text {

void GrammarReader::Free::operator()(JanusGrammarReader* handle) const {
  janus_grammar_reader_free(handle);
}

void Grammar::Free::operator()(JanusGrammar* handle) const {
  janus_grammar_free(handle);
}

void GrammarCompiler::Free::operator()(JanusGrammarCompiler* handle) const {
  janus_grammar_compiler_free(handle);
}

Result<GrammarState> GrammarReader::Consume(std::span<const int32_t> tokens) {
  int32_t state = 0;
  TextBuffer error;
  const int32_t code =
      janus_grammar_reader_consume(handle_.get(), reinterpret_cast<const uint32_t*>(tokens.data()),
                                   tokens.size(), &state, error.out());
  if (code != 0) return ToStatus(code, error);
  return static_cast<GrammarState>(state);
}

Result<GrammarState> GrammarReader::Mask(std::span<uint32_t> words) {
  int32_t state = 0;
  TextBuffer error;
  const int32_t code =
      janus_grammar_reader_mask(handle_.get(), words.data(), words.size(), &state, error.out());
  if (code != 0) return ToStatus(code, error);
  return static_cast<GrammarState>(state);
}

Result<GrammarReader> Grammar::Start() const {
  JanusGrammarReader* handle = nullptr;
  TextBuffer error;
  const int32_t code = janus_grammar_start(handle_.get(), &handle, error.out());
  if (code != 0) return ToStatus(code, error);
  return GrammarReader(handle);
}

Result<std::shared_ptr<const GrammarCompiler>> GrammarCompiler::Create(const Tokenizer& tokenizer) {
  JanusGrammarCompiler* handle = nullptr;
  TextBuffer error;
  const int32_t code = janus_grammar_compiler_new(tokenizer.handle_, &handle, error.out());
  if (code != 0) return ToStatus(code, error);
  return std::shared_ptr<const GrammarCompiler>(new GrammarCompiler(handle));
}

Result<std::shared_ptr<const Grammar>> GrammarCompiler::Compile(std::string_view json) const {
  if (json.size() > kMostBytes) {
    return InvalidArgument("the grammar has " + std::to_string(json.size()) + " bytes, at most " +
                           std::to_string(kMostBytes) + " are compiled");
  }
  JanusGrammar* handle = nullptr;
  TextBuffer error;
  const int32_t code =
      janus_grammar_compile(handle_.get(), Bytes(json), json.size(), &handle, error.out());
  if (code != 0) return ToStatus(code, error);
  return std::shared_ptr<const Grammar>(new Grammar(handle));
}

}  // namespace janus::text
