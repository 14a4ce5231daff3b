#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dataplane/gateway/chat/chat_delta.h"
#include "dataplane/gateway/chat/harmony_text.h"
#include "dataplane/gateway/chat/marker_finder.h"
#include "dataplane/gateway/chat/tool_calls.h"

namespace janus::gateway {

struct ChatTextOptions {
  // <think>...</think> at the beginning, or harmony's analysis, is not part of the content.
  bool reads_reasoning = false;
  bool begins_in_reasoning = false;  // the prompt ends with <think>
  ToolFormat tools = ToolFormat::kNone;
  bool is_harmony = false;        // the answer has harmony's messages, whatever of them is read
  bool begins_in_answer = false;  // of harmony: the prompt ends within the text of a message
};

// Splits the text of a chat's answer, as it arrives, into reasoning, content and tool calls. A call
// is returned when it is complete. Text between the markers of calls that is no call becomes
// content, together with its markers (Llama-4's: without, as it may write text there before the
// calls). HarmonyText reads harmony. Thread-compatible.
class ChatText {
 public:
  using Delta = ChatDelta;

  explicit ChatText(const ChatTextOptions& options);

  Delta Push(std::string_view text);
  // Call it at the end of the text.
  Delta Finish();
  // Whether further text would be reasoning, as far as is known.
  bool is_reasoning() const {
    return harmony_ ? harmony_->is_reasoning() : state_ == State::kReasoning;
  }

 private:
  enum class State : uint8_t { kBegin, kReasoning, kContent, kCalls };

  void Reason(std::string_view text, Delta* delta);
  void Converse(std::string_view text, Delta* delta);
  // Takes text of an answer's beginning, and of what Llama-4 has behind the markers of calls. True:
  // what it is was decided, and the text so far is in `text`. False: it was taken.
  bool TakeBegin(std::string* text, Delta* delta);
  void EndCalls(std::string_view end, Delta* delta);
  void AddContent(std::string_view text, Delta* delta);

  const ChatTextOptions options_;
  const ToolMarkers markers_;
  std::optional<HarmonyText> harmony_;
  State state_;
  std::string begin_;  // text that may become <think>, or a call without a marker
  bool may_think_ = true;
  MarkerFinder end_of_reasoning_;
  MarkerFinder begin_of_calls_;
  MarkerFinder end_of_calls_;
  std::string calls_;             // between the markers
  bool has_begin_marker_ = true;  // of the calls being read; an answer of Llama may have no marker
  // Line ends between reasoning, calls and content belong to none of these.
  bool drops_line_ends_;
};

}  // namespace janus::gateway
