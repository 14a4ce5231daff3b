#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/clock.h"
#include "common/model/generation_defaults.h"
#include "dataplane/gateway/api/completion_request.h"
#include "dataplane/gateway/chat/chat_text.h"
#include "dataplane/gateway/generation.h"
#include "dataplane/gateway/request_error.h"
#include "dataplane/text/model_text.h"

namespace janus::gateway {

// The model as the gateway knows it. Constant while it serves.
struct ServedModel {
  std::string name;                  // answers name the model so
  std::vector<std::string> aliases;  // requests may call it so, too
  std::string dir;
  text::ModelText text;
  // As vLLM takes generation_config.json: temperature, top_k and top_p are the defaults of a
  // request (do_sample is not looked at), the end-of-text tokens end every answer.
  GenerationDefaults defaults;
  bool logits_hash_allowed = false;
  UnknownParameters unknown_parameters = UnknownParameters::kRefuse;
  ToolFormat tool_format = ToolFormat::kNone;  // in which it writes calls
  bool reads_reasoning = false;                // <think>...</think> of an answer is apart from it

  bool IsCalled(std::string_view called) const;
};

// 404: a request names another model.
RequestError NoSuchModel(const ServedModel& model, const std::string& called);

// What the attached instances allow.
struct PrepareBounds {
  int64_t max_context_tokens = 0;
  int64_t vocabulary_size = 0;
};

// A request in tokens. One generation per answer: those to the first prompt, then to the second.
struct PreparedRequest {
  CompletionRequest request;
  std::vector<GenerationRequest> generations{};
  ChatTextOptions chat_text{};  // of a chat: what is taken out of the answer's text
};

// What a request holds until it is over: its prompts as kept for a replay, as on their way to an
// instance and, if they are to be shown, once more; and what any call and any choice take.
int64_t MemoryBytes(const PreparedRequest& prepared);

// The tokens of a request's first prompt, checked against no bound. 404: it names another model.
RequestResult<std::vector<int32_t>> FirstPrompt(const ServedModel& model,
                                                const CompletionRequest& request, WallTime now);

// Body to tokens: parses, checks against the model, renders, tokenizes. Takes milliseconds for a
// long prompt. `draw_seed`: the seed when the client gives none; a further answer of the same
// request gets the next number. With a seed of the client's, a further answer to the same prompt
// gets the next number. Thread-safe.
RequestResult<PreparedRequest> Prepare(const ServedModel& model, const PrepareBounds& bounds,
                                       Endpoint endpoint, const std::string& body,
                                       uint64_t draw_seed, WallTime now);

}  // namespace janus::gateway
