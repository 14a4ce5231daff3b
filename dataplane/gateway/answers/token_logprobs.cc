#include "dataplane/gateway/answers/token_logprobs.h"

#include <string_view>
#include <utility>

namespace janus::gateway {

namespace {

Json ByteList(std::string_view bytes) {
  Json list = Json::array();
  for (const char byte : bytes) list.push_back(static_cast<uint8_t>(byte));
  return list;
}

}  // namespace

double Finite(float logprob) {
  return logprob < -9999.0f ? -9999.0 : static_cast<double>(logprob);
}

std::string TokenText(const text::Tokenizer& tokenizer, int32_t id) {
  Result<std::string> bytes = tokenizer.TokenBytes(id);
  return bytes.ok() ? *std::move(bytes) : std::string();
}

Json TokenLogprobsJson(const std::vector<Answer::TokenText>& tokens, int top,
                       const text::Tokenizer& tokenizer) {
  Json list = Json::array();
  for (const Answer::TokenText& token : tokens) {
    Json alternatives = Json::array();
    for (size_t i = 0; i < token.logprobs.top.size() && static_cast<int>(i) < top; ++i) {
      const TokenLogprob& other = token.logprobs.top[i];
      const std::string text = TokenText(tokenizer, other.token);
      alternatives.push_back(
          {{"token", text}, {"logprob", Finite(other.logprob)}, {"bytes", ByteList(text)}});
    }
    list.push_back({{"token", token.bytes},
                    {"logprob", Finite(token.logprobs.logprob)},
                    {"bytes", ByteList(token.bytes)},
                    {"top_logprobs", std::move(alternatives)}});
  }
  return list;
}

}  // namespace janus::gateway
