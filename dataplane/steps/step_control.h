#pragma once

#include <algorithm>
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
// Follower elsewhere. Leader uses Coordinator to decide which instances take part in a step, and
// AbortRound to track which members have left a step that is given up.
//
// May include: dataplane/comm, kernels, common.
namespace janus::dataplane {

// The attention instances that take part in a step, by rank.
struct Ticket {
  uint64_t step = 0;
  std::vector<TicketShare> shares;  // [m]; row_limit 0: takes no part
  bool participates(int rank) const { return shares[static_cast<size_t>(rank)].row_limit > 0; }
  Participants participants() const {
    Participants who(shares.size());
    for (size_t a = 0; a < who.size(); ++a) who[a] = shares[a].row_limit > 0;
    return who;
  }
};

struct StepDeadlines {
  // A round that takes longer is missed, and its step is given up. A report of that is repeated at
  // the same interval until it is answered. This is the upper bound; short rounds have a shorter
  // deadline (DetectionDeadline).
  Seconds detection{10.0};
  // A member that takes longer than LossDeadline to leave a step that is given up is lost, and the
  // epoch ends. This is the upper bound.
  Seconds loss{20.0};
  Seconds least_detection{1.0};
  Seconds least_loss{20.0};
};

// How long a member may take to leave a step: as long as a round may take now, within the bounds. A
// member that computes looks for messages between two rounds, so it needs no longer than a round.
inline Seconds LossDeadline(const StepDeadlines& deadlines, Seconds detection) {
  return std::min(deadlines.loss, std::max(deadlines.least_loss, detection));
}

// One member's view of the step protocol (docs/steps.md): the next step, and the one that is given
// up. A message that is falsified, doubled or late is dropped and counted.
//
// A step is given up for all members together. A member that misses a round reports it (Miss). The
// coordinator tells every member to leave all steps so far. Each member drops what it has of them
// (Exchange::Abandon) and reports that it has left (Leave). Once all have left, no member reads or
// writes a slot for these steps. The next ticket has a number that was never used and is for the
// same rows: no sequence moves on in a step that did not end.
//
// Confined to the step thread.
class StepControl {
 public:
  virtual ~StepControl() = default;

  // Reads the messages that have arrived. True: there is a ticket, a step to leave, or an error.
  virtual bool Poll() = 0;
  // Why there are no more tickets: a message could not be sent to a peer.
  const Status& error() const { return error_; }

  // The next ticket that was received, in order.
  virtual std::optional<Ticket> Next() = 0;
  // Step of the newest ticket seen, or given up unseen. Only grows.
  uint64_t newest() const { return newest_; }

  // Reports to the coordinator what this member could compute in the step.
  virtual Status Say(uint64_t for_step, const Demand& demand) = 0;
  // When Poll must be called even if no message comes; max(): never.
  virtual MonotonicTime NextDeadline() const = 0;

  // A round arrived after this wait.
  void OnArrival(Seconds waited) { detection_.OnArrival(waited); }
  // How long a member waits for a round before it is missed.
  Seconds detection() const { return detection_.value(); }

  // The round was missed: DeadlineExceeded, or its messages cannot be used. Aborted: this member
  // was waiting for it when another member had the step given up; that helps to find the member at
  // fault. The caller leaves the step.
  virtual Status Miss(const RoundKey& round, const Status& why) = 0;
  // True until Leave has returned: the running step, if any, must stop.
  virtual bool leaving() const = 0;
  // Leaves all steps so far. Blocks until this member has left; at the coordinator, until all have.
  // After the loss deadline, DeadlineExceeded names the missed round and the members that have not
  // left. Cancelled: stopped. Calls `demand` once, for the step newest() + 1.
  virtual Status Leave(Exchange& exchange, FunctionRef<Demand()> demand,
                       const std::stop_token& stop) = 0;
  // Why the last step was given up, for people: what the coordinator knew, and what this member
  // waited for. At the coordinator: the report of the member that waited for the earliest round.
  const std::string& reason() const { return reason_; }

  // A peer that has sent a goodbye.
  std::optional<PeerId> left() const { return left_; }
  // Control messages that were dropped.
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
  // Sends. A full queue is no error: the message is sent again later.
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
  // The message that is being read.
  Header header_;
  std::vector<std::byte> payload_;
};

// A step number from outside that is further ahead than this is falsified. Accepting it would leave
// no numbers for later steps.
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
