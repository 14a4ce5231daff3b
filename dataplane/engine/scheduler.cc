#include "dataplane/engine/scheduler.h"

#include <algorithm>

namespace janus::dataplane {

Status Scheduler::Submit(Request request) {
  const auto prompt = static_cast<int64_t>(request.prompt.size());
  if (prompt == 0) return InvalidArgument("the prompt is empty");
  if (prompt >= options_.max_model_len) {
    return InvalidArgument("the prompt has " + std::to_string(prompt) + " tokens; at most " +
                           std::to_string(options_.max_model_len - 1) +
                           " leave room for an answer");
  }
  const int64_t longest =
      std::min<int64_t>(prompt + std::max(1, request.max_tokens), options_.max_model_len);
  if (KvCache::PagesFor(longest) > cache_.num_pages()) {
    return InvalidArgument("prompt and answer of " + std::to_string(longest) +
                           " tokens exceed the key-value cache of " +
                           std::to_string(int64_t{cache_.num_pages()} * kernels::kPageTokens) +
                           "; lower max_tokens or raise kvCache.size");
  }
  if (static_cast<int>(waiting_.size()) >= options_.max_waiting) {
    return ResourceExhausted(std::to_string(waiting_.size()) + " requests are waiting already");
  }
  auto sequence = std::make_unique<Sequence>(std::move(request));
  sequence->arrival = arrivals_++;
  waiting_.push_back(std::move(sequence));
  return OkStatus();
}

void Scheduler::Free(Sequence& sequence) {
  cache_.Release(sequence.pages);
  cache_.Drop(sequence.swapped);
}

void Scheduler::Cancel(const RequestKey& key) {
  const auto is_it = [&](const SequencePtr& s) {
    if (s->request.key != key) return false;
    Free(*s);
    return true;
  };
  std::erase_if(waiting_, is_it);
  std::erase_if(swapped_, is_it);
  std::erase_if(running_, is_it);
}

void Scheduler::CancelStream(uint64_t stream) {
  const auto is_of_it = [&](const SequencePtr& s) {
    if (s->request.key.stream != stream) return false;
    Free(*s);
    return true;
  };
  std::erase_if(waiting_, is_of_it);
  std::erase_if(swapped_, is_of_it);
  std::erase_if(running_, is_of_it);
}

void Scheduler::Resume() {
  while (!swapped_.empty() && running() < options_.max_batch) {
    Sequence& oldest = *swapped_.front();
    // Without room for its next row it would be preempted again at once, copied twice for nothing.
    if (KvCache::PagesFor(oldest.computed + 1) > cache_.free_pages()) return;
    if (!cache_.SwapIn(oldest.swapped, oldest.pages)) return;
    const auto later = std::find_if(running_.begin(), running_.end(), [&](const SequencePtr& s) {
      return s->arrival > oldest.arrival;
    });
    running_.insert(later, std::move(swapped_.front()));
    swapped_.pop_front();
  }
}

void Scheduler::PreemptNewest(std::vector<TokenEvent>& refused) {
  SequencePtr newest = std::move(running_.back());
  running_.pop_back();
  if (cache_.SwapOut(newest->pages, newest->swapped)) {
    ++preempted_;
    const auto later = std::find_if(swapped_.begin(), swapped_.end(), [&](const SequencePtr& s) {
      return s->arrival > newest->arrival;
    });
    swapped_.insert(later, std::move(newest));
    return;
  }
  TokenEvent event;
  event.key = newest->request.key;
  event.finish = FinishReason::kError;
  event.error = ResourceExhausted(
      "the key-value cache is full and so is the host memory for preempted sequences; raise "
      "kvCache.size or send fewer requests at once");
  refused.push_back(std::move(event));
  Free(*newest);
}

void Scheduler::AddDecodeRows(const BatchLimits& limits, Batch& batch,
                              std::vector<TokenEvent>& refused) {
  // running_ may shrink from its end while pages are found for an older sequence.
  for (size_t i = 0; i < running_.size(); ++i) {
    Sequence& sequence = *running_[i];
    if (!sequence.decoding() || sequence.remaining() == 0) continue;
    if (static_cast<int>(batch.rows.size()) >= limits.rows) return;
    const int pages = KvCache::PagesFor(sequence.computed + 1);
    bool gone = false;
    while (!gone && !cache_.Grow(sequence.pages, pages)) {
      gone = running_.size() == i + 1;
      PreemptNewest(refused);
    }
    if (gone) return;
    batch.rows.push_back({&sequence, sequence.computed, sequence.tokens.back(), true,
                          sequence.ClassOf(sequence.computed)});
    ++batch.decode_rows;
  }
}

void Scheduler::AddChunk(Sequence& sequence, const BatchLimits& limits, Batch& batch) {
  const int room = std::min(limits.rows - static_cast<int>(batch.rows.size()),
                            limits.prefill_rows - batch.prefill_rows);
  const int rows = std::min(sequence.remaining(), room);
  for (int i = 0; i < rows; ++i) {
    const int position = sequence.computed + i;
    batch.rows.push_back({&sequence, position, sequence.tokens[static_cast<size_t>(position)],
                          i + 1 == sequence.remaining(), sequence.ClassOf(position)});
  }
  batch.prefill_rows += std::max(0, rows);
}

void Scheduler::AddPrefillRows(const BatchLimits& limits, Batch& batch) {
  const auto has_room = [&] {
    return static_cast<int>(batch.rows.size()) < limits.rows &&
           batch.prefill_rows < limits.prefill_rows;
  };
  for (const SequencePtr& sequence : running_) {
    if (!has_room()) return;
    if (!sequence->decoding()) AddChunk(*sequence, limits, batch);
  }
  // A preempted sequence is older than whatever waits; let it have the pages first.
  while (swapped_.empty() && !waiting_.empty() && running() < options_.max_batch && has_room()) {
    Sequence& first = *waiting_.front();
    const int pages = KvCache::PagesFor(static_cast<int64_t>(first.tokens.size()) + 1);
    if (!cache_.Grow(first.pages, pages)) return;
    running_.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
    AddChunk(first, limits, batch);
  }
}

Batch Scheduler::FormBatch(const BatchLimits& limits, std::vector<TokenEvent>& refused) {
  Batch batch;
  Resume();
  AddDecodeRows(limits, batch, refused);
  AddPrefillRows(limits, batch);
  return batch;
}

void Scheduler::MarkComputed(const Batch& batch) {
  for (const BatchRow& row : batch.rows) row.sequence->computed = row.position + 1;
}

FinishReason Scheduler::Append(Sequence& sequence, int32_t token) {
  sequence.tokens.push_back(token);
  const Request& request = sequence.request;
  if (!request.ignore_stop_tokens &&
      std::find(request.stop_tokens.begin(), request.stop_tokens.end(), token) !=
          request.stop_tokens.end()) {
    return FinishReason::kStop;
  }
  const bool full = static_cast<int64_t>(sequence.tokens.size()) >= options_.max_model_len;
  return sequence.generated() >= request.max_tokens || full ? FinishReason::kLength
                                                            : FinishReason::kNone;
}

void Scheduler::Remove(const Sequence& sequence) {
  const auto at = std::find_if(running_.begin(), running_.end(),
                               [&](const SequencePtr& s) { return s.get() == &sequence; });
  JANUS_CHECK(at != running_.end(), "a sequence that does not run was removed");
  Free(**at);
  running_.erase(at);
}

Scheduler::Outlook Scheduler::After(const Batch& batch) const {
  Outlook outlook;
  int64_t remaining = 0;
  for (const SequencePtr& s : running_) remaining += s->remaining();
  for (const SequencePtr& s : waiting_) remaining += s->remaining();
  for (const BatchRow& row : batch.rows) outlook.decode_rows += row.last ? 1 : 0;
  outlook.decode_rows += static_cast<int>(swapped_.size());
  outlook.prefill_rows = remaining - static_cast<int64_t>(batch.rows.size());
  return outlook;
}

int64_t Scheduler::kv_tokens() const {
  int64_t tokens = 0;
  for (const SequencePtr& s : running_) tokens += s->computed;
  return tokens;
}

}  // namespace janus::dataplane
