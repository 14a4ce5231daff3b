#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "common/clock.h"
#include "common/function_ref.h"
#include "dataplane/engine/constraint.h"
#include "dataplane/engine/kv_page_pool.h"
#include "dataplane/engine/logit_changes.h"
#include "dataplane/engine/request.h"

// Manages an attention instance's sequences, independent of what computes them: the rows of a step,
// the places of keys and values, and the tokens for the gateways.
//
// May include: kernels, common.
namespace janus::dataplane {

// A position's form of computation depends only on whether it is in its request's prompt or was
// generated. It never depends on when, beside which requests or how often it is computed. Families
// with two forms of attention choose by this class (latent attention: expanded for prompt
// positions, absorbed for generated ones). Other families compute both classes alike.
enum class PositionClass : uint8_t { kPrompt, kGenerated };

// Which full pages later sequences with the same prefix may use: none, those that hold prompt
// positions only, or all. A position has the same bits wherever it is used only if its class is the
// same there, or if both classes are computed alike.
enum class PrefixRule : uint8_t { kNone, kPrompts, kAll };

// A request on its way through the engine. Positions 0..computed-1 have keys and values in `pages`.
struct Sequence {
  explicit Sequence(Request r);

  int remaining() const { return static_cast<int>(tokens.size()) - computed; }
  // True if only the token generated last is not computed yet; it is the next row. Otherwise there
  // are positions to catch up with: the prompt, or generated positions that lost their keys and
  // values.
  bool decoding() const {
    return remaining() <= 1 && computed >= static_cast<int>(request.prompt.size());
  }
  PositionClass ClassOf(int position) const {
    return position < static_cast<int>(request.prompt.size()) ? PositionClass::kPrompt
                                                              : PositionClass::kGenerated;
  }
  // Whether the draw of its next token differs from that of the model's own logits.
  bool ChangesLogits() const { return changes != nullptr || constraint != nullptr; }
  int generated() const { return static_cast<int>(tokens.size() - request.prompt.size()); }
  // Whether the logits of `position` score a prompt token: the one at position + 1.
  bool ScoresAt(int position) const {
    return request.prompt_logprobs >= 0 && position + 1 >= scored &&
           position + 1 < static_cast<int>(request.prompt.size());
  }

  // Whether the experts of `position` are to be reported.
  bool RoutesAt(int position) const { return routed >= 0 && position >= routed; }

  Request request;  // its `generated` is moved to `tokens`
  int given = 0;    // generated tokens that another instance drew: a replay
  int known = 0;    // positions that were computed before, here or elsewhere
  uint64_t arrival = 0;
  std::vector<int32_t> tokens;             // prompt, then what was generated
  std::unique_ptr<LogitChanges> changes;   // of its logits; null: no changes
  std::shared_ptr<Constraint> constraint;  // null: the answer follows no grammar
  int scored = 1;  // prompt positions that have been scored; the first has no score
  int routed;      // the next position whose experts are to be reported; -1: of none
  int computed = 0;
  MonotonicTime first_token;  // when the first generated token was drawn
  std::vector<int32_t> pages;
  int published = 0;            // of them: the first ones, which other sequences may use
  PrefixId prefix = kNoPrefix;  // which these hold
  int cached = 0;               // prompt positions that were not computed for this request
  KvPagePool::Swapped swapped;
};

// One row of a step: a position of a sequence.
struct BatchRow {
  Sequence* sequence = nullptr;
  int32_t position = 0;
  int32_t token = 0;
  bool last = false;  // of its sequence's tokens: its logits draw the next token
  PositionClass position_class = PositionClass::kPrompt;
};

struct Batch {
  // Rows of one sequence are neighbours, positions ascending.
  std::vector<BatchRow> rows;
  int decode_rows = 0;   // of sequences that decode, one each
  int prefill_rows = 0;  // of sequences that catch up: prompts, and what is computed again
};

struct BatchLimits {
  int rows = 0;          // at most
  int prefill_rows = 0;  // of these, at most so many positions to catch up with
};

struct SchedulerOptions {
  int max_batch = 256;        // running sequences
  int64_t max_model_len = 0;  // positions per sequence
};

// Decides which sequences run and which rows a step computes. Older sequences come first. If pages
// run out, the newest running sequence is preempted: its keys and values are copied to host memory.
// If that is full too, they are dropped and computed again later, within the prefill budget: prompt
// positions as prompt rows, generated ones as generated rows, several of a sequence in one step.
//
// A sequence starts behind the longest prefix whose pages are published (KvPagePool). While an
// older sequence computes the page that a newer one needs next, the newer one waits for that page.
// A page that only host memory holds is copied back; if the step has made all its copies, the
// sequence waits for the next step.
// The last position is always computed, since its logits draw the next token. Requests that score
// their prompts compute all of it, and those that report experts all positions from there on.
//
// Confined to the step thread.
class Scheduler {
 public:
  Scheduler(const SchedulerOptions& options, KvPagePool& cache)
      : options_(options), cache_(cache) {}

  // InvalidArgument: can never run here (length, pages). The caller bounds how many requests wait.
  Status Submit(Request request);
  // Ends a request in any state. False: unknown key, because the request has finished meanwhile.
  bool Cancel(const RequestKey& key);
  // Ends every request of a gateway's connection.
  void CancelStream(uint64_t stream);
  // Ends every request and returns their keys.
  std::vector<RequestKey> CancelAll();

  // From now on. After a change no page that was published before is used again. Not while a batch
  // is being computed.
  void SharePrefixes(PrefixRule rule);

  // Forms the rows of the next step; admits, swaps in and preempts sequences for that.
  Batch FormBatch(const BatchLimits& limits);
  // Preempts the newest running sequence, if there is one. Not while a batch is being computed.
  void PreemptNewest();

  // The batch has been computed: its rows' keys and values are in the cache.
  void MarkComputed(const Batch& batch);
  // Appends a generated token. Returns whether that ends the sequence, and why.
  FinishReason Append(Sequence& sequence, int32_t token);
  // Removes a finished sequence.
  void Remove(const Sequence& sequence);

  // What the step after `batch` (just formed, not yet computed) would compute if no sequence ended.
  struct Outlook {
    int decode_rows = 0;
    int64_t prefill_rows = 0;
  };
  Outlook After(const Batch& batch) const;

  // The sequences as they are: those that decode, and all others, which wait for something.
  struct Load {
    int decoding = 0;
    int64_t decoding_kv_tokens = 0;  // keys that those hold
    int awaiting = 0;  // wait to be admitted, have positions computed, or were preempted
    int64_t waiting_positions = 0;  // of those, positions to compute before they decode
    // When the oldest arrived of those that have drawn no token here; nothing: there is none.
    std::optional<MonotonicTime> oldest;
  };
  // Looks at each running and each preempted sequence.
  Load load() const;

  bool idle() const { return waiting_.empty() && running_.empty() && away_.empty(); }
  int running() const { return static_cast<int>(running_.size()); }
  int waiting() const { return static_cast<int>(waiting_.size() + away_.size()); }
  // Positions of running sequences in the cache. One that several share counts once.
  int64_t kv_tokens() const { return keys() - cache_.shared_positions(); }
  // The same, but a shared one counts for each sequence: what a step reads.
  int64_t keys() const;
  uint64_t preempted() const { return preempted_; }
  // Rows of positions that had been computed before.
  uint64_t recomputed() const { return recomputed_; }
  // Sequences that have their keys and values in host memory now.
  int swapped() const;
  // Positions that were not computed because published pages held them.
  uint64_t cached() const { return cached_; }
  // Of these, positions that came from host memory.
  uint64_t cached_in_host() const { return cached_in_host_; }
  // Generated tokens that requests brought along because their previous instance was lost.
  uint64_t replayed() const { return replayed_; }

 private:
  using SequencePtr = std::unique_ptr<Sequence>;

  Status CheckReplay(const Request& request) const;
  std::vector<RequestKey> CancelWhere(FunctionRef<bool(const RequestKey&)> is_meant);
  void BringBack();
  bool TakePagesBack(Sequence& sequence);
  bool TakePages(Sequence& sequence, int spare);
  bool MayShare(const Sequence& sequence, int page) const;
  bool MayUsePublished(const Sequence& sequence, int page) const;
  bool MayUsePublished(const Sequence& sequence) const;
  void AwaitPrefix(const Sequence& sequence);
  void UsePublished(Sequence& sequence);
  bool NextPageIsComputed(const Sequence& sequence) const;
  bool NextPageIsInHost(const Sequence& sequence) const;
  void CatchUp(Sequence& sequence, const BatchLimits& limits, Batch& batch);
  void Publish(Sequence& sequence);
  void AddDecodeRows(const BatchLimits& limits, Batch& batch);
  void AddPrefillRows(const BatchLimits& limits, Batch& batch);
  void AddChunk(Sequence& sequence, const BatchLimits& limits, Batch& batch);
  void Free(Sequence& sequence);
  void CountWaiting();

  const SchedulerOptions options_;
  KvPagePool& cache_;
  std::deque<SequencePtr> waiting_;   // not yet admitted, by arrival
  int64_t waiting_positions_ = 0;     // of them
  std::deque<SequencePtr> away_;      // preempted, by arrival
  std::vector<SequencePtr> running_;  // by arrival
  uint64_t arrivals_ = 0;
  uint64_t preempted_ = 0;
  uint64_t recomputed_ = 0;
  uint64_t replayed_ = 0;
  uint64_t cached_ = 0;
  uint64_t cached_in_host_ = 0;
  PrefixRule rule_ = PrefixRule::kNone;
  std::vector<PrefixIndex::Entry> awaited_;  // reused by AwaitPrefix
};

}  // namespace janus::dataplane
