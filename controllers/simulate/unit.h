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

// What a deployment unit can hold and how fast it steps. A unit is one service of m attention and n
// expert instances, or one whole-model instance: whatever shares one batch and steps together.
struct UnitShape {
  std::shared_ptr<StepTable> steps;  // may be shared by units of one thread
  int64_t kv_tokens = 0;             // keys there is room for, all GPUs together
  int64_t most_running = 0;          // sequences that decode or whose prompt is computed
  // That compute prompts, each its own: of a step's prompt rows one request gets at most a share.
  int instances = 1;
  int64_t most_waiting = 0;  // requests; beyond them new ones are refused
  // Room that admission leaves for what those admitted will yet write, percent of it. Without any,
  // a service short of keys admits, preempts and computes again, and does little else.
  int growth_reserve_percent = 0;
};

// What became of `weight` alike requests.
struct Finished {
  SimulatedRequest request;
  double first_token = 0;  // when; seconds from the start
  double end = 0;
};

// Who is told. Called in order of time within a unit.
class UnitListener {
 public:
  virtual ~UnitListener() = default;
  virtual void OnFirstToken(const SimulatedRequest& request, double now) = 0;
  virtual void OnFinished(const Finished& finished) = 0;
  // Its queue was full, or it needs more keys than there is room for.
  virtual void OnRefused(const SimulatedRequest& request, double now) = 0;
};

// Continuous batching with chunked prompts, in steps. At a step's begin
//   1. requests that have arrived are admitted in order of arrival while running and prompt rows
//      have a place, and the keys of their prompts beside the growth reserve; a group that finds
//      room for some goes in parts;
//   2. while the keys that this step writes have no place, the youngest sequence loses its keys and
//      goes back to the front of the queue; its prompt is then all its tokens so far;
//   3. prompts share the step's prompt rows (StepTable::PromptRows) in order of arrival, each at
//      most what one instance computes.
// At its end every running sequence has one token more, and so has a request whose prompt is done.
//
// What the unit does is that, exactly; how, is in jumps: between two changes of who is in the batch
// nothing but the keys grows, and the time of k steps is the sum of a line. Confined to one thread.
class Unit {
 public:
  Unit(UnitShape shape, double now, UnitListener* listener);

  // A request arrives; not before any that came earlier. It joins the first step that begins at or
  // after its time.
  void Arrive(const SimulatedRequest& request);
  // Runs every step that begins before `until`; the last one may end after it.
  void AdvanceTo(double until);
  // From the next step on, another shape, after a pause in which nothing runs. Sequences that no
  // longer find room for their keys are preempted.
  void Reshape(const UnitShape& shape, double pause);
  // Takes away the requests that have not been admitted; ascending by arrival.
  std::vector<SimulatedRequest> TakeWaiting();
  // A sequence with its keys, on its way to another unit.
  struct InProgress {
    SimulatedRequest request;
    int32_t generated = 0;  // tokens
    double first_token = 0;
  };
  // Takes away the youngest running groups, no more than `rows` sequences of them.
  std::vector<InProgress> TakeRunning(int64_t rows);
  // Takes away everything. Prompts that are not done begin anew elsewhere.
  struct Contents {
    std::vector<InProgress> running;
    std::vector<InProgress> waiting;  // without keys
  };
  Contents TakeAll();
  // It goes on here from `now`; where its keys find no room, it waits to be computed again.
  void Adopt(const InProgress& sequence, double now);
  // It waits here, as one that was preempted does.
  void AdoptWaiting(const InProgress& sequence, double now);

  struct Load {
    int64_t running = 0;         // sequences that decode
    int64_t waiting = 0;         // requests without a first token, and preempted ones
    int64_t queued = 0;          // of these, those that find no room
    int64_t waiting_tokens = 0;  // of their prompts, not computed yet
    int64_t kv_tokens = 0;
    int64_t running_kv_tokens = 0;  // of these, of sequences that decode
    double oldest_arrival = 0;      // of the waiting; now if none
  };
  Load Now() const;
  bool IsEmpty() const { return running_rows_ == 0 && prompts_.empty() && waiting_.empty(); }
  double now() const { return now_; }  // begin of the next step
  const UnitShape& shape() const { return shape_; }

  // Sums over steps since the start; differences between two looks are means of a time.
  struct Counters {
    int64_t steps = 0;           // with at least one row
    int64_t decoding_steps = 0;  // with a running sequence
    int64_t decode_tokens = 0;   // rows of running sequences
    int64_t prompt_tokens = 0;   // rows of prompts
    double decode_keys = 0;      // over all of decode_tokens
    double busy_seconds = 0;
    int64_t preempted = 0;  // sequences
  };
  const Counters& counters() const { return counters_; }

 private:
  struct Sequence {
    SimulatedRequest request;
    int32_t generated = 0;  // tokens
    double first_token = 0;
    int64_t prompt_left = 0;  // tokens of the group's prompts that are not computed yet
    int64_t last_step = 0;    // after which it has all its tokens
    int older = -1;           // running sequences by the time they began
    int younger = -1;
    uint32_t life = 0;  // of the slot, to tell stale heap entries

    int64_t PromptTokens() const { return int64_t{request.input} + generated; }
    // Of these, to be computed: all once keys were lost.
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
  struct Share {  // of a step's prompt rows
    int slot;
    int64_t rows;
  };

  // How many of the group find room now.
  int64_t Fitting(int slot) const;
  int NewSlot();
  int NewSlotOf(const InProgress& moved);
  void FreeSlot(int slot);
  void Admit();
  void MakeRoom();
  void Preempt(int slot);
  // Out of the running ones, with what it has generated.
  void TakeOut(int slot);
  void PutIn(int slot);     // among the running ones, as the youngest
  double MeanKeys() const;  // of a running sequence; 1 without any
  void ShareOutPromptRows();
  // Steps until something but the keys changes, at most `most`.
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
  std::deque<int> prompts_;      // admitted, prompt not done
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
  int64_t tokens_left_ = 0;  // that those admitted will yet write
  Counters counters_;
};

}  // namespace janus::controllers
