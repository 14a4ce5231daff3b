#pragma once

#include <string>
#include <string_view>

#include "dataplane/gateway/chat/chat_delta.h"
#include "dataplane/gateway/chat/marker_finder.h"

namespace janus::gateway {

struct HarmonyOptions {
  bool reads_reasoning = false;   // otherwise it is content
  bool reads_calls = false;       // otherwise they are content
  bool begins_in_answer = false;  // the prompt ends within the text of a message to the user
};

// Splits an answer in the harmony format of gpt-oss, as it arrives. The answer is a sequence of
// messages, each "header <|message|> text end". The header names a channel ("<|channel|>analysis")
// and perhaps a recipient ("to=functions.f"); the end is <|end|>, <|call|> or <|return|>. Text to a
// function is a call, other text to a recipient and the channel "analysis" are reasoning, all else
// is content. A call whose text is no JSON object becomes content, and so does text where a header
// is to be. Messages of one part are separated by a line end. Thread-compatible.
class HarmonyText {
 public:
  explicit HarmonyText(const HarmonyOptions& options);

  ChatDelta Push(std::string_view text);
  // Call it at the end of the text.
  ChatDelta Finish();
  // Whether the message that is being read is reasoning.
  bool is_reasoning() const { return !in_header_ && part_ == Part::kReasoning; }

 private:
  enum class Part : uint8_t { kReasoning, kContent, kCall };

  void BeginMessage();
  void Begin(Part part);
  void Add(std::string_view text, ChatDelta* delta);
  void EndMessage(ChatDelta* delta);

  const HarmonyOptions options_;
  MarkerFinder end_of_header_;
  MarkerFinder end_of_message_;
  bool in_header_;
  std::string header_;  // so far
  Part part_ = Part::kContent;
  std::string function_;   // of kCall
  std::string arguments_;  // of kCall, so far
  // Whether text came before the message in this part, and whether the message has none yet.
  bool had_reasoning_ = false;
  bool had_content_ = false;
  bool begins_part_ = false;
};

}  // namespace janus::gateway
