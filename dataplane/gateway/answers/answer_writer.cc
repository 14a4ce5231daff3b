#include "dataplane/gateway/answers/answer_writer.h"

#include <utility>

#include "dataplane/gateway/answers/completions_writer.h"
#include "dataplane/gateway/answers/messages_writer.h"
#include "dataplane/gateway/answers/responses_writer.h"

namespace janus::gateway {

std::unique_ptr<AnswerWriter> NewAnswerWriter(ResponseHead head, const text::Tokenizer& tokenizer) {
  switch (head.endpoint) {
    case Endpoint::kMessages:
      return std::make_unique<MessagesWriter>(std::move(head));
    case Endpoint::kResponses:
      return std::make_unique<ResponsesWriter>(std::move(head), tokenizer);
    case Endpoint::kChat:
    case Endpoint::kCompletions:
      break;
  }
  return std::make_unique<CompletionsWriter>(std::move(head), tokenizer);
}

}  // namespace janus::gateway
