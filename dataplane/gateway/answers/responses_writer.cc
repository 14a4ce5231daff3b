#include "dataplane/gateway/answers/responses_writer.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "dataplane/gateway/answers/errors.h"
#include "dataplane/gateway/answers/token_logprobs.h"

namespace janus::gateway {

namespace {

constexpr std::string_view kCompleted = "completed";
constexpr std::string_view kIncomplete = "incomplete";
constexpr std::string_view kInProgress = "in_progress";

Json UsageOf(const Usage& usage) {
  return {{"input_tokens", usage.prompt_tokens},
          {"input_tokens_details", {{"cached_tokens", usage.cached_prompt_tokens}}},
          {"output_tokens", usage.completion_tokens},
          {"output_tokens_details", {{"reasoning_tokens", usage.reasoning_tokens}}},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens}};
}

}  // namespace

// Not streamed: nothing. Each call takes the next number, so that two calls must not be operands of
// one operator: their order would not be defined.
std::string ResponsesWriter::Event(std::string_view name, Json fields) {
  if (!head_.stream) return {};
  Json body = {{"type", name}, {"sequence_number", sequence_number_++}};
  body.update(fields);
  return ServerSentEvent(name, Dump(body));
}

// An event of the newest item's text.
std::string ResponsesWriter::ItemEvent(std::string_view name, Json fields) {
  Json all = {{"item_id", id_}, {"output_index", output_.size() - 1}};
  all.update(fields);
  return Event(name, std::move(all));
}

Json ResponsesWriter::Response(std::string_view status) const {
  Json body = {
      {"id", head_.id},       {"object", "response"}, {"created_at", head_.created_unix_seconds},
      {"status", status},     {"error", nullptr},     {"incomplete_details", nullptr},
      {"model", head_.model}, {"output", output_}};
  body.update(Json::parse(head_.repeated_json));
  body["usage"] = nullptr;
  return body;
}

std::string ResponsesWriter::NewId(std::string_view prefix) const {
  return std::string(prefix) + "_" + UniquePart(head_) + "_" + std::to_string(output_.size());
}

Json ResponsesWriter::Part(Item item, const std::string& text, Json logprobs) {
  if (item == Item::kReasoning) return {{"type", "reasoning_text"}, {"text", text}};
  return {{"type", "output_text"},
          {"text", text},
          {"annotations", Json::array()},
          {"logprobs", std::move(logprobs)}};
}

Json ResponsesWriter::LogprobsOf(const std::vector<Answer::TokenText>& tokens) const {
  return TokenLogprobsJson(tokens, head_.top_logprobs, tokenizer_);
}

// Tokens before the text are of markers, which are in no text. Those behind it go on waiting.
std::vector<Answer::TokenText> ResponsesWriter::TakeTokensOf(const std::string& text) {
  std::string bytes;
  for (const Answer::TokenText& token : waiting_) bytes += token.bytes;
  const size_t from = bytes.rfind(text);
  if (from == std::string::npos) return std::exchange(waiting_, {});
  std::vector<Answer::TokenText> taken;
  size_t begin = 0;
  auto token = waiting_.begin();
  for (; token != waiting_.end() && begin < from + text.size(); ++token) {
    begin += token->bytes.size();
    if (begin > from) taken.push_back(std::move(*token));
  }
  waiting_.erase(waiting_.begin(), token);
  return taken;
}

std::string ResponsesWriter::Begin(const Usage& /*so_far*/) {
  if (!head_.stream || std::exchange(begun_, true)) return {};
  const Json response = Response(kInProgress);
  std::string out = Event("response.created", {{"response", response}});
  out += Event("response.in_progress", {{"response", response}});
  return out;
}

std::string ResponsesWriter::Open(Item item) {
  std::string out = Close(kCompleted);
  open_ = item;
  const bool is_reasoning = item == Item::kReasoning;
  id_ = NewId(is_reasoning ? "rs" : "msg");
  Json begin = {{"id", id_}, {"type", is_reasoning ? "reasoning" : "message"}};
  if (is_reasoning) {
    begin["summary"] = Json::array();
  } else {
    begin["role"] = "assistant";
  }
  begin["content"] = Json::array();
  begin["status"] = kInProgress;
  output_.push_back(begin);
  out += Event("response.output_item.added",
               {{"output_index", output_.size() - 1}, {"item", std::move(begin)}});
  out += ItemEvent("response.content_part.added",
                   {{"content_index", 0}, {"part", Part(item, "", Json::array())}});
  return out;
}

std::string ResponsesWriter::Close(std::string_view status) {
  const Item item = std::exchange(open_, Item::kNone);
  if (item == Item::kNone) return {};
  const bool is_reasoning = item == Item::kReasoning;
  const std::string text = std::exchange(text_, {});
  const Json logprobs = LogprobsOf(std::exchange(tokens_, {}));
  Json& closed = output_.back();
  closed["content"].push_back(Part(item, text, logprobs));
  closed["status"] = status;
  Json done = {{"content_index", 0}, {"text", text}};
  if (!is_reasoning) done["logprobs"] = logprobs;
  std::string out = ItemEvent(
      is_reasoning ? "response.reasoning_text.done" : "response.output_text.done", std::move(done));
  out += ItemEvent("response.content_part.done",
                   {{"content_index", 0}, {"part", Part(item, text, logprobs)}});
  out +=
      Event("response.output_item.done", {{"output_index", output_.size() - 1}, {"item", closed}});
  return out;
}

std::string ResponsesWriter::AddText(Item item, const std::string& text) {
  if (text.empty()) return {};
  std::string out;
  if (open_ != item) out = Open(item);
  text_ += text;
  Json delta = {{"content_index", 0}, {"delta", text}};
  if (item == Item::kMessage) {
    std::vector<Answer::TokenText> tokens = TakeTokensOf(text);
    delta["logprobs"] = LogprobsOf(tokens);
    std::ranges::move(tokens, std::back_inserter(tokens_));
  }
  out += ItemEvent(
      item == Item::kReasoning ? "response.reasoning_text.delta" : "response.output_text.delta",
      std::move(delta));
  return out;
}

std::string ResponsesWriter::AddCall(const ToolCall& call, size_t number) {
  std::string out = Close(kCompleted);
  id_ = NewId("fc");
  Json item = {{"id", id_},
               {"type", "function_call"},
               {"call_id", "call_" + UniquePart(head_) + "_" + std::to_string(number)},
               {"name", call.name},
               {"arguments", ""},
               {"status", kInProgress}};
  output_.push_back(item);
  const size_t index = output_.size() - 1;
  out += Event("response.output_item.added", {{"output_index", index}, {"item", std::move(item)}});
  Json& whole = output_.back();
  whole["arguments"] = call.arguments;
  whole["status"] = kCompleted;
  out += ItemEvent("response.function_call_arguments.delta", {{"delta", call.arguments}});
  out += ItemEvent("response.function_call_arguments.done",
                   {{"name", call.name}, {"arguments", call.arguments}});
  out += Event("response.output_item.done", {{"output_index", index}, {"item", whole}});
  return out;
}

std::string ResponsesWriter::Add(ResponseChoice part, const Usage& so_far) {
  std::string out = Begin(so_far);
  if (head_.logprobs) std::ranges::move(part.delta.tokens, std::back_inserter(waiting_));
  out += AddText(Item::kReasoning, part.reasoning);
  out += AddText(Item::kMessage, part.delta.text);
  // The tokens of reasoning and calls have no place in the answer.
  if (!part.reasoning.empty() || !part.calls.empty()) waiting_.clear();
  for (size_t i = 0; i < part.calls.size(); ++i) {
    out += AddCall(part.calls[i], part.first_call + i);
  }
  finish_ = part.finish;
  return out;
}

std::string ResponsesWriter::End(const Usage& usage) {
  const bool is_whole = finish_ != Finish::kLength;
  const std::string_view status = is_whole ? kCompleted : kIncomplete;
  std::string out = Close(status);
  Json response = Response(status);
  if (!is_whole) response["incomplete_details"] = {{"reason", "max_output_tokens"}};
  response["usage"] = UsageOf(usage);
  if (!head_.stream) return Dump(response);
  out += Event(is_whole ? "response.completed" : "response.incomplete",
               {{"response", std::move(response)}});
  return out;
}

std::string ResponsesWriter::Fail(const RequestError& error) {
  std::string out = Close(kIncomplete);
  Json response = Response("failed");
  // The API names few codes; clients retry these two.
  response["error"] = {{"code", error.http_status == 429 ? "rate_limit_exceeded" : "server_error"},
                       {"message", error.message}};
  out += Event("response.failed", {{"response", std::move(response)}});
  return out;
}

}  // namespace janus::gateway
