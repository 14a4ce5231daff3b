#pragma once

#include <deque>

#include "dataplane/steps/step_control.h"

namespace janus::dataplane {

// Step control of every member but the coordinator, which is attention 0.
class Follower final : public StepControl {
 public:
  // `transport` must outlive it. A ticket has m shares of at most max_rows rows.
  Follower(Transport& transport, int m, int max_rows, uint64_t epoch, StepDeadlines deadlines,
           Logger log);

  bool Poll() override;
  std::optional<Ticket> Next() override;
  Status Say(uint64_t for_step, const Demand& demand) override;
  MonotonicTime NextDeadline() const override { return MonotonicTime::max(); }
  Status Miss(const RoundKey& round, const Status& why) override;
  bool leaving() const override { return missed_.has_value() || told_; }
  Status Leave(Exchange& exchange, FunctionRef<Demand()> demand,
               const std::stop_token& stop) override;

 private:
  // A round that this member has missed, until the coordinator gives up its step.
  struct Missed {
    RoundKey round;
    Status why;
    MonotonicTime said;
  };

  void OnTicket();
  void OnAbort();
  Status SayMissed();
  Status SayMiss(const RoundKey& round, const Status& why);
  // Appends what this member waited for to the coordinator's reason.
  void AddToReason(const RoundKey& round, const Status& why);
  Status SayLeft(uint64_t fence);

  const int m_;
  const int max_rows_;
  std::deque<Ticket> tickets_;  // read, not yet taken
  bool told_ = false;           // to leave the steps up to fence_, and has not left yet
  std::optional<Missed> missed_;
  Demand said_;  // the demand that it sent when it left last
};

}  // namespace janus::dataplane
