#include "dataplane/gateway/chat/chat_text.h"

#include <utility>

namespace janus::gateway {

namespace {

constexpr std::string_view kThink = "<think>";
constexpr std::string_view kEndThink = "</think>";
constexpr std::string_view kSpace = " \t\r\n";

std::vector<std::string> Of(std::string_view marker) {
  if (marker.empty()) return {};
  return {std::string(marker)};
}

}  // namespace

ChatText::ChatText(const ChatTextOptions& options)
    : options_(options),
      markers_(MarkersOf(options.tools)),
      state_(options.begins_in_reasoning ? State::kReasoning : State::kBegin),
      end_of_reasoning_(Of(kEndThink)),
      begin_of_calls_(Of(markers_.begin)),
      end_of_calls_(Of(markers_.end)),
      drops_line_ends_(options.reads_reasoning) {
  if (!options.is_harmony) return;
  harmony_.emplace(HarmonyOptions{.reads_reasoning = options.reads_reasoning,
                                  .reads_calls = options.tools == ToolFormat::kHarmony,
                                  .begins_in_answer = options.begins_in_answer});
}

ChatText::Delta ChatText::Push(std::string_view text) {
  if (harmony_) return harmony_->Push(text);
  Delta delta;
  if (state_ == State::kReasoning) {
    Reason(text, &delta);
  } else {
    Converse(text, &delta);
  }
  return delta;
}

bool ChatText::TakeBegin(std::string* text, Delta* delta) {
  begin_ += std::exchange(*text, {});
  const size_t first = begin_.find_first_not_of(kSpace);
  if (first == std::string::npos) return false;
  const std::string_view seen = std::string_view(begin_).substr(first);
  const bool could_think =
      may_think_ && options_.reads_reasoning && kThink.starts_with(seen.substr(0, kThink.size()));
  if (could_think && seen.size() < kThink.size()) return false;
  may_think_ = false;
  *text = std::exchange(begin_, {});
  if (could_think) {
    state_ = State::kReasoning;
    Reason(std::string_view(*text).substr(first + kThink.size()), delta);
    return false;
  }
  // Llama may write a call without a marker; then the call is the rest of the answer.
  const bool has_bare_calls =
      options_.tools == ToolFormat::kLlama || options_.tools == ToolFormat::kLlama4;
  has_begin_marker_ = !has_bare_calls || (*text)[first] != '{';
  state_ = has_begin_marker_ ? State::kContent : State::kCalls;
  return true;
}

void ChatText::Reason(std::string_view text, Delta* delta) {
  MarkerFinder::Found found = end_of_reasoning_.Push(text);
  delta->reasoning += found.before;
  if (found.marker < 0) return;
  state_ = State::kContent;
  Converse(end_of_reasoning_.Flush(), delta);
}

void ChatText::Converse(std::string_view text, Delta* delta) {
  std::string rest(text);
  while (true) {
    if (state_ == State::kBegin && !TakeBegin(&rest, delta)) return;
    if (state_ == State::kContent) {
      MarkerFinder::Found found = begin_of_calls_.Push(rest);
      AddContent(found.before, delta);
      if (found.marker < 0) return;
      rest = begin_of_calls_.Flush();
      state_ = State::kCalls;
      has_begin_marker_ = true;
    }
    MarkerFinder::Found found = end_of_calls_.Push(rest);
    calls_ += found.before;
    if (found.marker < 0) return;
    rest = end_of_calls_.Flush();
    EndCalls(markers_.end, delta);
  }
}

void ChatText::EndCalls(std::string_view end, Delta* delta) {
  const std::string body = std::exchange(calls_, {});
  const bool is_llama4 = options_.tools == ToolFormat::kLlama4;
  state_ = is_llama4 ? State::kBegin : State::kContent;
  std::vector<ToolCall> calls = ReadToolCalls(options_.tools, body);
  if (calls.empty()) {
    const bool has_markers = has_begin_marker_ && !is_llama4;
    AddContent((has_markers ? markers_.begin : "") + body + std::string(is_llama4 ? "" : end),
               delta);
    return;
  }
  for (ToolCall& call : calls) delta->calls.push_back(std::move(call));
  drops_line_ends_ = true;
}

void ChatText::AddContent(std::string_view text, Delta* delta) {
  if (drops_line_ends_) {
    const size_t first = text.find_first_not_of("\r\n");
    if (first == text.npos) return;
    text.remove_prefix(first);
    drops_line_ends_ = false;
  }
  delta->content += text;
}

ChatText::Delta ChatText::Finish() {
  if (harmony_) return harmony_->Finish();
  Delta delta;
  switch (state_) {
    case State::kBegin:
      AddContent(begin_, &delta);
      break;
    case State::kReasoning:
      delta.reasoning = end_of_reasoning_.Flush();
      break;
    case State::kContent:
      AddContent(begin_of_calls_.Flush(), &delta);
      break;
    case State::kCalls:
      calls_ += end_of_calls_.Flush();
      EndCalls("", &delta);
      break;
  }
  return delta;
}

}  // namespace janus::gateway
