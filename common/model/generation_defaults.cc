#include "common/model/generation_defaults.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "common/read_file.h"

namespace janus {
namespace {

using Json = nlohmann::json;

std::string Shown(const Json& value) {
  constexpr size_t kMost = 60;
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > kMost) text = text.substr(0, kMost) + "...";
  return text;
}

// Reads fields one by one; an unusable value is noted and counts as absent.
class Reader {
 public:
  Reader(const Json& root, std::vector<std::string>* left_out) : root_(root), left_out_(left_out) {}

  // A number in [low, high]; as an integer 50.0 is valid too.
  std::optional<double> Number(const char* field, double low, double high, bool whole,
                               const char* wanted) {
    const Json* value = Find(field);
    if (value == nullptr) return std::nullopt;
    const std::optional<double> number = NumberIn(*value, low, high, whole);
    if (!number) LeaveOut(field, *value, wanted);
    return number;
  }
  std::optional<bool> Bool(const char* field) {
    const Json* value = Find(field);
    if (value == nullptr) return std::nullopt;
    if (value->is_boolean()) return value->get<bool>();
    LeaveOut(field, *value, "want true or false");
    return std::nullopt;
  }
  // One id or a list of them, without those that are not in the vocabulary.
  std::vector<int> Tokens(const char* field, int vocab) {
    const Json* value = Find(field);
    std::vector<int> out;
    if (value == nullptr) return out;
    const Json list = value->is_array() ? *value : Json::array({*value});
    bool all = true;
    for (const Json& id : list) {
      const std::optional<double> number = NumberIn(id, 0, vocab - 1, true);
      if (number) out.push_back(static_cast<int>(*number));
      all &= number.has_value();
    }
    if (!all) LeaveOut(field, *value, "the ids of tokens are 0 to " + std::to_string(vocab - 1));
    return out;
  }

 private:
  const Json* Find(const char* field) const {
    const auto found = root_.find(field);
    return found == root_.end() || found->is_null() ? nullptr : &*found;
  }
  static std::optional<double> NumberIn(const Json& value, double low, double high, bool whole) {
    if (!value.is_number()) return std::nullopt;
    const auto number = value.get<double>();
    const bool good = number >= low && number <= high && (!whole || number == std::floor(number));
    return good ? std::optional(number) : std::nullopt;
  }
  void LeaveOut(const char* field, const Json& value, const std::string& wanted) {
    left_out_->push_back(std::string(field) + " is " + Shown(value) + ": " + wanted);
  }

  const Json& root_;
  std::vector<std::string>* const left_out_;
};

Result<Json> ParseObject(std::string_view text) {
  Json root = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (root.is_discarded()) return InvalidArgument("not valid JSON");
  if (!root.is_object()) return InvalidArgument("not a JSON object");
  return root;
}

void ReadTokens(Reader& reader, int vocab, GenerationDefaults* out) {
  for (const int token : reader.Tokens("eos_token_id", vocab)) AddEos(token, out);
  const std::vector<int> bos = reader.Tokens("bos_token_id", vocab);
  if (!out->bos_token && !bos.empty()) out->bos_token = bos.front();
}

}  // namespace

Result<GenerationDefaults> ParseGenerationConfig(std::string_view json, int vocab) {
  JANUS_ASSIGN_OR_RETURN(const Json root, ParseObject(json));
  GenerationDefaults out;
  Reader reader(root, &out.left_out);
  ReadTokens(reader, vocab, &out);
  out.do_sample = reader.Bool("do_sample");
  out.temperature = reader.Number("temperature", 0, 100, false, "want 0 to 100");
  // Some checkpoints write -1 for "all".
  const auto top_k = reader.Number("top_k", -1, INT32_MAX, true, "want -1 or 0 (all), or more");
  if (top_k) out.top_k = std::max(0, static_cast<int>(*top_k));
  out.top_p = reader.Number("top_p", 0, 1, false, "want 0 to 1");
  return out;
}

Result<GenerationDefaults> LoadGenerationDefaults(const std::string& model_dir, int vocab) {
  GenerationDefaults out;
  const std::string path = model_dir + "/generation_config.json";
  std::error_code error;
  if (std::filesystem::exists(path, error)) {
    JANUS_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
    Result<GenerationDefaults> parsed = ParseGenerationConfig(text, vocab);
    if (!parsed.ok()) return std::move(parsed).status().Annotate(path);
    out = *std::move(parsed);
  }
  const std::string config = model_dir + "/config.json";
  JANUS_ASSIGN_OR_RETURN(const std::string text, ReadFile(config));
  const Result<Json> root = ParseObject(text);
  if (!root.ok()) return Status(root.status()).Annotate(config);
  Reader reader(*root, &out.left_out);
  ReadTokens(reader, vocab, &out);
  // A model of text and images has the text's tokens apart.
  const auto text_config = root->find("text_config");
  if (text_config != root->end() && text_config->is_object()) {
    Reader of_text(*text_config, &out.left_out);
    ReadTokens(of_text, vocab, &out);
  }
  return out;
}

void AddEos(int token, GenerationDefaults* defaults) {
  std::vector<int>& ends = defaults->eos_tokens;
  const auto at = std::ranges::lower_bound(ends, token);
  if (at == ends.end() || *at != token) ends.insert(at, token);
}

}  // namespace janus
