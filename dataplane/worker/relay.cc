#include "dataplane/worker/relay.h"

#include <grpcpp/grpcpp.h>
#include <sys/random.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "common/check.h"
#include "common/clock.h"
#include "dataplane/worker/prepare_board.h"
#include "proto/convert.h"
#include "rpc/channel.h"

namespace janus::dataplane {
namespace {

constexpr std::chrono::milliseconds kLookUp{100};
constexpr int kMostTargets = 4096;
constexpr size_t kEpochKeyBytes = 16;
constexpr size_t kMostRoundBytes = size_t{8} << 20;  // sampled rounds in one answer

std::string RandomKey() {
  std::string key(kEpochKeyBytes, '\0');
  JANUS_CHECK(getrandom(key.data(), key.size(), 0) == static_cast<ssize_t>(key.size()));
  return key;
}

std::vector<const v1::RelayTarget*> AllOf(const Relay::Targets& targets) {
  std::vector<const v1::RelayTarget*> out;
  for (const v1::RelayTarget& target : targets) out.push_back(&target);
  return out;
}

// A deadline at `tenths` of the caller's wait, so that a silent member can be named in time.
Relay::Deadline Within(Relay::Deadline deadline, int tenths = 8) {
  const auto now = std::chrono::system_clock::now();
  constexpr std::chrono::hours kLongest(24);
  const auto left = std::min<std::chrono::system_clock::duration>(deadline - now, kLongest);
  return now + left * tenths / 10;
}

// The same unary call to several members at once.
template <class Reply>
class Calls {
 public:
  struct Call {
    grpc::ClientContext context;
    Reply reply;          // gRPC writes it until the call has ended
    grpc::Status status;  // likewise
  };

  explicit Calls(size_t count) : calls_(count), running_(count) {}

  template <class Method, class Request>
  void Begin(size_t i, v1::Control::Stub& stub, Method method, const Request& request,
             Relay::Deadline deadline) {
    Call& call = calls_[i];
    call.context.set_deadline(deadline);
    (stub.async()->*method)(&call.context, &request, &call.reply,
                            [this, &call](const grpc::Status& status) {
                              const MutexLock lock(mu_);
                              call.status = status;
                              --running_;
                              // Under the lock: the waiter destroys this right after.
                              ended_.NotifyAll();
                            });
  }
  // Waits until all have ended.
  std::vector<Call>& Wait(const Relay::KeepWaiting& keep_waiting) {
    bool cancelled = false;
    while (true) {
      {
        const MutexLock lock(mu_);
        if (running_ > 0) ended_.WaitUntil(mu_, MonotonicClock::now() + kLookUp);
        if (running_ == 0) return calls_;
      }
      if (cancelled || keep_waiting()) continue;
      cancelled = true;
      for (Call& call : calls_) call.context.TryCancel();
    }
  }

 private:
  std::vector<Call> calls_;
  Mutex mu_;
  CondVar ended_;
  size_t running_ JANUS_GUARDED_BY(mu_);
};

using AsyncControl = v1::Control::StubInterface::async_interface;
template <class Request, class Reply>
using Method = void (AsyncControl::*)(grpc::ClientContext*, const Request*, Reply*,
                                      std::function<void(grpc::Status)>);

template <class Request, class Reply>
Relay::Failures CallAll(const std::vector<const v1::RelayTarget*>& targets,
                        const std::vector<std::shared_ptr<v1::Control::Stub>>& stubs,
                        Method<Request, Reply> method, Request request, Relay::Deadline deadline,
                        const Relay::KeepWaiting& keep_waiting) {
  request.clear_relay();
  Calls<Reply> calls(targets.size());
  for (size_t i = 0; i < targets.size(); ++i) {
    calls.Begin(i, *stubs[i], method, request, deadline);
  }
  Relay::Failures failures;
  const auto& ended = calls.Wait(keep_waiting);
  for (size_t i = 0; i < ended.size(); ++i) {
    if (ended[i].status.ok()) continue;
    failures.push_back(FailureOf(targets[i]->name(), FromGrpc(ended[i].status)));
  }
  return failures;
}

// What the reactors of one Prepare report to the waiting thread.
struct Heard {
  Heard(std::vector<std::string> names, MonotonicTime now) : board(std::move(names), now) {}
  Mutex mu;
  CondVar changed;
  PrepareBoard board JANUS_GUARDED_BY(mu);
  bool news JANUS_GUARDED_BY(mu) = false;
  bool cancelled JANUS_GUARDED_BY(mu) = false;
};

// Prepare of one member. Must live until it has ended.
class MemberPrepare final : public grpc::ClientReadReactor<v1::PrepareProgress> {
 public:
  MemberPrepare(size_t member, Heard& heard) : member_(member), heard_(heard) {}

  void Begin(v1::Control::Stub& stub, const v1::PrepareRequest& request) {
    stub.async()->Prepare(&context_, &request, this);
    StartRead(&incoming_);
    StartCall();
  }
  void Cancel() { context_.TryCancel(); }

  void OnReadDone(bool ok) override {
    if (!ok) return;
    {
      const MutexLock lock(heard_.mu);
      heard_.board.Heard(member_, incoming_, MonotonicClock::now());
      complete_ = complete_ || incoming_.done();
      heard_.news = true;
      heard_.changed.NotifyAll();
    }
    incoming_.Clear();
    StartRead(&incoming_);
  }
  void OnDone(const grpc::Status& status) override {
    Status ended = FromGrpc(status);
    if (ended.ok() && !complete_) ended = Unavailable("Prepare ended before it was done");
    const MutexLock lock(heard_.mu);
    heard_.board.Ended(member_, std::move(ended), heard_.cancelled);
    heard_.changed.NotifyAll();  // under the lock: the waiter destroys this right after
  }

 private:
  const size_t member_;
  Heard& heard_;
  grpc::ClientContext context_;
  v1::PrepareProgress incoming_;
  bool complete_ = false;  // gRPC makes one call after the other
};

}  // namespace

Status Relay::Check(const Targets& targets) {
  if (targets.size() > kMostTargets) {
    return InvalidArgument("relay: " + std::to_string(targets.size()) + " members, the bound is " +
                           std::to_string(kMostTargets));
  }
  for (const v1::RelayTarget& target : targets) {
    if (target.address().empty()) {
      return InvalidArgument("relay: member '" + target.name() + "' has no address");
    }
  }
  return OkStatus();
}

std::vector<Relay::StubPtr> Relay::StubsFor(const std::vector<const v1::RelayTarget*>& targets,
                                            bool only_these) {
  std::vector<StubPtr> out;
  std::set<std::string> used;
  const MutexLock lock(mu_);
  for (const v1::RelayTarget* const target : targets) {
    Line& line = lines_[target->address()];
    // A new process may have replaced a lost one at this address. A new channel reaches it without
    // waiting for the old channel's pause.
    if (line.channel == nullptr || IsPausing(*line.channel)) {
      line.channel = DialInstance(target->address(), credentials_);
      line.stub = v1::Control::NewStub(line.channel);
    }
    out.push_back(line.stub);
    used.insert(target->address());
  }
  if (only_these || lines_.size() > kMostTargets) {
    std::erase_if(lines_, [&](const auto& one) { return !used.contains(one.first); });
  }
  return out;
}

Relay::Failures Relay::Prepare(const v1::PrepareRequest& asked,
                               const std::function<bool(const v1::PrepareProgress&)>& report) {
  const std::vector<const v1::RelayTarget*> targets = AllOf(asked.relay());
  std::vector<std::string> names;
  for (const v1::RelayTarget* const target : targets) names.push_back(target->name());
  v1::PrepareRequest request = asked;
  request.clear_relay();
  request.set_epoch_key(RandomKey());

  Heard heard(std::move(names), MonotonicClock::now());
  const std::vector<StubPtr> stubs = StubsFor(targets, true);
  std::vector<std::unique_ptr<MemberPrepare>> calls;
  for (size_t i = 0; i < targets.size(); ++i) {
    calls.push_back(std::make_unique<MemberPrepare>(i, heard));
    calls[i]->Begin(*stubs[i], request);
  }
  while (true) {
    v1::PrepareProgress summary;
    bool give_up = false;
    {
      const MutexLock lock(heard.mu);
      if (!heard.news && !heard.board.done()) {
        heard.changed.WaitUntil(heard.mu, MonotonicClock::now() + kLookUp);
      }
      if (heard.board.done()) return heard.board.Failures();
      heard.news = false;
      summary = heard.board.Summary();
      give_up = heard.board.failed();
    }
    give_up = !report(summary) || give_up;
    if (!give_up) continue;
    const MutexLock lock(heard.mu);
    if (std::exchange(heard.cancelled, true)) continue;
    for (const auto& call : calls) call->Cancel();
  }
}

Relay::Failures Relay::Commit(const v1::CommitRequest& request, Deadline deadline,
                              const KeepWaiting& keep_waiting) {
  Failures failures;
  for (const v1::Role role : {v1::ROLE_EXPERTS, v1::ROLE_ATTENTION}) {
    // Half the time for expert instances, so that a hanging one leaves time for the others.
    const Deadline until = Within(deadline, role == v1::ROLE_EXPERTS ? 4 : 8);
    std::vector<const v1::RelayTarget*> targets = AllOf(request.relay());
    std::erase_if(targets, [&](const v1::RelayTarget* target) {
      return (target->role() == v1::ROLE_EXPERTS) != (role == v1::ROLE_EXPERTS);
    });
    Failures some = CallAll<v1::CommitRequest, v1::CommitReply>(
        targets, StubsFor(targets), &AsyncControl::Commit, request, until, keep_waiting);
    std::move(some.begin(), some.end(), std::back_inserter(failures));
  }
  if (request.leavers().empty()) return failures;
  v1::DrainRequest drain;
  *drain.mutable_stamp() = request.stamp();
  const std::vector<const v1::RelayTarget*> leavers = AllOf(request.leavers());
  CallAll<v1::DrainRequest, v1::DrainReply>(leavers, StubsFor(leavers), &AsyncControl::Drain, drain,
                                            Within(deadline), keep_waiting);
  return failures;
}

Relay::Failures Relay::Abort(const v1::AbortRequest& request, Deadline deadline,
                             const KeepWaiting& keep_waiting) {
  const std::vector<const v1::RelayTarget*> targets = AllOf(request.relay());
  return CallAll<v1::AbortRequest, v1::AbortReply>(targets, StubsFor(targets), &AsyncControl::Abort,
                                                   request, Within(deadline), keep_waiting);
}

Relay::Failures Relay::Drain(const v1::DrainRequest& request, Deadline deadline,
                             const KeepWaiting& keep_waiting) {
  const std::vector<const v1::RelayTarget*> targets = AllOf(request.relay());
  return CallAll<v1::DrainRequest, v1::DrainReply>(targets, StubsFor(targets), &AsyncControl::Drain,
                                                   request, Within(deadline), keep_waiting);
}

Relay::Failures Relay::Supersede(const v1::SupersedeRequest& request, Deadline deadline,
                                 const KeepWaiting& keep_waiting) {
  const std::vector<const v1::RelayTarget*> targets = AllOf(request.relay());
  return CallAll<v1::SupersedeRequest, v1::SupersedeReply>(targets, StubsFor(targets),
                                                           &AsyncControl::Supersede, request,
                                                           Within(deadline), keep_waiting);
}

v1::Statistics Relay::GetStatistics(const v1::GetStatisticsRequest& asked, bool is_lost,
                                    Deadline deadline, const KeepWaiting& keep_waiting) {
  const std::vector<const v1::RelayTarget*> targets = AllOf(asked.relay());
  const std::vector<StubPtr> stubs = StubsFor(targets);
  v1::GetStatisticsRequest request = asked;
  request.clear_relay();
  request.clear_until_loss_ms();
  const auto experts = static_cast<uint32_t>(
      std::ranges::count(targets, v1::ROLE_EXPERTS, [](const auto* one) { return one->role(); }));
  if (experts > 0) request.set_with_rounds((asked.with_rounds() + experts - 1) / experts);
  const auto members = static_cast<uint32_t>(std::max(targets.size(), size_t{1}));
  request.set_with_spans((asked.with_spans() + members - 1) / members);
  Deadline until = Within(deadline);
  if (is_lost) until = std::min(until, std::chrono::system_clock::now() + kSilentAfterLoss);
  Calls<v1::Statistics> calls(targets.size());
  for (size_t i = 0; i < targets.size(); ++i) {
    calls.Begin(
        i, *stubs[i],
        static_cast<Method<v1::GetStatisticsRequest, v1::Statistics>>(&AsyncControl::GetStatistics),
        request, until);
  }
  v1::Statistics all;
  RoutingStatistics routing;
  GatewayReports gateways;
  std::vector<StepTrace> traces;
  size_t round_bytes = 0;
  auto& ended = calls.Wait(keep_waiting);
  for (size_t i = 0; i < ended.size(); ++i) {
    if (!ended[i].status.ok()) {
      v1::SilentMember& silent = *all.add_silent();
      silent.set_name(targets[i]->name());
      silent.set_why(ended[i].status.error_message());
      continue;
    }
    for (v1::InstanceStatistics& one : *ended[i].reply.mutable_instances()) {
      all.mutable_instances()->Add(std::move(one));
    }
    RoutingStatistics more = RoutingFromProto(ended[i].reply);
    for (const RoutedRound& round : more.rounds) round_bytes += round.experts.size() * 2;
    if (round_bytes > kMostRoundBytes) more.rounds.clear();
    JoinRouting(more, routing);
    JoinGateways(GatewaysFromProto(ended[i].reply), gateways);
    std::ranges::move(TracesFromProto(ended[i].reply), std::back_inserter(traces));
  }
  if (routing.rounds.size() > asked.with_rounds()) routing.rounds.resize(asked.with_rounds());
  AddToProto(routing, all);
  AddToProto(gateways, all);
  KeepOneStep(traces);
  AddToProto(traces, all);
  return all;
}

}  // namespace janus::dataplane
