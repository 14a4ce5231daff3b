#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "controllers/simulate/step_table.h"
#include "controllers/simulate/workload.h"

namespace janus::controllers {

// The capacity and speed of a deployment unit. A unit shares one batch and steps together: one
// service of m attention and n expert instances, or one whole-model instance.
struct UnitShape {
  std::shared_ptr<StepTable> steps;  // may be shared by units of one thread
  int64_t kv_tokens = 0;             // keys there is room for, all GPUs together
  int64_t most_running = 0;          // sequences that decode or compute their prompt
  // How many instances compute prompts, each a different one. A request gets at most one instance's
  // share of a step's prompt rows.
  int instances = 1;
  int64_t most_waiting = 0;  // further requests are refused
  // Room that admission keeps, in percent of the tokens that admitted sequences still have to
  // generate. With 0, a service short of keys admits, preempts and computes again, and does little
  // else.
  int growth_reserve_percent = 0;
};

// The result of `weight` identical requests.
struct Finished {
  SimulatedRequest request;
  double first_token = 0;  // when; seconds from the start
  double end = 0;
};

// Gets a unit's events, in order of time.
class UnitListener {
 public:
  virtual ~UnitListener() = default;
  virtual void OnFirstToken(const SimulatedRequest& request, double now) = 0;
  virtual void OnFinished(const Finished& finished) = 0;
  // The queue was full, or the request needs more keys than fit.
  virtual void OnRefused(const SimulatedRequest& request, double now) = 0;
};

// Continuous batching with chunked prompts, in steps. When a step begins,
//   1. requests that have arrived are admitted in order of arrival, if there is a place for their
//      rows, and room for the keys of their prompts beside the growth reserve; a group that fits
//      only partly is split;
//   2. while there is no room for the keys that this step writes, the youngest sequence loses its
//      keys and returns to the front of the queue; its prompt is then all its tokens so far;
//   3. prompts share the step's prompt rows (StepTable::PromptRows) in order of arrival; each gets
//      at most what one instance computes.
// When it ends, every running sequence has one more token, and so has every request that finished
// its prompt.
//
// The result is exact, but the unit jumps over steps: while the batch does not change, only the
// keys grow, and the time of k steps is the sum of a line. Confined to one thread.
class Unit {
 public:
  Unit(UnitShape shape, double now, UnitListener* listener);

  // A request arrives. Calls must be in order of arrival. It joins the first step that begins at or
  // after its time.
  void Arrive(const SimulatedRequest& request);
  // Runs every step that begins before `until`; the last one may end after it.
  void AdvanceTo(double until);
  // Changes the shape from the next step on, after a pause without steps. Sequences are
  // preempted if their keys no longer fit.
  void Reshape(const UnitShape& shape, double pause);
  // Removes and returns requests that have not been admitted, ascending by arrival.
  std::vector<SimulatedRequest> TakeWaiting();
  // A sequence with its keys, moving to another unit.
  struct InProgress {
    SimulatedRequest request;
    int32_t generated = 0;  // tokens
    double first_token = 0;
  };
  // Removes and returns the youngest running groups, at most `rows` sequences.
  std::vector<InProgress> TakeRunning(int64_t rows);
  // Removes and returns everything. Unfinished prompts start again elsewhere.
  struct Contents {
    std::vector<InProgress> running;
    std::vector<InProgress> waiting;  // without keys
  };
  Contents TakeAll();
  // The sequence continues here from `now`. If its keys find no room, it waits to be computed
  // again.
  void Adopt(const InProgress& sequence, double now);
  // The sequence waits here like a preempted one.
  void AdoptWaiting(const InProgress& sequence, double now);

  struct Load {
    int64_t running = 0;         // sequences that decode
    int64_t waiting = 0;         // requests without a first token, and preempted ones
    int64_t queued = 0;          // of these, requests that find no room
    int64_t waiting_tokens = 0;  // of their prompts, not computed yet
    int64_t kv_tokens = 0;
    int64_t running_kv_tokens = 0;  // of these, keys of decoding sequences
    double oldest_arrival = 0;      // of waiting requests; if none waits: now
  };
  Load Now() const;
  bool IsEmpty() const { return running_rows_ == 0 && prompts_.empty() && waiting_.empty(); }
  double now() const { return now_; }  // when the next step begins
  const UnitShape& shape() const { return shape_; }

  // Sums over steps since the start. The difference of two readings gives means over that time.
  struct Counters {
    int64_t steps = 0;           // with at least one row
    int64_t decoding_steps = 0;  // with a running sequence
    int64_t decode_tokens = 0;   // rows of running sequences
    int64_t prompt_tokens = 0;   // rows of prompts
    double decode_keys = 0;      // summed over decode_tokens
    double busy_seconds = 0;
    int64_t preempted = 0;  // sequences
  };
  const Counters& counters() const { return counters_; }

 private:
  struct Sequence {
    SimulatedRequest request;
    int32_t generated = 0;  // tokens
    double first_token = 0;
    int64_t prompt_left = 0;  // prompt tokens of the group that are not computed yet
    int64_t last_step = 0;    // the step after which it has all its tokens
    int older = -1;           // previous running sequence, by start
    int younger = -1;
    uint32_t life = 0;  // of the slot; detects stale heap entries

    int64_t PromptTokens() const { return int64_t{request.input} + generated; }
    // Prompt tokens to compute: all of them after keys were lost.
    int64_t PromptRows() const { return PromptTokens() - (generated == 0 ? request.cached : 0); }
  };
  struct Ending {
    int64_t step;
    int slot;
    uint32_t life;
    bool operator>(const Ending& other) const {
      return step != other.step ? step > other.step : slot > other.slot;
    }
  };
  struct Share {  // a share of a step's prompt rows
    int slot;
    int64_t rows;
  };

  // How many requests of the group fit now.
  int64_t Fitting(int slot) const;
  int NewSlot();
  int NewSlotOf(const InProgress& moved);
  void FreeSlot(int slot);
  void Admit();
  void MakeRoom();
  void Preempt(int slot);
  // Removes it from the running sequences, with what it has generated.
  void TakeOut(int slot);
  void PutIn(int slot);     // adds it to the running sequences, as the youngest
  double MeanKeys() const;  // of a running sequence; if none runs: 1
  void ShareOutPromptRows();
  // Steps until something other than the keys changes, at most `most`.
  int64_t StepsToNextChange() const;
  void Run(double until);
  void Start(int slot);
  void Finish(int slot);
  void DropStaleEndings();

  UnitShape shape_;
  UnitListener* listener_;
  double now_;
  int64_t step_ = 0;
  std::vector<Sequence> slots_;
  std::vector<int> free_;
  std::deque<int> waiting_;      // not admitted; the front is next
  std::deque<int> prompts_;      // admitted, prompt not finished
  std::vector<Ending> endings_;  // a heap, earliest first
  std::vector<Share> shares_;
  int oldest_ = -1;
  int youngest_ = -1;
  int64_t waiting_requests_ = 0;
  int64_t waiting_tokens_ = 0;
  int64_t prompt_requests_ = 0;
  int64_t prompt_tokens_left_ = 0;
  int64_t running_rows_ = 0;
  int64_t running_keys_ = 0;
  int64_t prompt_keys_ = 0;  // room taken by prompts that are being computed
  int64_t shared_rows_ = 0;  // sum of shares_
  int64_t tokens_left_ = 0;  // that admitted sequences still have to generate
  Counters counters_;
};

}  // namespace janus::controllers
