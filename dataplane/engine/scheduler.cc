#include "dataplane/engine/scheduler.h"

#include <algorithm>

namespace janus::dataplane {
namespace {

bool Stops(const Request& request, int32_t token) {
  return !request.ignore_stop_tokens &&
         std::find(request.stop_tokens.begin(), request.stop_tokens.end(), token) !=
             request.stop_tokens.end();
}

PrefixIndex::PageTokens TokensOf(const Sequence& sequence, int page) {
  return PrefixIndex::PageTokens(
      sequence.tokens.data() + static_cast<ptrdiff_t>(page) * kernels::kPageTokens,
      kernels::kPageTokens);
}

bool HasPage(const Sequence& sequence, int page) {
  return static_cast<int64_t>(sequence.tokens.size()) >= (int64_t{page} + 1) * kernels::kPageTokens;
}

// The next positions begin a page, and all pages before it are published.
bool StartsPage(const Sequence& sequence) {
  return sequence.computed == sequence.published * kernels::kPageTokens;
}

void StartOver(Sequence& sequence) {
  sequence.published = 0;
  sequence.prefix = kNoPrefix;
}

}  // namespace

Sequence::Sequence(Request r)
    : request(std::move(r)),
      given(static_cast<int>(request.generated.size())),
      tokens(request.prompt),
      routed(request.routed_from) {
  tokens.insert(tokens.end(), request.generated.begin(), request.generated.end());
  if (request.changes.AnyOf()) {
    changes = std::make_unique<LogitChanges>(request);
    for (const int32_t token : request.generated) changes->Note(token);
  }
  if (request.grammar) constraint = std::make_shared<Constraint>(request);
  request.generated = {};
  if (given > 0) known = static_cast<int>(tokens.size());
}

Status Scheduler::Submit(Request request) {
  const auto prompt = static_cast<int64_t>(request.prompt.size());
  if (prompt == 0) return InvalidArgument("the prompt is empty");
  if (prompt >= options_.max_model_len) {
    return InvalidArgument("the prompt has " + std::to_string(prompt) + " tokens; at most " +
                           std::to_string(options_.max_model_len - 1) +
                           " leave room for an answer");
  }
  JANUS_RETURN_IF_ERROR(CheckReplay(request));
  const int64_t longest =
      std::min<int64_t>(prompt + std::max(1, request.max_tokens), options_.max_model_len);
  if (KvPagePool::PagesFor(longest) > cache_.num_pages()) {
    return InvalidArgument("prompt and answer of " + std::to_string(longest) +
                           " tokens exceed the key-value cache of " +
                           std::to_string(int64_t{cache_.num_pages()} * kernels::kPageTokens) +
                           "; lower max_tokens or raise kvCache.size");
  }
  auto sequence = std::make_unique<Sequence>(std::move(request));
  sequence->arrival = arrivals_++;
  replayed_ += static_cast<uint64_t>(sequence->given);
  waiting_positions_ += sequence->remaining();
  waiting_.push_back(std::move(sequence));
  return OkStatus();
}

// Checks that there is something left to generate.
Status Scheduler::CheckReplay(const Request& request) const {
  const auto given = static_cast<int64_t>(request.generated.size());
  if (given == 0) return OkStatus();
  const std::string what = "a replay of " + std::to_string(given) + " generated tokens: ";
  if (given >= request.max_tokens) {
    return InvalidArgument(what + "max_tokens is " + std::to_string(request.max_tokens) +
                           " and counts them");
  }
  if (static_cast<int64_t>(request.prompt.size()) + given >= options_.max_model_len) {
    return InvalidArgument(what + "with the prompt they reach the context of " +
                           std::to_string(options_.max_model_len));
  }
  const bool ended = std::any_of(request.generated.begin(), request.generated.end(),
                                 [&](int32_t token) { return Stops(request, token); });
  if (ended) return InvalidArgument(what + "one of them is a stop token, which ended the answer");
  return OkStatus();
}

void Scheduler::Free(Sequence& sequence) {
  cache_.Release(sequence.pages);
  cache_.Drop(sequence.swapped);
}

bool Scheduler::Cancel(const RequestKey& key) {
  const auto is_it = [&](const SequencePtr& s) {
    if (s->request.key != key) return false;
    Free(*s);
    return true;
  };
  const size_t waited = std::erase_if(waiting_, is_it);
  if (waited > 0) CountWaiting();
  return waited + std::erase_if(away_, is_it) + std::erase_if(running_, is_it) > 0;
}

void Scheduler::CancelStream(uint64_t stream) {
  CancelWhere([&](const RequestKey& key) { return key.stream == stream; });
}

std::vector<RequestKey> Scheduler::CancelAll() {
  return CancelWhere([](const RequestKey&) { return true; });
}

std::vector<RequestKey> Scheduler::CancelWhere(FunctionRef<bool(const RequestKey&)> is_meant) {
  std::vector<RequestKey> cancelled;
  const auto cancel = [&](const SequencePtr& s) {
    if (!is_meant(s->request.key)) return false;
    cancelled.push_back(s->request.key);
    Free(*s);
    return true;
  };
  std::erase_if(waiting_, cancel);
  std::erase_if(away_, cancel);
  std::erase_if(running_, cancel);
  CountWaiting();
  return cancelled;
}

void Scheduler::CountWaiting() {
  waiting_positions_ = 0;
  for (const SequencePtr& s : waiting_) waiting_positions_ += s->remaining();
}

bool Scheduler::TakePagesBack(Sequence& sequence) {
  if (sequence.swapped.pages() > 0) {
    // Without room for its next row the sequence would be preempted again at once, and both copies
    // wasted.
    return KvPagePool::PagesFor(sequence.computed + 1) <= cache_.free_pages() &&
           cache_.SwapIn(sequence.swapped, sequence.pages);
  }
  // If a sequence is dropped again before it is complete, its computation is wasted. So leave a
  // page for every running sequence.
  return TakePages(sequence, running());
}

// Gives a sequence without pages all that its tokens and the next one need. False (and nothing
// changed): fewer than these and `spare` are free.
bool Scheduler::TakePages(Sequence& sequence, int spare) {
  const int cached = sequence.cached;
  UsePublished(sequence);
  AwaitPrefix(sequence);
  const int pages = KvPagePool::PagesFor(static_cast<int64_t>(sequence.tokens.size()) + 1);
  const int missing = pages - static_cast<int>(sequence.pages.size());
  if (missing + spare <= cache_.free_pages() && cache_.Grow(sequence.pages, pages)) return true;
  cache_.Release(sequence.pages);
  cached_ -= static_cast<uint64_t>(sequence.computed);
  sequence.computed = 0;
  sequence.cached = cached;
  StartOver(sequence);
  return false;
}

void Scheduler::SharePrefixes(PrefixRule rule) {
  if (rule == rule_) return;
  rule_ = rule;
  cache_.WithdrawAll();
  for (const SequencePtr& s : running_) StartOver(*s);
}

bool Scheduler::MayShare(const Sequence& sequence, int page) const {
  if (rule_ == PrefixRule::kNone) return false;
  if (rule_ == PrefixRule::kAll) return true;
  return (int64_t{page} + 1) * kernels::kPageTokens <=
         static_cast<int64_t>(sequence.request.prompt.size());
}

// Whether a published page may replace this one of the sequence, which has not computed it.
bool Scheduler::MayUsePublished(const Sequence& sequence, int page) const {
  const int64_t end = (int64_t{page} + 1) * kernels::kPageTokens;
  return sequence.request.prompt_logprobs < 0 && !sequence.RoutesAt(static_cast<int>(end) - 1) &&
         static_cast<int64_t>(sequence.tokens.size()) > end && MayShare(sequence, page);
}

// Whether a published page may replace the one that the sequence would compute next.
bool Scheduler::MayUsePublished(const Sequence& sequence) const {
  return StartsPage(sequence) && MayUsePublished(sequence, sequence.published);
}

// Keeps what host memory holds of its prefix, while others leave the pool for it.
void Scheduler::AwaitPrefix(const Sequence& sequence) {
  if (!cache_.has_prefix_room()) return;
  awaited_.clear();
  PrefixId prefix = sequence.prefix;
  for (int page = sequence.published; MayUsePublished(sequence, page); ++page) {
    const auto held = cache_.Find(prefix, TokensOf(sequence, page));
    if (!held) break;
    awaited_.push_back(*held);
    prefix = held->id;
  }
  cache_.Await(awaited_);
}

void Scheduler::UsePublished(Sequence& sequence) {
  while (MayUsePublished(sequence)) {
    const auto page = static_cast<size_t>(sequence.published);
    const PrefixIndex::PageTokens tokens = TokensOf(sequence, sequence.published);
    const auto held = cache_.Find(sequence.prefix, tokens);
    if (!held) return;
    const bool has_page = page < sequence.pages.size();
    if (held->page < 0) {
      // A sequence that is not admitted yet has no page to copy it to.
      if (!has_page || !cache_.Restore(sequence.prefix, tokens, sequence.pages[page])) return;
      cached_in_host_ += kernels::kPageTokens;
    } else {
      cache_.Share(held->page);
      if (has_page) {
        cache_.Release(std::exchange(sequence.pages[page], held->page));
      } else {
        sequence.pages.push_back(held->page);
      }
    }
    sequence.prefix = held->id;
    ++sequence.published;
    sequence.computed += kernels::kPageTokens;
    cached_ += kernels::kPageTokens;
    // A page that was computed for the request before is not counted for its client.
    if (sequence.known == 0) sequence.cached += kernels::kPageTokens;
  }
}

// Whether an older sequence computes the page that this one needs next, and may use.
bool Scheduler::NextPageIsComputed(const Sequence& sequence) const {
  if (!MayUsePublished(sequence)) return false;
  const int page = sequence.published;
  const PrefixIndex::PageTokens tokens = TokensOf(sequence, page);
  return std::any_of(running_.begin(), running_.end(), [&](const SequencePtr& s) {
    return s->arrival < sequence.arrival && !s->decoding() && s->published == page &&
           s->prefix == sequence.prefix && HasPage(*s, page) && MayShare(*s, page) &&
           std::ranges::equal(TokensOf(*s, page), tokens);
  });
}

// Whether host memory holds the page that this one needs next: the next step copies it.
bool Scheduler::NextPageIsInHost(const Sequence& sequence) const {
  if (!MayUsePublished(sequence)) return false;
  const auto held = cache_.Find(sequence.prefix, TokensOf(sequence, sequence.published));
  return held && held->page < 0;
}

void Scheduler::Publish(Sequence& sequence) {
  while ((sequence.published + 1) * kernels::kPageTokens <= sequence.computed &&
         MayShare(sequence, sequence.published)) {
    sequence.prefix = cache_.Publish(sequence.prefix, TokensOf(sequence, sequence.published),
                                     sequence.pages[static_cast<size_t>(sequence.published)]);
    ++sequence.published;
  }
}

void Scheduler::BringBack() {
  while (!away_.empty() && running() < options_.max_batch) {
    Sequence& oldest = *away_.front();
    if (!TakePagesBack(oldest)) return;
    const auto later = std::find_if(running_.begin(), running_.end(), [&](const SequencePtr& s) {
      return s->arrival > oldest.arrival;
    });
    running_.insert(later, std::move(away_.front()));
    away_.pop_front();
  }
}

void Scheduler::PreemptNewest() {
  if (running_.empty()) return;
  SequencePtr newest = std::move(running_.back());
  running_.pop_back();
  ++preempted_;
  if (newest->computed == 0 || !cache_.SwapOut(newest->pages, newest->swapped)) {
    cache_.Release(newest->pages);
    newest->known = std::max(newest->known, newest->computed);
    newest->computed = 0;
  }
  StartOver(*newest);
  const auto later = std::find_if(away_.begin(), away_.end(), [&](const SequencePtr& s) {
    return s->arrival > newest->arrival;
  });
  away_.insert(later, std::move(newest));
}

void Scheduler::AddDecodeRows(const BatchLimits& limits, Batch& batch) {
  // running_ may lose its last entries while pages are found for an older sequence.
  for (size_t i = 0; i < running_.size(); ++i) {
    Sequence& sequence = *running_[i];
    if (!sequence.decoding()) continue;
    if (static_cast<int>(batch.rows.size()) >= limits.rows) return;
    const int pages = KvPagePool::PagesFor(sequence.computed + 1);
    bool gone = false;
    while (!gone && !cache_.Grow(sequence.pages, pages)) {
      gone = running_.size() == i + 1;
      PreemptNewest();
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

// Uses what is published, and computes what is not.
void Scheduler::CatchUp(Sequence& sequence, const BatchLimits& limits, Batch& batch) {
  UsePublished(sequence);
  if (NextPageIsComputed(sequence) || NextPageIsInHost(sequence)) return;
  AddChunk(sequence, limits, batch);
}

void Scheduler::AddPrefillRows(const BatchLimits& limits, Batch& batch) {
  const auto has_room = [&] {
    return static_cast<int>(batch.rows.size()) < limits.rows &&
           batch.prefill_rows < limits.prefill_rows;
  };
  for (const SequencePtr& sequence : running_) {
    if (!has_room()) return;
    if (sequence->decoding()) continue;
    CatchUp(*sequence, limits, batch);
  }
  // A preempted sequence is older than any waiting one; let it have the pages first.
  while (away_.empty() && !waiting_.empty() && running() < options_.max_batch && has_room()) {
    Sequence& first = *waiting_.front();
    const int positions = first.remaining();
    if (!TakePages(first, 0)) return;
    running_.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
    waiting_positions_ -= positions;
    CatchUp(first, limits, batch);
  }
}

Batch Scheduler::FormBatch(const BatchLimits& limits) {
  Batch batch;
  cache_.BeginStep();
  BringBack();
  AddDecodeRows(limits, batch);
  AddPrefillRows(limits, batch);
  cache_.SaveAhead();
  return batch;
}

void Scheduler::MarkComputed(const Batch& batch) {
  for (const BatchRow& row : batch.rows) {
    row.sequence->computed = row.position + 1;
    if (row.position < row.sequence->known) ++recomputed_;
  }
  for (size_t i = 0; i < batch.rows.size(); ++i) {
    const bool is_last = i + 1 == batch.rows.size();
    if (is_last || batch.rows[i + 1].sequence != batch.rows[i].sequence) {
      Publish(*batch.rows[i].sequence);
    }
  }
}

FinishReason Scheduler::Append(Sequence& sequence, int32_t token) {
  sequence.tokens.push_back(token);
  if (sequence.changes) sequence.changes->Note(token);
  const Request& request = sequence.request;
  if (Stops(request, token)) return FinishReason::kStop;
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
  const auto add = [&](const SequencePtr& s) {
    if (s->decoding()) {
      ++outlook.decode_rows;
    } else {
      outlook.prefill_rows += s->remaining();
    }
  };
  std::for_each(running_.begin(), running_.end(), add);
  std::for_each(away_.begin(), away_.end(), add);
  std::for_each(waiting_.begin(), waiting_.end(), add);
  for (const BatchRow& row : batch.rows) {
    if (row.sequence->decoding()) continue;
    --outlook.prefill_rows;
    outlook.decode_rows += row.last ? 1 : 0;
  }
  return outlook;
}

Scheduler::Load Scheduler::load() const {
  Load load;
  load.awaiting = waiting();
  load.waiting_positions = waiting_positions_;
  if (!waiting_.empty()) load.oldest = waiting_.front()->request.arrived;
  for (const SequencePtr& s : away_) load.waiting_positions += s->decoding() ? 0 : s->remaining();
  for (const SequencePtr& s : running_) {
    if (s->decoding()) {
      ++load.decoding;
      load.decoding_kv_tokens += s->computed;
      continue;
    }
    ++load.awaiting;
    load.waiting_positions += s->remaining();
    if (s->generated() > s->given) continue;
    load.oldest = std::min(load.oldest.value_or(s->request.arrived), s->request.arrived);
  }
  return load;
}

int Scheduler::swapped() const {
  return static_cast<int>(std::count_if(
      away_.begin(), away_.end(), [](const SequencePtr& s) { return s->swapped.pages() > 0; }));
}

int64_t Scheduler::keys() const {
  int64_t tokens = 0;
  for (const SequencePtr& s : running_) tokens += s->computed;
  return tokens;
}

}  // namespace janus::dataplane
