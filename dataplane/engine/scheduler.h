#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "common/clock.h"
#include "common/function_ref.h"
#include "dataplane/engine/kv_page_pool.h"
#include "dataplane/engine/logit_changes.h"
#include "dataplane/engine/request.h"

// What an attention instance does with its sequences, whatever computes them: which rows a step
// has, where keys and values lie, which tokens go to the gateways.
//
// May include: kernels, common.
namespace janus::dataplane {

// How a position is computed depends on nothing but whether it is one of its request's prompt or
// one that was generated: never on when, beside which requests or how often. Families whose
// attention has two forms (latent attention: expanded for prompt positions, absorbed for generated
// ones) choose by it; where both are one algorithm it does not show.
enum class PositionClass : uint8_t { kPrompt, kGenerated };

// A request on its way through the engine. Positions 0..computed-1 have keys and values in `pages`.
struct Sequence {
  explicit Sequence(Request r);

  int remaining() const { return static_cast<int>(tokens.size()) - computed; }
  // All is computed but the token generated last, whose row is the next one. Otherwise there are
  // positions to catch up with: the prompt's, and after a loss of keys and values generated ones.
  bool decoding() const {
    return remaining() <= 1 && computed >= static_cast<int>(request.prompt.size());
  }
  PositionClass ClassOf(int position) const {
    return position < static_cast<int>(request.prompt.size()) ? PositionClass::kPrompt
                                                              : PositionClass::kGenerated;
  }
  int generated() const { return static_cast<int>(tokens.size() - request.prompt.size()); }
  // The position whose token's logprob among the prompt's comes from the logits of `position`.
  bool ScoresAt(int position) const {
    return request.prompt_logprobs >= 0 && position + 1 >= scored &&
           position + 1 < static_cast<int>(request.prompt.size());
  }

  Request request;  // its `generated` is in `tokens`
  int given = 0;    // of the generated tokens, drawn elsewhere: a replay
  int known = 0;    // positions that were computed before, here or elsewhere
  uint64_t arrival = 0;
  std::vector<int32_t> tokens;            // prompt, then what was generated
  std::unique_ptr<LogitChanges> changes;  // of its logits; null: none
  int scored = 1;  // prompt positions whose logprobs are out; the first has none
  int computed = 0;
  MonotonicTime first_token;  // when the first generated token was drawn
  std::vector<int32_t> pages;
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
  int prefill_rows = 0;  // of them positions to catch up with
};

struct SchedulerOptions {
  int max_batch = 256;        // running sequences
  int64_t max_model_len = 0;  // positions per sequence
};

// Decides which sequences run and which rows a step computes. Oldest first throughout; the newest
// running sequence gives way when pages run out: its keys and values go to host memory, or, when
// that is short too, they are dropped and computed again later, prompt positions as prompt rows and
// generated ones as generated rows, several of a sequence in a step, within the prefill budget.
//
// Confined to the step thread.
class Scheduler {
 public:
  Scheduler(const SchedulerOptions& options, KvPagePool& cache)
      : options_(options), cache_(cache) {}

  // InvalidArgument: can never run here (length, pages). How many may wait the caller decides.
  Status Submit(Request request);
  // Ends a request wherever it is. False: there is none of this key (it has finished meanwhile).
  bool Cancel(const RequestKey& key);
  // Ends every request of a gateway's connection.
  void CancelStream(uint64_t stream);
  // Ends every request; whose they were.
  std::vector<RequestKey> CancelAll();

  // The rows of the next step. Admits, brings back and preempts.
  Batch FormBatch(const BatchLimits& limits);
  // Takes the newest running sequence off the device, if one runs. Not while a batch is being
  // computed.
  void PreemptNewest();

  // The batch has been computed: its rows' keys and values are in the cache.
  void MarkComputed(const Batch& batch);
  // Appends a generated token and says whether that ends the sequence.
  FinishReason Append(Sequence& sequence, int32_t token);
  // Removes a finished sequence.
  void Remove(const Sequence& sequence);

  // What the step after `batch` (just formed, not yet computed) would bring if no sequence ended.
  struct Outlook {
    int decode_rows = 0;
    int64_t prefill_rows = 0;
  };
  Outlook After(const Batch& batch) const;

  bool idle() const { return waiting_.empty() && running_.empty() && away_.empty(); }
  int running() const { return static_cast<int>(running_.size()); }
  int waiting() const { return static_cast<int>(waiting_.size() + away_.size()); }
  int64_t kv_tokens() const;
  uint64_t preempted() const { return preempted_; }
  // Rows of positions that had been computed before.
  uint64_t recomputed() const { return recomputed_; }
  // Sequences whose keys and values are in host memory now.
  int swapped() const;
  // Generated tokens that requests came with, as their instance was lost.
  uint64_t replayed() const { return replayed_; }

 private:
  using SequencePtr = std::unique_ptr<Sequence>;

  Status CheckReplay(const Request& request) const;
  std::vector<RequestKey> CancelWhere(FunctionRef<bool(const RequestKey&)> is_meant);
  void BringBack();
  bool TakePagesBack(Sequence& sequence);
  void AddDecodeRows(const BatchLimits& limits, Batch& batch);
  void AddPrefillRows(const BatchLimits& limits, Batch& batch);
  void AddChunk(Sequence& sequence, const BatchLimits& limits, Batch& batch);
  void Free(Sequence& sequence);

  const SchedulerOptions options_;
  KvPagePool& cache_;
  std::deque<SequencePtr> waiting_;   // not yet admitted, by arrival
  std::deque<SequencePtr> away_;      // preempted, by arrival
  std::vector<SequencePtr> running_;  // by arrival
  uint64_t arrivals_ = 0;
  uint64_t preempted_ = 0;
  uint64_t recomputed_ = 0;
  uint64_t replayed_ = 0;
};

}  // namespace janus::dataplane
