#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "dataplane/gateway/answers/answer_writer.h"

namespace janus::gateway {

// Anthropic's /v1/messages: one choice as blocks of thinking, text and tool_use. A stream has the
// events message_start, then content_block_start, content_block_delta and content_block_stop for
// each block, then message_delta and message_stop; ping is the sign of life.
class MessagesWriter final : public AnswerWriter {
 public:
  explicit MessagesWriter(ResponseHead head) : head_(std::move(head)) {}

  std::string Begin(const Usage& so_far) override;
  std::string Add(ResponseChoice part, const Usage& so_far) override;
  std::string End(const Usage& usage) override;
  std::string Fail(const RequestError& error) override;
  std::string_view SignOfLife() const override;

 private:
  enum class Block : uint8_t { kNone, kThinking, kText, kCall };

  Json Message() const;
  std::string AddText(Block block, const std::string& text);
  std::string AddCall(const ToolCall& call, size_t number);
  std::string Open(Block block, Json begin);
  std::string Delta(Json delta);
  std::string Close();
  std::string_view StopReason() const;

  const ResponseHead head_;
  bool begun_ = false;
  Block open_ = Block::kNone;
  int index_ = -1;                // of the newest block
  Json content_ = Json::array();  // not streamed: the blocks
  Finish finish_ = Finish::kNone;
  bool has_called_ = false;
  std::string stop_string_;
};

}  // namespace janus::gateway
