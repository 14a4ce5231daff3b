#include "operator/members/grpc_member_calls.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "operator/members/worker_config.h"
#include "operator/reconcile/epochs/member_name.h"
#include "proto/convert.h"

namespace janus::control {
namespace {

using AsyncControl = v1::Control::StubInterface::async_interface;
using Failures = google::protobuf::RepeatedPtrField<v1::MemberFailure>;

// Timeout of Commit, Abort, Drain and statistics; a healthy member answers at once.
constexpr std::chrono::seconds kAnswer{8};

v1::Stamp StampOf(const MemberOrder& order) {
  return ToProto(Stamp{order.service_uid, static_cast<uint64_t>(order.fence),
                       static_cast<uint64_t>(order.epoch), static_cast<uint32_t>(order.pool)});
}

void AddTargets(const std::vector<TopologyInstance>& members,
                google::protobuf::RepeatedPtrField<v1::RelayTarget>& targets) {
  for (const TopologyInstance& one : members) {
    v1::RelayTarget& target = *targets.Add();
    target.set_name(MemberName(one));
    target.set_role(one.role == Role::kAttention ? v1::ROLE_ATTENTION : v1::ROLE_EXPERTS);
    target.set_address(one.address);
  }
}

std::vector<std::string> RelaysOf(const std::vector<TopologyInstance>& members) {
  std::vector<std::string> addresses;
  for (const TopologyInstance& one : members) {
    if (one.role == Role::kAttention) addresses.push_back(one.address);
  }
  return addresses;
}

std::string NameAt(const std::vector<TopologyInstance>& members, const std::string& address) {
  const auto found = std::find_if(members.begin(), members.end(), [&](const TopologyInstance& one) {
    return one.address == address;
  });
  return MemberName(*found);
}

// The result of a call through `relay`, with the members that it could not reach.
Status ResultOf(const std::string& relay, const grpc::Status& status, const Failures& failures) {
  if (!status.ok()) return FromGrpc(status).Annotate(relay);
  if (failures.empty()) return OkStatus();
  const v1::MemberFailure& first = failures[0];
  std::string message = first.name() + ": " + first.message();
  if (failures.size() > 1) {
    message += "; and " + std::to_string(failures.size() - 1) + " more, first " +
               failures[1].name() + ": " + failures[1].message();
  }
  return FromGrpc(first.code(), std::move(message));
}

// Passes the result of a call from gRPC's threads to ours. `wake` runs under the lock, and the
// destructor of the call takes that lock, so `wake` never runs after it.
class Outcome {
 public:
  explicit Outcome(MemberCalls::Wake wake)
      : wake_(std::move(wake)), heard_(MonotonicClock::now()) {}

  void Heard(const v1::PrepareProgress& progress) {
    const MutexLock lock(mu_);
    heard_ = MonotonicClock::now();
    progress_ = FromProto(progress);
    waiting_for_.clear();
    for (const std::string& name : progress.waiting_for()) {
      waiting_for_ += (waiting_for_.empty() ? "" : ", ") + name;
    }
  }
  void End(Status status, bool wakes = true) {
    const MutexLock lock(mu_);
    result_ = std::move(status);
    heard_ = MonotonicClock::now();
    done_ = true;
    if (wakes && !cancelled_ && wake_) wake_();
    over_.NotifyAll();  // under the lock, because the waiting thread destroys this right after
  }
  void Cancel(grpc::ClientContext& context) {
    const MutexLock lock(mu_);
    cancelled_ = true;
    if (!done_) context.TryCancel();
    while (!done_) over_.Wait(mu_);
  }

  bool done() const {
    const MutexLock lock(mu_);
    return done_;
  }
  Status result() const {
    const MutexLock lock(mu_);
    return result_;
  }
  PrepareProgress progress() const {
    const MutexLock lock(mu_);
    return progress_;
  }
  MonotonicTime heard() const {
    const MutexLock lock(mu_);
    return heard_;
  }
  std::string waiting_for() const {
    const MutexLock lock(mu_);
    return waiting_for_;
  }

 private:
  const MemberCalls::Wake wake_;
  mutable Mutex mu_;
  CondVar over_;
  bool cancelled_ JANUS_GUARDED_BY(mu_) = false;
  bool done_ JANUS_GUARDED_BY(mu_) = false;
  Status result_ JANUS_GUARDED_BY(mu_);
  MonotonicTime heard_ JANUS_GUARDED_BY(mu_);
  PrepareProgress progress_ JANUS_GUARDED_BY(mu_);
  std::string waiting_for_ JANUS_GUARDED_BY(mu_);
};

// `Interface`: MemberCall or a subclass.
template <class Interface>
class RelayedCall : public Interface {
 public:
  RelayedCall(Connections& connections, const MemberOrder& order, MemberCalls::Wake wake)
      : connections_(connections),
        relay_(connections.Choose(RelaysOf(order.members), order.service_uid)),
        name_(NameAt(order.members, relay_.address)),
        outcome_(std::move(wake)) {}

  bool done() const override { return outcome_.done(); }
  Status result() const override { return outcome_.result(); }
  PrepareProgress progress() const override { return outcome_.progress(); }
  MonotonicTime last_heard() const override { return outcome_.heard(); }
  std::string waiting_for() const override { return outcome_.waiting_for(); }

 protected:
  v1::Control::Stub& stub() const { return *relay_.stub; }
  void Ended(const grpc::Status& status, const Failures& failures, bool wakes = true) {
    // Any other error is the member's own answer.
    const bool lost = status.error_code() == grpc::StatusCode::UNAVAILABLE ||
                      status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED;
    if (lost) {
      connections_.Failed(relay_.address);
    } else if (status.error_code() != grpc::StatusCode::CANCELLED) {
      connections_.CameThrough(relay_.address);
    }
    outcome_.End(ResultOf(name_, status, failures), wakes);
  }

  Connections& connections_;
  const Connections::Relay relay_;
  const std::string name_;
  grpc::ClientContext context_;
  Outcome outcome_;
};

template <class Request, class Reply>
class AnsweredCall final : public RelayedCall<MemberCall> {
 public:
  using Method = void (AsyncControl::*)(grpc::ClientContext*, const Request*, Reply*,
                                        std::function<void(grpc::Status)>);

  AnsweredCall(Connections& connections, const MemberOrder& order, MemberCalls::Wake wake,
               Method method, Seconds longest = kAnswer, Request request = {})
      : RelayedCall(connections, order, std::move(wake)), request_(std::move(request)) {
    *request_.mutable_stamp() = StampOf(order);
    AddTargets(order.members, *request_.mutable_relay());
    if constexpr (std::is_same_v<Request, v1::CommitRequest>) {
      AddTargets(order.leavers, *request_.mutable_leavers());
    }
    context_.set_deadline(std::chrono::system_clock::now() +
                          std::chrono::duration_cast<std::chrono::system_clock::duration>(longest));
    (stub().async()->*method)(&context_, &request_, &reply_, [this](const grpc::Status& status) {
      Ended(status, reply_.failures());
    });
  }
  ~AnsweredCall() override { outcome_.Cancel(context_); }

 private:
  Request request_;
  Reply reply_;  // written by gRPC until it is done
};

class PrepareCall final : public RelayedCall<MemberCall>,
                          private grpc::ClientReadReactor<v1::PrepareProgress> {
 public:
  PrepareCall(Connections& connections, const MemberOrder& order, MemberCalls::Wake wake,
              const Topology& topology, v1::WorkerConfig config)
      : RelayedCall(connections, order, std::move(wake)) {
    *request_.mutable_stamp() = StampOf(order);
    *request_.mutable_topology() = ToProto(topology);
    *request_.mutable_config() = std::move(config);
    AddTargets(order.members, *request_.mutable_relay());
    stub().async()->Prepare(&context_, &request_, this);
    StartRead(&incoming_);
    StartCall();
  }
  ~PrepareCall() override { outcome_.Cancel(context_); }

 private:
  void OnReadDone(bool ok) override {
    if (!ok) return;
    if (incoming_.done()) {
      last_ = incoming_;
    } else {
      outcome_.Heard(incoming_);
    }
    incoming_.Clear();
    StartRead(&incoming_);
  }
  void OnDone(const grpc::Status& status) override {
    if (status.ok() && !last_.done()) {
      Ended(grpc::Status(grpc::StatusCode::UNAVAILABLE, "Prepare ended before it was done"), {});
    } else {
      Ended(status, last_.failures());
    }
  }

  v1::PrepareRequest request_;
  v1::PrepareProgress incoming_;
  v1::PrepareProgress last_;
};

class RelayedQuestion final : public RelayedCall<StatisticsQuestion> {
 public:
  RelayedQuestion(Connections& connections, const MemberOrder& order, MemberCalls::Wake wake)
      : RelayedCall(connections, order, std::move(wake)) {
    request_.set_service_uid(order.service_uid);
    request_.set_with_popularity(order.with_popularity);
    request_.set_with_rounds(order.with_rounds);
    request_.set_with_spans(order.with_spans);
    request_.set_until_loss_ms(static_cast<uint32_t>(order.until_loss.count()));
    AddTargets(order.members, *request_.mutable_relay());
    context_.set_deadline(std::chrono::system_clock::now() + kAnswer);
    stub().async()->GetStatistics(
        &context_, &request_, &reply_, [this](const grpc::Status& status) {
          const auto& all = reply_.instances();
          const bool is_well = status.ok() && reply_.silent().empty() &&
                               std::all_of(all.begin(), all.end(),
                                           [](const auto& one) { return one.holding().empty(); });
          Ended(status, {}, !is_well);
        });
  }
  ~RelayedQuestion() override { outcome_.Cancel(context_); }

  Statistics statistics() const override { return FromProto(reply_); }

 private:
  v1::GetStatisticsRequest request_;
  v1::Statistics reply_;  // written by gRPC until it is done
};

// A call without recipients.
template <class Interface>
class EmptyCall : public Interface {
 public:
  bool done() const override { return true; }
  Status result() const override { return OkStatus(); }
  MonotonicTime last_heard() const override { return since_; }

 private:
  const MonotonicTime since_ = MonotonicClock::now();
};
class EmptyQuestion final : public EmptyCall<StatisticsQuestion> {
 public:
  Statistics statistics() const override { return {}; }
};

}  // namespace

std::unique_ptr<MemberCall> GrpcMemberCalls::Prepare(const MemberOrder& order,
                                                     const Topology& topology,
                                                     const ServicePlan& plan, Wake wake) {
  if (RelaysOf(order.members).empty()) return std::make_unique<EmptyCall<MemberCall>>();
  const int threads =
      options_.one_machine ? (topology.m() + topology.n()) * plan.compute_threads : 0;
  return std::make_unique<PrepareCall>(connections_, order, std::move(wake), topology,
                                       WorkerConfigOf(plan, threads, options_.debug_logits_hash));
}

std::unique_ptr<MemberCall> GrpcMemberCalls::Commit(const MemberOrder& order, Wake wake) {
  if (RelaysOf(order.members).empty()) return std::make_unique<EmptyCall<MemberCall>>();
  using Call = AnsweredCall<v1::CommitRequest, v1::CommitReply>;
  constexpr Call::Method kMethod = &AsyncControl::Commit;
  return std::make_unique<Call>(connections_, order, std::move(wake), kMethod);
}

std::unique_ptr<MemberCall> GrpcMemberCalls::Abort(const MemberOrder& order, Wake wake) {
  if (RelaysOf(order.members).empty()) return std::make_unique<EmptyCall<MemberCall>>();
  using Call = AnsweredCall<v1::AbortRequest, v1::AbortReply>;
  constexpr Call::Method kMethod = &AsyncControl::Abort;
  return std::make_unique<Call>(connections_, order, std::move(wake), kMethod);
}

std::unique_ptr<MemberCall> GrpcMemberCalls::Drain(const MemberOrder& order, Seconds longest,
                                                   Wake wake) {
  if (RelaysOf(order.members).empty()) return std::make_unique<EmptyCall<MemberCall>>();
  using Call = AnsweredCall<v1::DrainRequest, v1::DrainReply>;
  constexpr Call::Method kMethod = &AsyncControl::Drain;
  return std::make_unique<Call>(connections_, order, std::move(wake), kMethod, longest);
}

std::unique_ptr<MemberCall> GrpcMemberCalls::Supersede(const MemberOrder& order,
                                                       const Successor& successor, Wake wake) {
  if (RelaysOf(order.members).empty()) return std::make_unique<EmptyCall<MemberCall>>();
  using Call = AnsweredCall<v1::SupersedeRequest, v1::SupersedeReply>;
  constexpr Call::Method kMethod = &AsyncControl::Supersede;
  v1::SupersedeRequest request;
  *request.mutable_successor() = ToProto(successor.topology);
  request.set_text_digest(successor.text_digest);
  return std::make_unique<Call>(connections_, order, std::move(wake), kMethod, kAnswer,
                                std::move(request));
}

std::unique_ptr<StatisticsQuestion> GrpcMemberCalls::Ask(const MemberOrder& order, Wake wake) {
  if (RelaysOf(order.members).empty()) return std::make_unique<EmptyQuestion>();
  return std::make_unique<RelayedQuestion>(connections_, order, std::move(wake));
}

}  // namespace janus::control
