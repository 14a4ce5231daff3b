#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"

struct JanusTokenizer;

namespace janus::text {

// The vocabulary of a checkpoint: a Hugging Face tokenizer.json (the `tokenizers` crate), or a
// tiktoken.model. Thread-safe: nothing changes after loading.
class Tokenizer {
 public:
  // Errors use `name` for the text, for example the file's path. InvalidArgument: not UTF-8, not
  // JSON, no tokenizer, of an unknown kind, an empty vocabulary.
  static Result<std::shared_ptr<const Tokenizer>> FromJson(std::string_view json,
                                                           std::string_view name);
  // `ranks`: lines "<bytes of a token in base64> <id>", as tiktoken writes them. `config_json`: the
  // tokenizer_config.json beside it, with the special tokens. Texts become the ids that Kimi-K2's
  // own program gives them. InvalidArgument: a line that is wrong, ids with holes, a byte without a
  // token, or another model's vocabulary, whose words are not known.
  static Result<std::shared_ptr<const Tokenizer>> FromTiktoken(std::string_view ranks,
                                                               std::string_view config_json,
                                                               std::string_view name);
  // Reads kTokenizerJson or kTiktokenModel (common/vocabulary_files.h). NotFound: the folder has
  // neither. Otherwise as FromJson and FromTiktoken.
  static Result<std::shared_ptr<const Tokenizer>> LoadOf(const std::string& model_dir);
  // Reads a tokenizer.json. NotFound, or as FromJson.
  static Result<std::shared_ptr<const Tokenizer>> Load(const std::string& path);
  ~Tokenizer();

  // With add_special_tokens, the file's post-processor adds its tokens (such as a begin-of-text
  // token). Special tokens spelled out in `text` become those tokens either way. Truncation and
  // padding in the file are ignored. InvalidArgument: `text` is not UTF-8.
  Result<std::vector<int32_t>> Encode(std::string_view text, bool add_special_tokens) const;

  // Decodes all ids at once. Broken characters become U+FFFD. InvalidArgument: an id is negative or
  // not below id_limit(). Ids without a token (holes) decode to nothing.
  Result<std::string> Decode(std::span<const int32_t> ids, bool skip_special_tokens) const;

  bool is_tiktoken() const { return is_tiktoken_; }

  // Number of tokens with an id, including added ones.
  int64_t vocabulary_size() const;
  // The highest id plus one, at most 2^24; the model's vocabulary may be larger still.
  int32_t id_limit() const;

  // NotFound: no token has this spelling.
  Result<int32_t> TokenToId(std::string_view token) const;
  // The token as the file spells it. NotFound: no such id.
  Result<std::string> IdToToken(int32_t id) const;
  // The bytes that the token adds to a text; alone they may be invalid UTF-8. NotFound: no such id.
  Result<std::string> TokenBytes(int32_t id) const;
  bool IsSpecial(int32_t id) const;

 private:
  friend class Detokenizer;
  friend class GrammarCompiler;
  Tokenizer(JanusTokenizer* handle, bool is_tiktoken)
      : handle_(handle), is_tiktoken_(is_tiktoken) {}

  JanusTokenizer* const handle_;  // owned
  const bool is_tiktoken_;
};

}  // namespace janus::text
