#include "dataplane/steps/leader.h"

#include <algorithm>
#include <cstring>
#include <tuple>

#include "dataplane/steps/await_device.h"

namespace janus::dataplane {

Leader::Leader(const CoordinatorOptions& options, const Topology& topology, StepDeadlines deadlines,
               Transport& transport, const Clock& clock, Logger log)
    : StepControl(transport, topology.epoch, deadlines, std::move(log)),
      members_(topology.m() + topology.n()),
      peers_(PeersOf(transport.layout())),
      clock_(clock),
      coordinator_(options) {}

bool Leader::Poll() {
  for (const PeerId& peer : peers_) Read(peer);
  if (!leaving() && error_.ok()) error_ = Issue();
  return leaving() || ticket_ || !error_.ok();
}

void Leader::Read(PeerId from) {
  while (transport_.Receive(from, header_, payload_)) {
    bool of_use = false;
    switch (header_.kind) {
      case MessageKind::kDemand:
        of_use = OnDemand(from);
        break;
      case MessageKind::kMiss:
        of_use = OnMiss(from);
        break;
      case MessageKind::kLeft:
        of_use = OnLeft(from);
        break;
      case MessageKind::kGoodbye:
        left_ = from;
        of_use = true;
        break;
      default:
        break;
    }
    dropped_ += !of_use;
  }
}

bool Leader::OnDemand(PeerId from) {
  if (from.role != Role::kAttention || payload_.size() != sizeof(Demand)) return false;
  DemandNote note;
  std::memcpy(&note.demand, payload_.data(), sizeof(Demand));
  note.for_step = header_.step;
  const MonotonicTime now = clock_.Now();
  const bool is_lost =
      !leaving() && coordinator_.HasLostTicket(from.rank.value, note.for_step, now, detection());
  coordinator_.OnDemand(from.rank.value, note, now);
  if (is_lost) {
    Begin({from, KeyOf(note.for_step), RoundTrouble::kUnusable,
           "it asks for the step and has not got its ticket"});
  }
  return true;
}

bool Leader::OnMiss(PeerId from) {
  Word word{from, header_.key(), static_cast<RoundTrouble>(header_.count), ReadReason(payload_)};
  // Several members may miss rounds of one step.
  if (leaving()) {
    if (header_.step <= left_before_ || header_.step > abort_->fence()) return false;
    Consider(std::move(word));
    return true;
  }
  // The report is about a step that is given up already, or it is falsified.
  if (header_.step <= fence_ || header_.step > newest_ + kMostStepsAhead) return false;
  Begin(std::move(word));
  return true;
}

bool Leader::OnLeft(PeerId from) {
  if (!leaving() || payload_.size() != sizeof(Left)) return false;
  Left left;
  std::memcpy(&left, payload_.data(), sizeof(Left));
  const uint64_t fence = abort_->fence();
  if (!abort_->OnLeft(MemberIndex(transport_.layout(), from), header_.step, left.newest)) {
    return false;
  }
  if (abort_->fence() != fence) {
    coordinator_.Void(abort_->fence());
  } else if (from.role == Role::kAttention) {
    coordinator_.OnDemand(from.rank.value, {left.demand, fence + 1}, clock_.Now());
  }
  return true;
}

std::optional<Ticket> Leader::Next() {
  if (leaving()) return std::nullopt;
  return std::exchange(ticket_, std::nullopt);
}

Status Leader::Say(uint64_t for_step, const Demand& demand) {
  coordinator_.OnDemand(0, {demand, for_step}, clock_.Now());
  return OkStatus();
}

// Issues one ticket ahead of the running step.
Status Leader::Issue() {
  if (ticket_) return OkStatus();
  coordinator_.WaitForLeftOut(detection());
  std::optional<Ticket> ticket = coordinator_.Next(clock_.Now());
  if (!ticket) return OkStatus();
  const Header header = MakeHeader(MessageKind::kTicket, KeyOf(ticket->step), 0,
                                   static_cast<uint32_t>(ticket->shares.size()));
  const auto payload = std::as_bytes(std::span(ticket->shares));
  for (const PeerId& peer : peers_) {
    const Status sent = transport_.Send(peer, header, payload);
    // An attention instance that takes no part does not hold the others back, so its queue may be
    // full if it gets no CPU time. It can skip this ticket: the next one tells it the step number.
    const bool may_miss = sent.code() == StatusCode::kResourceExhausted &&
                          peer.role == Role::kAttention && !ticket->participates(peer.rank.value);
    if (!may_miss) JANUS_RETURN_IF_ERROR(sent);
  }
  newest_ = ticket->step;
  ticket_ = std::move(ticket);
  return OkStatus();
}

Status Leader::Miss(const RoundKey& round, const Status& why) {
  Word word{transport_.layout().self, round, TroubleOf(why), why.message()};
  if (leaving()) {
    Consider(std::move(word));
    return OkStatus();
  }
  ++missed_rounds_;
  Begin(std::move(word));
  return OkStatus();
}

bool Leader::Explains(const Word& word) const {
  if (cause_.trouble != word.trouble) return cause_.trouble == RoundTrouble::kAwaited;
  if (word.trouble != RoundTrouble::kAwaited) return false;
  // Within a layer, rows come before contributions, and both before the next layer.
  const auto place = [](const Word& of) {
    return std::tuple(of.round.step, of.round.layer, of.by.role == Role::kAttention,
                      of.round.micro_batch);
  };
  return place(word) < place(cause_);
}

void Leader::Consider(Word word) {
  if (Explains(word)) Believe(std::move(word));
}

void Leader::Believe(Word word) {
  cause_ = std::move(word);
  reason_ = ToString(cause_.by) + " missed " + DescribeRound(cause_.round) + ": " + cause_.why;
  log_.Warning("step given up", {{"step", cause_.round.step},
                                 {"layer", cause_.round.layer},
                                 {"by", ToString(cause_.by)},
                                 {"reason", cause_.why}});
}

void Leader::Begin(Word word) {
  left_before_ = fence_;
  Believe(std::move(word));
  // A step that was never issued comes from a falsified ticket.
  fence_ = std::max(newest_, cause_.round.step);
  // Messages can be lost, so a member is asked several times before it counts as lost.
  constexpr double kTimesAsked = 4;
  const Seconds loss = LossDeadline(deadlines_, detection());
  abort_.emplace(members_, fence_, std::min(detection(), loss / kTimesAsked), loss, clock_.Now());
  coordinator_.Void(fence_);
  ticket_.reset();
}

Status Leader::Announce(int member) {
  const PeerId peer = MemberAt(transport_.layout(), member);
  if (peer == transport_.layout().self) return OkStatus();
  return Tell(peer, MessageKind::kAbort, KeyOf(abort_->fence()), WriteReason(reason_));
}

Status Leader::Leave(Exchange& exchange, FunctionRef<Demand()> demand,
                     const std::stop_token& stop) {
  const int self = MemberIndex(transport_.layout(), transport_.layout().self);
  while (!abort_->complete()) {
    for (const int member : abort_->Due(clock_.Now())) JANUS_RETURN_IF_ERROR(Announce(member));
    const uint64_t fence = abort_->fence();
    // Until this member has left, also wait for the GPU.
    const bool had_left = abort_->has_left(self);
    const Status waited = Await(!had_left, transport_, abort_->NextDeadline(), [&] {
      Poll();
      if (!abort_->has_left(self) && exchange.Abandon()) abort_->OnLeft(self, fence, 0);
      return abort_->has_left(self) != had_left || abort_->complete() || abort_->fence() != fence ||
             stop.stop_requested();
    });
    if (stop.stop_requested()) return Cancelled("stopped");
    if (!waited.ok() && waited.code() != StatusCode::kDeadlineExceeded) return waited;
    std::string lost;
    for (const int member : abort_->Lost(clock_.Now())) {
      lost += (lost.empty() ? "" : ", ") + ToString(MemberAt(transport_.layout(), member));
    }
    if (!lost.empty()) {
      return DeadlineExceeded("step " + std::to_string(abort_->fence()) + " is given up (" +
                              reason_ + "), but still in it: " + lost);
    }
  }
  fence_ = newest_ = abort_->fence();
  abort_.reset();
  detection_.OnGivenUp();
  coordinator_.OnDemand(0, {demand(), newest_ + 1}, clock_.Now());
  return OkStatus();
}

}  // namespace janus::dataplane
