#include "dataplane/text/tokenizer.h"

#include "common/read_file.h"
#include "common/vocabulary_files.h"
#include "dataplane/text/text_buffer.h"

namespace janus::text {

Result<std::shared_ptr<const Tokenizer>> Tokenizer::FromJson(std::string_view json,
                                                             std::string_view name) {
  JanusTokenizer* handle = nullptr;
  TextBuffer error;
  const int32_t code = janus_tokenizer_load(Bytes(json), json.size(), &handle, error.out());
  if (code != 0) return ToStatus(code, error).Annotate(name);
  const std::shared_ptr<const Tokenizer> tokenizer(new Tokenizer(handle, false));
  // Check the ids that the post-processor adds to every text, because loading does not check them.
  if (const auto added = tokenizer->Encode("", true); added.ok()) {
    for (const int32_t id : *added) {
      if (id >= 0 && id < tokenizer->id_limit()) continue;
      return InvalidArgument(std::string(name) + ": post_processor adds the id " +
                             std::to_string(id) + ", which no token has");
    }
  }
  return tokenizer;
}

Result<std::shared_ptr<const Tokenizer>> Tokenizer::FromTiktoken(std::string_view ranks,
                                                                 std::string_view config_json,
                                                                 std::string_view name) {
  JanusTokenizer* handle = nullptr;
  TextBuffer error;
  const int32_t code = janus_tokenizer_load_tiktoken(Bytes(ranks), ranks.size(), Bytes(config_json),
                                                     config_json.size(), &handle, error.out());
  if (code != 0) return ToStatus(code, error).Annotate(name);
  return std::shared_ptr<const Tokenizer>(new Tokenizer(handle, true));
}

Result<std::shared_ptr<const Tokenizer>> Tokenizer::LoadOf(const std::string& model_dir) {
  Result<std::shared_ptr<const Tokenizer>> json =
      Load(model_dir + "/" + std::string(kTokenizerJson));
  if (json.status().code() != StatusCode::kNotFound) return json;
  const std::string path = model_dir + "/" + std::string(kTiktokenModel);
  const Result<std::string> ranks = ReadFile(path);
  if (ranks.status().code() == StatusCode::kNotFound) {
    return NotFound(model_dir + " has no " + std::string(kTokenizerJson) + " and no " +
                    std::string(kTiktokenModel) + "; want the checkpoint's tokenizer files in it");
  }
  JANUS_RETURN_IF_ERROR(ranks.status());
  JANUS_ASSIGN_OR_RETURN(const std::string config, ReadFile(model_dir + "/tokenizer_config.json"));
  return FromTiktoken(*ranks, config, path);
}

Result<std::shared_ptr<const Tokenizer>> Tokenizer::Load(const std::string& path) {
  JANUS_ASSIGN_OR_RETURN(const std::string json, ReadFile(path));
  return FromJson(json, path);
}

Tokenizer::~Tokenizer() {
  janus_tokenizer_free(handle_);
}

Result<std::vector<int32_t>> Tokenizer::Encode(std::string_view text,
                                               bool add_special_tokens) const {
  JanusIds ids{};
  TextBuffer error;
  const int32_t code = janus_tokenizer_encode(handle_, Bytes(text), text.size(), add_special_tokens,
                                              &ids, error.out());
  if (code != 0) return ToStatus(code, error);
  std::vector<int32_t> result(ids.data, ids.data + ids.size);
  janus_ids_free(ids);
  return result;
}

Result<std::string> Tokenizer::Decode(std::span<const int32_t> ids,
                                      bool skip_special_tokens) const {
  TextBuffer text, error;
  const int32_t code =
      janus_tokenizer_decode(handle_, reinterpret_cast<const uint32_t*>(ids.data()), ids.size(),
                             skip_special_tokens, text.out(), error.out());
  if (code != 0) return ToStatus(code, error);
  return text.str();
}

int64_t Tokenizer::vocabulary_size() const {
  return static_cast<int64_t>(janus_tokenizer_vocabulary_size(handle_));
}

int32_t Tokenizer::id_limit() const {
  return static_cast<int32_t>(janus_tokenizer_id_limit(handle_));
}

Result<int32_t> Tokenizer::TokenToId(std::string_view token) const {
  uint32_t id = 0;
  TextBuffer error;
  const int32_t code =
      janus_tokenizer_token_to_id(handle_, Bytes(token), token.size(), &id, error.out());
  if (code != 0) return ToStatus(code, error);
  return static_cast<int32_t>(id);
}

Result<std::string> Tokenizer::IdToToken(int32_t id) const {
  TextBuffer text, error;
  const int32_t code =
      janus_tokenizer_id_to_token(handle_, static_cast<uint32_t>(id), text.out(), error.out());
  if (code != 0) return ToStatus(code, error);
  return text.str();
}

Result<std::string> Tokenizer::TokenBytes(int32_t id) const {
  TextBuffer bytes, error;
  const int32_t code =
      janus_tokenizer_token_bytes(handle_, static_cast<uint32_t>(id), bytes.out(), error.out());
  if (code != 0) return ToStatus(code, error);
  return bytes.str();
}

bool Tokenizer::IsSpecial(int32_t id) const {
  return janus_tokenizer_is_special(handle_, static_cast<uint32_t>(id)) != 0;
}

}  // namespace janus::text
