#pragma once

#include <string>
#include <vector>

#include "dataplane/gateway/answers/answer_writer.h"

namespace janus::gateway {

// /v1/chat/completions and /v1/completions: chunks of JSON, then "[DONE]"; or one body.
class CompletionsWriter final : public AnswerWriter {
 public:
  CompletionsWriter(ResponseHead head, const text::Tokenizer& tokenizer)
      : head_(std::move(head)), tokenizer_(tokenizer) {}

  std::string Add(ResponseChoice part, const Usage& so_far) override;
  std::string End(const Usage& usage) override;
  std::string Fail(const RequestError& error) override;

 private:
  const ResponseHead head_;
  const text::Tokenizer& tokenizer_;
  // Of a stream: without their texts. The field `first` says that the next chunk is the first.
  std::vector<ResponseChoice> choices_;
};

}  // namespace janus::gateway
