#include "dataplane/steps/follower.h"

#include <algorithm>

#include "dataplane/steps/await_device.h"

namespace janus::dataplane {
namespace {

constexpr PeerId kCoordinator{Role::kAttention, Rank{0}};

}  // namespace

Follower::Follower(Transport& transport, int m, int max_rows, uint64_t epoch,
                   StepDeadlines deadlines, Logger log)
    : StepControl(transport, epoch, deadlines, std::move(log)), m_(m), max_rows_(max_rows) {}

bool Follower::Poll() {
  while (transport_.Receive(kCoordinator, header_, payload_)) {
    switch (header_.kind) {
      case MessageKind::kTicket:
        OnTicket();
        break;
      case MessageKind::kAbort:
        OnAbort();
        break;
      case MessageKind::kGoodbye:
        left_ = kCoordinator;
        break;
      default:
        ++dropped_;
    }
  }
  return leaving() || !tickets_.empty() || !error_.ok();
}

void Follower::OnTicket() {
  Ticket ticket;
  ticket.step = header_.step;
  if (ticket.step <= newest_ || ticket.step - newest_ > kMostStepsAhead) {
    ++dropped_;  // a repetition, of a step that was given up, or falsified
    return;
  }
  Status read = ReadTicketShares(payload_, m_, max_rows_, ticket.shares);
  if (!read.ok()) {
    ++dropped_;
    if (!leaving()) error_ = Miss(header_.key(), read.Annotate("attention 0"));
    return;
  }
  newest_ = ticket.step;
  // Only one ticket can be ahead of the running step. A ticket issued while a step is being left is
  // void.
  if (leaving() || tickets_.size() >= kControlQueueDepth) {
    ++dropped_;
  } else {
    tickets_.push_back(std::move(ticket));
  }
}

void Follower::OnAbort() {
  if (header_.step <= fence_) {
    // The coordinator did not receive our kLeft: send it again.
    if (!told_ && error_.ok()) error_ = SayLeft(header_.step);
    return;
  }
  if (header_.step - fence_ > kMostStepsAhead) {
    ++dropped_;
    return;
  }
  fence_ = header_.step;
  newest_ = std::max(newest_, fence_);
  reason_ = ReadReason(payload_);
  const bool is_ours = reason_.starts_with(ToString(transport_.layout().self) + " missed");
  if (missed_ && !is_ours) AddToReason(missed_->round, missed_->why);
  told_ = true;
  tickets_.clear();
}

std::optional<Ticket> Follower::Next() {
  if (tickets_.empty() || leaving()) return std::nullopt;
  Ticket ticket = std::move(tickets_.front());
  tickets_.pop_front();
  return ticket;
}

Status Follower::Say(uint64_t for_step, const Demand& demand) {
  const auto sender = static_cast<uint16_t>(transport_.layout().self.rank.value);
  return transport_.Send(kCoordinator, MakeHeader(MessageKind::kDemand, KeyOf(for_step), sender, 1),
                         std::as_bytes(std::span(&demand, 1)));
}

Status Follower::Miss(const RoundKey& round, const Status& why) {
  if (leaving()) {
    if (!told_) return OkStatus();  // reported already
    AddToReason(round, why);
    return SayMiss(round, why);
  }
  ++missed_rounds_;
  log_.Warning("round missed",
               {{"step", round.step}, {"layer", round.layer}, {"reason", why.message()}});
  missed_ = Missed{round, why, MonotonicTime()};
  return SayMissed();
}

void Follower::AddToReason(const RoundKey& round, const Status& why) {
  reason_ += "; " + ToString(transport_.layout().self) + " was in " + DescribeRound(round) + ": " +
             why.message();
}

Status Follower::SayMissed() {
  missed_->said = MonotonicClock::now();
  return SayMiss(missed_->round, missed_->why);
}

Status Follower::SayMiss(const RoundKey& round, const Status& why) {
  return Tell(kCoordinator, MessageKind::kMiss, round, WriteReason(why.message()),
              static_cast<uint32_t>(TroubleOf(why)));
}

Status Follower::SayLeft(uint64_t fence) {
  const Left left{newest_, said_};
  return Tell(kCoordinator, MessageKind::kLeft, KeyOf(fence), std::as_bytes(std::span(&left, 1)));
}

Status Follower::Leave(Exchange& exchange, FunctionRef<Demand()> demand,
                       const std::stop_token& stop) {
  const MonotonicTime lost = Later(MonotonicClock::now(), LossDeadline(deadlines_, detection()));
  for (;;) {
    const bool asks = missed_ && !told_;
    const MonotonicTime again = asks ? Later(missed_->said, detection()) : lost;
    bool gone = false;
    // Once told to leave, also wait for the GPU.
    const Status waited = Await(told_, transport_, std::min(again, lost), [&] {
      Poll();
      gone = told_ && exchange.Abandon();
      return gone || (asks && told_) || !error_.ok() || stop.stop_requested();
    });
    if (stop.stop_requested()) return Cancelled("stopped");
    JANUS_RETURN_IF_ERROR(error_);
    if (gone) break;
    if (waited.ok()) continue;
    if (waited.code() != StatusCode::kDeadlineExceeded) return waited;
    if (MonotonicClock::now() < lost) {
      JANUS_RETURN_IF_ERROR(SayMissed());
    } else if (told_) {
      return waited.Annotate("step " + std::to_string(fence_) + " is given up (" + reason_ +
                             "), and messages of it are still on their way to peers");
    } else {
      return waited.Annotate(DescribeRound(missed_->round) + ": " + missed_->why.message() +
                             "; attention 0 did not end the missed step");
    }
  }
  missed_.reset();
  told_ = false;
  detection_.OnGivenUp();
  said_ = demand();
  return SayLeft(fence_);
}

}  // namespace janus::dataplane
