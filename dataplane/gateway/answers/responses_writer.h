#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "dataplane/gateway/answers/answer_writer.h"

namespace janus::gateway {

// OpenAI's /v1/responses: one choice as items of reasoning, message and function_call. A stream has
// the events response.created and response.in_progress, then for each item those that add it, its
// text and its end, then response.completed, .incomplete or .failed with the whole response. All
// have numbers. If asked, each text of a message has its tokens' log probabilities.
class ResponsesWriter final : public AnswerWriter {
 public:
  // `tokenizer` must outlive it.
  ResponsesWriter(ResponseHead head, const text::Tokenizer& tokenizer)
      : head_(std::move(head)), tokenizer_(tokenizer) {}

  std::string Begin(const Usage& so_far) override;
  std::string Add(ResponseChoice part, const Usage& so_far) override;
  std::string End(const Usage& usage) override;
  std::string Fail(const RequestError& error) override;
  bool keeps_stream() const override { return true; }

 private:
  enum class Item : uint8_t { kNone, kReasoning, kMessage };

  std::string Event(std::string_view name, Json fields);
  std::string ItemEvent(std::string_view name, Json fields);
  std::string AddText(Item item, const std::string& text);
  std::vector<Answer::TokenText> TakeTokensOf(const std::string& text);
  Json LogprobsOf(const std::vector<Answer::TokenText>& tokens) const;
  std::string AddCall(const ToolCall& call, size_t number);
  std::string Open(Item item);
  std::string Close(std::string_view status);
  std::string NewId(std::string_view prefix) const;
  Json Response(std::string_view status) const;
  static Json Part(Item item, const std::string& text, Json logprobs);

  const ResponseHead head_;
  const text::Tokenizer& tokenizer_;
  bool begun_ = false;
  int64_t sequence_number_ = 0;
  Item open_ = Item::kNone;
  std::string text_;                       // of the open item, so far
  std::vector<Answer::TokenText> tokens_;  // of text_; empty without log probabilities
  // The same of text that has not come yet, because it may begin a marker.
  std::vector<Answer::TokenText> waiting_;
  std::string id_;               // of the newest item
  Json output_ = Json::array();  // the items; an open one is the last, without its text
  Finish finish_ = Finish::kNone;
};

}  // namespace janus::gateway
