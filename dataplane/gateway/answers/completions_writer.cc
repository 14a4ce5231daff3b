#include "dataplane/gateway/answers/completions_writer.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "dataplane/gateway/answers/errors.h"

namespace janus::gateway {

namespace {

constexpr std::string_view kStreamEnd = "data: [DONE]\n\n";

void Append(ResponseChoice part, ResponseChoice* whole) {
  Append(std::move(part.delta), &whole->delta);
  whole->finish = part.finish;
  whole->reasoning += part.reasoning;
  std::ranges::move(part.calls, std::back_inserter(whole->calls));
  whole->has_called = part.has_called;
  // They come with the first part.
  if (!part.prompt.empty()) whole->prompt = std::move(part.prompt);
  if (!part.prompt_logprobs.empty()) whole->prompt_logprobs = std::move(part.prompt_logprobs);
  whole->routed = std::move(part.routed);
}

}  // namespace

std::string CompletionsWriter::Add(ResponseChoice part, const Usage& so_far) {
  while (choices_.size() <= static_cast<size_t>(part.index)) {
    choices_.push_back({.index = static_cast<int>(choices_.size()), .first = true});
  }
  ResponseChoice& kept = choices_[static_cast<size_t>(part.index)];
  if (!head_.stream) {
    Append(std::move(part), &kept);
    return {};
  }
  kept.routed = std::move(part.routed);
  const bool ours = (head_.return_token_ids && !part.delta.token_ids.empty()) ||
                    (head_.logits_hash && !part.delta.logits_hashes.empty());
  const bool is_empty = part.delta.text.empty() && part.delta.tokens.empty() && !ours &&
                        part.reasoning.empty() && part.calls.empty();
  if (is_empty && !kept.first && part.finish == Finish::kNone) return {};
  part.first = std::exchange(kept.first, false);
  return ServerSentEvent(ChunkJson(head_, part, tokenizer_, so_far));
}

std::string CompletionsWriter::End(const Usage& usage) {
  if (!head_.stream) return ResponseJson(head_, choices_, usage, tokenizer_);
  std::string out;
  for (const ResponseChoice& choice : choices_) {
    if (choice.routed) out += ServerSentEvent(RoutedChunkJson(head_, choice));
  }
  if (head_.include_usage) out += ServerSentEvent(UsageChunkJson(head_, usage));
  return out.append(kStreamEnd);
}

std::string CompletionsWriter::Fail(const RequestError& error) {
  // The official clients raise such an event.
  return ServerSentEvent(ToJson(error, ErrorForm::kOpenAi)).append(kStreamEnd);
}

}  // namespace janus::gateway
