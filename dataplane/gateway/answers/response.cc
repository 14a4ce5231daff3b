#include "dataplane/gateway/answers/response.h"

#include <algorithm>
#include <cstdio>
#include <iterator>

#include "dataplane/gateway/answers/event.h"
#include "dataplane/gateway/answers/token_logprobs.h"

namespace janus::gateway {

namespace {

Json FinishReason(Finish finish) {
  switch (finish) {
    case Finish::kNone:
      return nullptr;
    case Finish::kStop:
      return "stop";
    case Finish::kLength:
      return "length";
    case Finish::kError:
      return "error";
  }
  return nullptr;
}

// A choice that ends with tool calls waits for their results.
Json FinishReason(const ResponseChoice& choice) {
  if (choice.finish == Finish::kStop && choice.has_called) return "tool_calls";
  return FinishReason(choice.finish);
}

Json ToolCallsJson(const ResponseHead& head, const ResponseChoice& choice, bool chunk) {
  Json list = Json::array();
  for (size_t i = 0; i < choice.calls.size(); ++i) {
    const size_t number = choice.first_call + i;
    Json call = Json::object();
    if (chunk) call["index"] = number;
    call["id"] = "call_" + UniquePart(head) + "_" + std::to_string(choice.index) + "_" +
                 std::to_string(number);
    call["type"] = "function";
    call["function"] = {{"name", choice.calls[i].name}, {"arguments", choice.calls[i].arguments}};
    list.push_back(std::move(call));
  }
  return list;
}

Json MessageJson(const ResponseHead& head, const ResponseChoice& choice) {
  Json message = {{"role", "assistant"}, {"content", choice.delta.text}, {"refusal", nullptr}};
  if (choice.delta.text.empty() && !choice.calls.empty()) message["content"] = nullptr;
  if (!choice.reasoning.empty()) message["reasoning_content"] = choice.reasoning;
  if (!choice.calls.empty()) message["tool_calls"] = ToolCallsJson(head, choice, false);
  return message;
}

bool IsUtf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto lead = static_cast<uint8_t>(text[i]);
    const size_t size = lead < 0x80 ? 1 : lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
    if ((lead >= 0x80 && lead < 0xC2) || lead > 0xF4 || text.size() - i < size) return false;
    uint32_t point = size == 1 ? lead : lead & (0xFFu >> (size + 1));
    for (size_t k = 1; k < size; ++k) {
      const auto next = static_cast<uint8_t>(text[i + k]);
      if ((next & 0xC0) != 0x80) return false;
      point = point << 6 | (next & 0x3F);
    }
    // Refuses overlong forms, surrogates, and values beyond the last code point.
    if ((size == 3 && point < 0x800) || (size == 4 && point < 0x10000)) return false;
    if ((point >= 0xD800 && point < 0xE000) || point > 0x10FFFF) return false;
    i += size;
  }
  return true;
}

// A token's name as a key of the completions endpoint, which has no list of bytes beside it. A
// token that is not valid UTF-8 is named "bytes:\xe2\x80", because U+FFFD would be ambiguous.
std::string TokenName(std::string_view bytes) {
  if (IsUtf8(bytes)) return std::string(bytes);
  std::string out = "bytes:";
  for (const char byte : bytes) {
    char text[5];
    std::snprintf(text, sizeof(text), "\\x%02x", static_cast<unsigned>(static_cast<uint8_t>(byte)));
    out += text;
  }
  return out;
}

Json CompletionLogprobs(const std::vector<Answer::TokenText>& tokens, int top,
                        const text::Tokenizer& tokenizer) {
  Json texts = Json::array(), values = Json::array(), tops = Json::array(), offsets = Json::array();
  for (const Answer::TokenText& token : tokens) {
    texts.push_back(TokenName(token.bytes));
    offsets.push_back(token.text_offset);
    if (token.logprobs.is_absent) {
      values.push_back(nullptr);
      tops.push_back(nullptr);
      continue;
    }
    values.push_back(Finite(token.logprobs.logprob));
    Json alternatives = Json::object();
    for (size_t i = 0; i < token.logprobs.top.size() && static_cast<int>(i) < top; ++i) {
      const TokenLogprob& other = token.logprobs.top[i];
      // If two tokens have the same text, the likelier one comes first and stays.
      alternatives.emplace(TokenName(TokenText(tokenizer, other.token)), Finite(other.logprob));
    }
    tops.push_back(std::move(alternatives));
  }
  return {{"text_offset", std::move(offsets)},
          {"token_logprobs", std::move(values)},
          {"tokens", std::move(texts)},
          {"top_logprobs", top > 0 ? std::move(tops) : Json(nullptr)}};
}

Json Logprobs(const ResponseHead& head, const Answer::Delta& delta,
              const text::Tokenizer& tokenizer) {
  if (!head.logprobs) return nullptr;
  return head.endpoint == Endpoint::kChat
             ? Json{{"content", TokenLogprobsJson(delta.tokens, head.top_logprobs, tokenizer)},
                    {"refusal", nullptr}}
             : CompletionLogprobs(delta.tokens, head.top_logprobs, tokenizer);
}

// In vLLM's form: by token id, with its text and, if known, its rank.
Json PromptLogprobsJson(const ResponseChoice& choice, int top_logprobs,
                        const text::Tokenizer& tokenizer) {
  Json list = Json::array();
  for (size_t i = 0; i < choice.prompt_logprobs.size(); ++i) {
    const PositionLogprobs& position = choice.prompt_logprobs[i];
    if (position.is_absent) {
      list.push_back(nullptr);
      continue;
    }
    const auto entry = [&](int32_t token, float logprob, const Json& rank) {
      return Json{{"logprob", Finite(logprob)},
                  {"rank", rank},
                  {"decoded_token", TokenText(tokenizer, token)}};
    };
    Json tokens = Json::object();
    for (size_t r = 0; r < position.top.size() && static_cast<int>(r) < top_logprobs; ++r) {
      const TokenLogprob& top = position.top[r];
      tokens[std::to_string(top.token)] = entry(top.token, top.logprob, r + 1);
    }
    const int32_t own = choice.prompt[i];
    tokens.emplace(std::to_string(own), entry(own, position.logprob, nullptr));
    list.push_back(std::move(tokens));
  }
  return list;
}

void AddOurs(const ResponseHead& head, const ResponseChoice& choice, Json* json) {
  if (head.return_token_ids) {
    if (!choice.prompt.empty()) (*json)["prompt_token_ids"] = choice.prompt;
    (*json)["token_ids"] = choice.delta.token_ids;
  }
  if (head.logits_hash) {
    Json hashes = Json::array();
    for (const uint64_t hash : choice.delta.logits_hashes) {
      char text[17];
      std::snprintf(text, sizeof(text), "%016llx", static_cast<unsigned long long>(hash));
      hashes.push_back(text);
    }
    (*json)["logits_hashes"] = std::move(hashes);
  }
}

// Where SGLang has them.
Json RoutedJson(const ResponseChoice& choice) {
  return {{"routed_experts", *choice.routed}};
}

Json ToJson(const Usage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.completion_tokens},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached_prompt_tokens}}}};
}

Json Head(const ResponseHead& head, bool chunk) {
  const char* object = "text_completion";
  if (head.endpoint == Endpoint::kChat) {
    object = chunk ? "chat.completion.chunk" : "chat.completion";
  }
  return {{"id", head.id},
          {"object", object},
          {"created", head.created_unix_seconds},
          {"model", head.model}};
}

Json Model(std::string_view model, int64_t created, int64_t max_model_len) {
  return {{"id", model},
          {"object", "model"},
          {"created", created},
          {"owned_by", "janus"},
          {"max_model_len", max_model_len > 0 ? Json(max_model_len) : Json(nullptr)}};
}

}  // namespace

std::string UniquePart(const ResponseHead& head) {
  return head.id.substr(head.id.find_last_of("-_") + 1);
}

std::string ChunkJson(const ResponseHead& head, const ResponseChoice& choice,
                      const text::Tokenizer& tokenizer, const Usage& so_far) {
  Json body = Head(head, true);
  Json one = {{"index", choice.index}};
  if (head.endpoint == Endpoint::kChat) {
    Json delta = Json::object();
    if (choice.first) delta["role"] = "assistant";
    if (choice.first || !choice.delta.text.empty()) delta["content"] = choice.delta.text;
    if (!choice.reasoning.empty()) delta["reasoning_content"] = choice.reasoning;
    if (!choice.calls.empty()) delta["tool_calls"] = ToolCallsJson(head, choice, true);
    one["delta"] = std::move(delta);
  } else {
    one["text"] = choice.delta.text;
  }
  one["logprobs"] =
      choice.delta.tokens.empty() ? Json(nullptr) : Logprobs(head, choice.delta, tokenizer);
  one["finish_reason"] = FinishReason(choice);
  AddOurs(head, choice, &one);
  body["choices"] = Json::array({std::move(one)});
  if (head.continuous_usage) {
    body["usage"] = ToJson(so_far);
  } else if (head.include_usage) {
    body["usage"] = nullptr;
  }
  return Dump(body);
}

std::string RoutedChunkJson(const ResponseHead& head, const ResponseChoice& choice) {
  Json body = Head(head, true);
  body["choices"] = Json::array();
  if (head.is_single) {
    body["sglext"] = RoutedJson(choice);
    return Dump(body);
  }
  Json one = {{"index", choice.index}};
  if (head.endpoint == Endpoint::kChat) {
    one["delta"] = Json::object();
  } else {
    one["text"] = "";
  }
  one["logprobs"] = nullptr;
  one["finish_reason"] = nullptr;
  one["sglext"] = RoutedJson(choice);
  body["choices"].push_back(std::move(one));
  return Dump(body);
}

std::string UsageChunkJson(const ResponseHead& head, const Usage& usage) {
  Json body = Head(head, true);
  body["choices"] = Json::array();
  body["usage"] = ToJson(usage);
  return Dump(body);
}

std::string ResponseJson(const ResponseHead& head, const std::vector<ResponseChoice>& choices,
                         const Usage& usage, const text::Tokenizer& tokenizer) {
  Json body = Head(head, false);
  Json list = Json::array();
  for (const ResponseChoice& choice : choices) {
    Json one = {{"index", choice.index}};
    if (head.endpoint == Endpoint::kChat) {
      one["message"] = MessageJson(head, choice);
    } else {
      one["text"] = choice.delta.text;
    }
    one["logprobs"] = Logprobs(head, choice.delta, tokenizer);
    one["finish_reason"] = FinishReason(choice);
    AddOurs(head, choice, &one);
    if (head.prompt_logprobs) {
      (head.endpoint == Endpoint::kChat ? body : one)["prompt_logprobs"] =
          PromptLogprobsJson(choice, *head.prompt_logprobs, tokenizer);
    }
    if (choice.routed) (head.is_single ? body : one)["sglext"] = RoutedJson(choice);
    list.push_back(std::move(one));
  }
  body["choices"] = std::move(list);
  body["usage"] = ToJson(usage);
  return Dump(body);
}

std::string ModelJson(std::string_view model, int64_t created_unix_seconds, int64_t max_model_len) {
  return Dump(Model(model, created_unix_seconds, max_model_len));
}

std::string ModelListJson(const std::vector<std::string>& models, int64_t created_unix_seconds,
                          int64_t max_model_len) {
  Json data = Json::array();
  for (const std::string& model : models) {
    data.push_back(Model(model, created_unix_seconds, max_model_len));
  }
  return Dump({{"object", "list"}, {"data", std::move(data)}});
}

void Append(Answer::Delta more, Answer::Delta* all) {
  all->text += more.text;
  std::ranges::move(more.tokens, std::back_inserter(all->tokens));
  std::ranges::copy(more.token_ids, std::back_inserter(all->token_ids));
  std::ranges::copy(more.logits_hashes, std::back_inserter(all->logits_hashes));
}

}  // namespace janus::gateway
