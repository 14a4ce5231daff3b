#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dataplane/gateway/answer.h"
#include "dataplane/gateway/answers/event.h"
#include "dataplane/text/tokenizer.h"

namespace janus::gateway {

// What the forms of log probabilities share. Pure.

// JSON has no infinity: a token that cannot be drawn gets the least finite value.
double Finite(float logprob);
// The token's bytes; empty for an unknown id.
std::string TokenText(const text::Tokenizer& tokenizer, int32_t id);
// The list of chat and of responses: [{"token", "logprob", "bytes", "top_logprobs"}], with at most
// `top` alternatives of each token.
Json TokenLogprobsJson(const std::vector<Answer::TokenText>& tokens, int top,
                       const text::Tokenizer& tokenizer);

}  // namespace janus::gateway
