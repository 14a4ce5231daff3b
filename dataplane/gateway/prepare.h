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
#include "dataplane/text/grammar.h"
#include "dataplane/text/model_text.h"

namespace janus::gateway {

// The model that the gateway serves. Constant while it serves.
struct ServedModel {
  std::string name;                  // the name in answers
  std::vector<std::string> aliases;  // further names for requests
  std::string dir;
  text::ModelText text;
  std::shared_ptr<const text::GrammarCompiler> grammars;  // null: answers cannot be constrained
  // From generation_config.json, used as vLLM does: temperature, top_k and top_p are a request's
  // defaults (do_sample is ignored), and the end-of-text tokens end every answer.
  GenerationDefaults defaults;
  bool logits_hash_allowed = false;
  UnknownParameters unknown_parameters = UnknownParameters::kRefuse;
  ToolFormat tool_format = ToolFormat::kNone;  // the format of its tool calls
  bool reads_reasoning = false;                // <think>...</think> in an answer is kept apart

  bool IsCalled(std::string_view called) const;
};

// 404: a request names another model.
RequestError NoSuchModel(const ServedModel& model, const std::string& called);

// What the attached instances allow.
struct PrepareBounds {
  int64_t max_context_tokens = 0;
  int64_t vocabulary_size = 0;
  int64_t routed_width = 0;  // experts of a position, in all layers; 0: they cannot be returned
};

// A request in tokens, with one generation per answer: first those to the first prompt, then to the
// second, and so on.
struct PreparedRequest {
  CompletionRequest request;
  std::vector<GenerationRequest> generations{};
  ChatTextOptions chat_text{};  // chat: what is taken out of the answer's text
  // Some answer may get fewer tokens than the request allows: no more fit into the context.
  bool is_cut_to_context = false;
};

// Bytes that a request holds until it is over. Its prompts count twice, for a replay and for the
// message to an instance, and once more if they are shown. Each call and choice adds a fixed
// amount.
int64_t MemoryBytes(const PreparedRequest& prepared);

// The tokens of a request's first prompt, not checked against bounds. 404: it names another model.
RequestResult<std::vector<int32_t>> FirstPrompt(const ServedModel& model,
                                                const CompletionRequest& request, WallTime now);

// Turns a body into tokens: parses, checks against the model, renders, tokenizes. Takes
// milliseconds for a long prompt. `draw_seed` is the seed if the client gives none; each further
// answer of the request takes the next number. If the client gives a seed, the answers to each
// prompt count up from it. Thread-safe.
RequestResult<PreparedRequest> Prepare(const ServedModel& model, const PrepareBounds& bounds,
                                       Endpoint endpoint, const std::string& body,
                                       uint64_t draw_seed, WallTime now);

}  // namespace janus::gateway
