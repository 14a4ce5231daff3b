#include "dataplane/gateway/answers/messages_writer.h"

#include <utility>

#include "dataplane/gateway/answers/errors.h"

namespace janus::gateway {

namespace {

// Every event says its name in `type` too.
std::string Event(std::string_view name, Json fields) {
  Json body = {{"type", name}};
  body.update(fields);
  return ServerSentEvent(name, Dump(body));
}

// In this API the cached tokens are not among the input tokens.
Json UsageOf(const Usage& usage) {
  return {{"input_tokens", usage.prompt_tokens - usage.cached_prompt_tokens},
          {"cache_creation_input_tokens", 0},
          {"cache_read_input_tokens", usage.cached_prompt_tokens},
          {"output_tokens", usage.completion_tokens},
          {"output_tokens_details", {{"thinking_tokens", usage.reasoning_tokens}}}};
}

// A model may write arguments that are no object; clients must get one.
Json InputOf(const ToolCall& call) {
  if (IsJsonObject(call.arguments)) return Json::parse(call.arguments);
  return {{"arguments", call.arguments}};
}

}  // namespace

Json MessagesWriter::Message() const {
  return {{"id", head_.id},          {"type", "message"},   {"role", "assistant"},
          {"model", head_.model},    {"content", content_}, {"stop_reason", nullptr},
          {"stop_sequence", nullptr}};
}

std::string MessagesWriter::Begin(const Usage& so_far) {
  if (!head_.stream || std::exchange(begun_, true)) return {};
  Json message = Message();
  message["usage"] = UsageOf(so_far);
  return Event("message_start", {{"message", std::move(message)}});
}

std::string MessagesWriter::Open(Block block, Json begin) {
  std::string out = Close();
  open_ = block;
  ++index_;
  if (!head_.stream) {
    content_.push_back(std::move(begin));
    return {};
  }
  out += Event("content_block_start", {{"index", index_}, {"content_block", std::move(begin)}});
  return out;
}

std::string MessagesWriter::Delta(Json delta) {
  return Event("content_block_delta", {{"index", index_}, {"delta", std::move(delta)}});
}

std::string MessagesWriter::Close() {
  const Block closed = std::exchange(open_, Block::kNone);
  if (closed == Block::kNone || !head_.stream) return {};
  std::string out;
  if (closed == Block::kThinking) {
    out = Delta({{"type", "signature_delta"}, {"signature", head_.id}});
  }
  out += Event("content_block_stop", {{"index", index_}});
  return out;
}

std::string MessagesWriter::AddText(Block block, const std::string& text) {
  if (text.empty()) return {};
  const bool is_thinking = block == Block::kThinking;
  const std::string field = is_thinking ? "thinking" : "text";
  std::string out;
  if (open_ != block) {
    Json begin = {{"type", field}, {field, ""}};
    // Clients return the signature with the block. This gateway reads none.
    if (is_thinking) begin["signature"] = head_.stream ? "" : head_.id;
    out = Open(block, std::move(begin));
  }
  if (!head_.stream) {
    content_.back()[field].get_ref<std::string&>() += text;
    return {};
  }
  out += Delta({{"type", field + "_delta"}, {field, text}});
  return out;
}

std::string MessagesWriter::AddCall(const ToolCall& call, size_t number) {
  Json input = InputOf(call);
  const std::string id = "toolu_" + UniquePart(head_) + "_" + std::to_string(number);
  std::string out = Open(Block::kCall, {{"type", "tool_use"},
                                        {"id", id},
                                        {"name", call.name},
                                        {"input", head_.stream ? Json::object() : input}});
  if (!head_.stream) return {};
  out += Delta({{"type", "input_json_delta"}, {"partial_json", Dump(input)}});
  out += Close();
  return out;
}

std::string MessagesWriter::Add(ResponseChoice part, const Usage& so_far) {
  std::string out = Begin(so_far);
  out += AddText(Block::kThinking, part.reasoning);
  out += AddText(Block::kText, part.delta.text);
  for (size_t i = 0; i < part.calls.size(); ++i) {
    out += AddCall(part.calls[i], part.first_call + i);
  }
  finish_ = part.finish;
  has_called_ = part.has_called;
  stop_string_ = std::move(part.stop_string);
  return out;
}

std::string_view MessagesWriter::StopReason() const {
  if (finish_ == Finish::kLength) {
    return head_.is_cut_to_context ? "model_context_window_exceeded" : "max_tokens";
  }
  if (has_called_) return "tool_use";
  return stop_string_.empty() ? "end_turn" : "stop_sequence";
}

std::string MessagesWriter::End(const Usage& usage) {
  const std::string_view reason = StopReason();
  const Json stop = reason == "stop_sequence" ? Json(stop_string_) : Json();
  if (!head_.stream) {
    Json body = Message();
    body["stop_reason"] = reason;
    body["stop_sequence"] = stop;
    body["usage"] = UsageOf(usage);
    return Dump(body);
  }
  std::string out = Close();
  out += Event("message_delta", {{"delta", {{"stop_reason", reason}, {"stop_sequence", stop}}},
                                 {"usage", UsageOf(usage)}});
  out += Event("message_stop", Json::object());
  return out;
}

std::string MessagesWriter::Fail(const RequestError& error) {
  return ServerSentEvent("error", ToJson(error, ErrorForm::kAnthropic));
}

std::string_view MessagesWriter::SignOfLife() const {
  return "event: ping\ndata: {\"type\":\"ping\"}\n\n";
}

}  // namespace janus::gateway
