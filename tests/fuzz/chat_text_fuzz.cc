// Text of a chat's answer: the first byte chooses the format of calls, the second whether reasoning
// is read, and of harmony whether calls are and where it begins. Cut into any pieces it gives the
// same reasoning, content and calls.

#include <cstdint>
#include <string>
#include <string_view>

#include "common/check.h"
#include "dataplane/gateway/chat/chat_text.h"

namespace {

using janus::gateway::ChatText;

void Add(ChatText::Delta more, ChatText::Delta* all) {
  all->reasoning += more.reasoning;
  all->content += more.content;
  for (auto& call : more.calls) all->calls.push_back(std::move(call));
}

ChatText::Delta Read(const janus::gateway::ChatTextOptions& options, std::string_view text,
                     size_t piece) {
  ChatText reader(options);
  ChatText::Delta all;
  for (; !text.empty(); text.remove_prefix(std::min(piece, text.size()))) {
    Add(reader.Push(text.substr(0, piece)), &all);
  }
  Add(reader.Finish(), &all);
  return all;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace janus::gateway;  // NOLINT
  if (size < 2) return 0;
  constexpr int kFormats = static_cast<int>(ToolFormat::kLlama4) + 1;
  ChatTextOptions options{.reads_reasoning = (data[1] & 1) != 0,
                          .begins_in_reasoning = (data[1] & 3) == 3,
                          .tools = static_cast<ToolFormat>(data[0] % kFormats)};
  options.is_harmony = options.tools == ToolFormat::kHarmony;
  options.begins_in_answer = options.is_harmony && (data[1] & 4) != 0;
  if (options.is_harmony && (data[1] & 8) != 0) options.tools = ToolFormat::kNone;
  const std::string_view text(reinterpret_cast<const char*>(data) + 2, size - 2);
  const ChatText::Delta whole = Read(options, text, text.size() + 1);
  for (const size_t piece : {1, 3, 7}) {
    const ChatText::Delta cut = Read(options, text, piece);
    JANUS_CHECK(cut.reasoning == whole.reasoning && cut.content == whole.content, piece);
    JANUS_CHECK(cut.calls == whole.calls, piece);
  }
  return 0;
}
