#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dataplane/gateway/chat/marker_finder.h"
#include "dataplane/gateway/chat/tool_calls.h"

namespace janus::gateway {

struct ChatTextOptions {
  bool reads_reasoning = false;  // <think>...</think> at the beginning is apart from the content
  bool begins_in_reasoning = false;  // the prompt ends with <think>
  ToolFormat tools = ToolFormat::kNone;
};

// Takes the text of a chat's answer apart, as it comes: reasoning, content and calls of tools.
// A call is given out when it is whole. Text between calls' markers that is no call is content,
// with its markers. Thread-compatible.
class ChatText {
 public:
  struct Delta {
    std::string reasoning;
    std::string content;
    std::vector<ToolCall> calls;
  };

  explicit ChatText(const ChatTextOptions& options);

  Delta Push(std::string_view text);
  // No more text comes.
  Delta Finish();

 private:
  enum class State : uint8_t { kBegin, kReasoning, kContent, kCalls };

  void Reason(std::string_view text, Delta* delta);
  void Converse(std::string_view text, Delta* delta);
  void EndCalls(std::string_view end, Delta* delta);
  void AddContent(std::string_view text, Delta* delta);

  const ChatTextOptions options_;
  const ToolMarkers markers_;
  State state_;
  std::string begin_;  // what might become <think>
  MarkerFinder end_of_reasoning_;
  MarkerFinder begin_of_calls_;
  MarkerFinder end_of_calls_;
  std::string calls_;             // between the markers
  bool has_begin_marker_ = true;  // of the calls being read: an answer of Llama may have none
  // Line ends that stand between reasoning, calls and content belong to none of them.
  bool drops_line_ends_;
};

}  // namespace janus::gateway
