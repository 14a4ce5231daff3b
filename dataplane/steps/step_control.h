#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "common/function_ref.h"
#include "common/log.h"
#include "common/status.h"
#include "dataplane/comm/exchange/exchange.h"
#include "dataplane/comm/wire/wire.h"
#include "dataplane/steps/detection_deadline.h"

// The step protocol (docs/steps.md). StepControl is one member's side of it: Leader at attention 0,
// Follower elsewhere. Leader asks Coordinator who takes part in a step, and AbortRound which
// members have left a step that is given up.
//
// May include: dataplane/comm, kernels, common.
namespace janus::dataplane {

// Who takes part in a step, by attention rank.
struct Ticket {
  uint64_t step = 0;
  std::vector<TicketShare> shares;  // [m]; row_limit 0: takes no part
  bool participates(int rank) const { return shares[static_cast<size_t>(rank)].row_limit > 0; }
};

struct StepDeadlines {
  // A round that takes longer is missed, and its step is given up. What was said about that and not
  // answered is said again after as long. At most; less where rounds are short (DetectionDeadline).
  Seconds detection{10.0};
  // Who takes longer to leave a step that is given up is lost, and the service with it.
  Seconds loss{20.0};
  Seconds least_detection{1.0};
};

// Which step comes next and which one is given up, as one member hears it and says it
// (docs/steps.md). What comes falsified, twice or late is dropped and counted.
//
// A step is given up for all members together. Whoever misses a round says so (Miss); the
// coordinator tells everybody to leave all steps so far; every member drops what it has of them
// (Exchange::Abandon) and says that it has left (Leave). When all have, nobody reads or writes a
// slot for them any more, and the next ticket, of a number never used, is for the same rows: no
// instance has moved on in a step that it did not end.
//
// Confined to the step thread.
class StepControl {
 public:
  virtual ~StepControl() = default;

  // Reads what has come. True: there is a ticket, a step to leave, or an error.
  virtual bool Poll() = 0;
  // Why no more tickets can be had: a peer cannot be sent to.
  const Status& error() const { return error_; }

  // The next ticket at hand, in order.
  virtual std::optional<Ticket> Next() = 0;
  // Step of the newest ticket seen, or given up unseen. Only grows.
  uint64_t newest() const { return newest_; }

  // Says what this member would bring to the step.
  virtual Status Say(uint64_t for_step, const Demand& demand) = 0;
  // When Poll should be called although nothing comes; max(): never.
  virtual MonotonicTime NextDeadline() const = 0;

  // A round came after so long.
  void OnArrival(Seconds waited) { detection_.OnArrival(waited); }
  // How long a round is waited for before it is missed.
  Seconds detection() const { return detection_.value(); }

  // The round was missed: DeadlineExceeded, or what came for it cannot be used. Aborted: it was
  // waited for as another member had the step given up, which tells who was at fault. The caller
  // leaves the step.
  virtual Status Miss(const RoundKey& round, const Status& why) = 0;
  // Until Leave has returned: the running step, if any, is not to go on.
  virtual bool leaving() const = 0;
  // Leaves all steps so far. Blocks until this member has (the coordinator: until all have), at
  // most for the loss deadline: then DeadlineExceeded names the round that was missed and who is
  // awaited. Cancelled: stopped. `demand` is asked once, for the step newest() + 1.
  virtual Status Leave(Exchange& exchange, FunctionRef<Demand()> demand,
                       const std::stop_token& stop) = 0;
  // Why the last step was given up, for people: what the coordinator knew, and for what this member
  // waited. At the coordinator the word of whoever waited for the earliest round.
  const std::string& reason() const { return reason_; }

  // A peer that said goodbye.
  std::optional<PeerId> left() const { return left_; }
  // Control messages that were of no use.
  uint64_t dropped() const { return dropped_; }
  // Rounds that this member has missed, and tickets that it could not use.
  uint64_t missed() const { return missed_rounds_; }

 protected:
  // `transport` must outlive it.
  StepControl(Transport& transport, uint64_t epoch, StepDeadlines deadlines, Logger log)
      : transport_(transport),
        epoch_(epoch),
        deadlines_(deadlines),
        log_(std::move(log)),
        detection_(deadlines.least_detection, deadlines.detection) {}

  RoundKey KeyOf(uint64_t step) const {
    RoundKey key;
    key.epoch = epoch_;
    key.step = step;
    return key;
  }
  // Sends. That the peer does not read is no error: it is told again.
  Status Tell(PeerId peer, MessageKind kind, const RoundKey& about,
              std::span<const std::byte> payload, uint32_t count = 0) {
    const auto sender = static_cast<uint16_t>(transport_.layout().self.rank.value);
    Status sent = transport_.Send(peer, MakeHeader(kind, about, sender, count), payload);
    return sent.code() == StatusCode::kResourceExhausted ? OkStatus() : sent;
  }

  Transport& transport_;
  const uint64_t epoch_;
  const StepDeadlines deadlines_;
  const Logger log_;

  DetectionDeadline detection_;
  uint64_t newest_ = 0;
  uint64_t fence_ = 0;  // steps up to it are given up
  std::string reason_;
  std::optional<PeerId> left_;
  Status error_;
  uint64_t dropped_ = 0;
  uint64_t missed_rounds_ = 0;
  // The message at hand.
  Header header_;
  std::vector<std::byte> payload_;
};

// A number that came from outside and is further ahead than this is none of ours: taken at its word
// it would leave none for later steps.
inline constexpr uint64_t kMostStepsAhead = uint64_t{1} << 40;

inline MonotonicTime Later(MonotonicTime from, Seconds by) {
  return from + std::chrono::duration_cast<MonotonicClock::duration>(by);
}

inline RoundTrouble TroubleOf(const Status& why) {
  const bool awaited =
      why.code() == StatusCode::kDeadlineExceeded || why.code() == StatusCode::kAborted;
  return awaited ? RoundTrouble::kAwaited : RoundTrouble::kUnusable;
}

// For messages: "step 7 MoE layer 2".
inline std::string DescribeRound(const RoundKey& round) {
  return "step " + std::to_string(round.step) + " MoE layer " + std::to_string(round.layer);
}

}  // namespace janus::dataplane
