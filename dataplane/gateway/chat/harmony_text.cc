#include "dataplane/gateway/chat/harmony_text.h"

#include <algorithm>
#include <utility>

namespace janus::gateway {
namespace {

constexpr std::string_view kSpace = " \t\r\n";
constexpr std::string_view kFunctions = "functions.";
constexpr std::string_view kMessage = "<|message|>";
constexpr std::string_view kStart = "<|start|>";
constexpr int kStartMarker = 0;  // of the ends of a message

// The word behind the last `key` of a header; empty: it has none.
std::string_view WordBehind(std::string_view header, std::string_view key) {
  const size_t at = header.rfind(key);
  if (at == header.npos) return {};
  header.remove_prefix(at + key.size());
  return header.substr(0, header.find_first_of(" \t\r\n<"));
}

// Whether text that begins so may be a header.
bool MayBeHeader(std::string_view text) {
  const size_t first = text.find_first_not_of(kSpace);
  if (first == text.npos) return true;
  text.remove_prefix(first);
  for (const std::string_view begin :
       {std::string_view("<|channel|>"), kStart, kMessage, std::string_view("<|constrain|>"),
        std::string_view("to=")}) {
    const size_t common = std::min(begin.size(), text.size());
    if (begin.substr(0, common) == text.substr(0, common)) return true;
  }
  return false;
}

}  // namespace

HarmonyText::HarmonyText(const HarmonyOptions& options)
    : options_(options),
      end_of_header_({std::string(kMessage)}),
      end_of_message_({std::string(kStart), "<|end|>", "<|call|>", "<|return|>"}),
      in_header_(!options.begins_in_answer) {}

ChatDelta HarmonyText::Push(std::string_view text) {
  ChatDelta delta;
  std::string rest(text);
  while (true) {
    if (in_header_) {
      MarkerFinder::Found found = end_of_header_.Push(rest);
      header_ += found.before;
      if (!MayBeHeader(header_)) {
        // The text has no header. What the finder took is a part of it.
        rest = std::exchange(header_, {});
        if (found.marker >= 0) rest += kMessage;
        rest += end_of_header_.Flush();
        Begin(Part::kContent);
      } else if (found.marker < 0) {
        return delta;
      } else {
        rest = end_of_header_.Flush();
        BeginMessage();
      }
    }
    MarkerFinder::Found found = end_of_message_.Push(rest);
    Add(found.before, &delta);
    if (found.marker < 0) return delta;
    rest = end_of_message_.Flush();
    EndMessage(&delta);
    if (found.marker == kStartMarker) header_ = kStart;
  }
}

void HarmonyText::BeginMessage() {
  const std::string header = std::exchange(header_, {});
  const std::string_view channel = WordBehind(header, "<|channel|>");
  const std::string_view recipient = WordBehind(header, "to=");
  const bool is_call = recipient.starts_with(kFunctions);
  if (is_call && options_.reads_calls) {
    function_ = recipient.substr(kFunctions.size());
    return Begin(Part::kCall);
  }
  const bool is_reasoning = !is_call && (channel == "analysis" || !recipient.empty());
  Begin(is_reasoning && options_.reads_reasoning ? Part::kReasoning : Part::kContent);
}

void HarmonyText::Begin(Part part) {
  in_header_ = false;
  part_ = part;
  begins_part_ = part == Part::kReasoning ? had_reasoning_ : had_content_;
}

void HarmonyText::Add(std::string_view text, ChatDelta* delta) {
  if (text.empty()) return;
  if (part_ == Part::kCall) {
    arguments_ += text;
    return;
  }
  std::string& out = part_ == Part::kReasoning ? delta->reasoning : delta->content;
  if (std::exchange(begins_part_, false)) out += "\n";
  out += text;
  (part_ == Part::kReasoning ? had_reasoning_ : had_content_) = true;
}

void HarmonyText::EndMessage(ChatDelta* delta) {
  in_header_ = true;
  if (part_ != Part::kCall) return;
  const std::string arguments = std::exchange(arguments_, {});
  if (IsJsonObject(arguments)) {
    delta->calls.push_back({.name = std::exchange(function_, {}), .arguments = arguments});
    return;
  }
  Begin(Part::kContent);
  Add(arguments, delta);
  in_header_ = true;
}

ChatDelta HarmonyText::Finish() {
  ChatDelta delta;
  if (in_header_) {
    header_ += end_of_header_.Flush();
    // A header that was cut short is no text.
    const bool is_text =
        header_.find("<|") == header_.npos && header_.find_first_not_of(kSpace) != header_.npos;
    if (!is_text) return delta;
    Begin(Part::kContent);
    Add(header_, &delta);
    return delta;
  }
  Add(end_of_message_.Flush(), &delta);
  if (part_ == Part::kCall) EndMessage(&delta);
  return delta;
}

}  // namespace janus::gateway
