#pragma once

#include <string>

#include "dataplane/gateway/api/completion_request.h"
#include "dataplane/gateway/chat/chat_text.h"
#include "dataplane/text/tokenizer.h"

namespace janus::gateway {

// What an answer's grammar depends on besides the request.
struct GrammarContext {
  const text::Tokenizer& tokenizer;
  ChatTextOptions chat_text{};  // of a chat; `tools` is the model's format
  // The model's chat template, where formats of one family differ.
  std::string_view chat_template{};
};

// The grammar of the answer, in the form of text::GrammarCompiler. Reasoning before the answer is
// free. Calls of tools are in the model's own format, with arguments that fit the tool's schema.
// Empty: the answer may be anything.
RequestResult<std::string> AnswerGrammar(const GrammarContext& context,
                                         const CompletionRequest& request);

}  // namespace janus::gateway
