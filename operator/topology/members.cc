#include "operator/topology/members.h"

#include <algorithm>

namespace janus::control {
namespace {

class JoinedPrepare final : public MembersPrepare {
 public:
  struct Part {
    std::string name;
    std::unique_ptr<PrepareCall> call;
  };
  explicit JoinedPrepare(std::vector<Part> parts) : parts_(std::move(parts)) {}

  PrepareProgress progress() const override {
    PrepareProgress sum;
    bool all_known = true;
    for (const Part& part : parts_) {
      const PrepareProgress one = part.call->progress();
      all_known = all_known && (!one.phase.empty() || part.call->done());
      sum.bytes_done += one.bytes_done;
      sum.bytes_total += one.bytes_total;
      // While one still loads, the service loads.
      if (sum.phase.empty() || (!part.call->done() && one.phase == "weights"))
        sum.phase = one.phase;
    }
    // A total that still grows would let the share that is done shrink.
    if (!all_known) sum.bytes_done = sum.bytes_total = 0;
    return sum;
  }
  MonotonicTime last_heard() const override {
    MonotonicTime last{};
    for (const Part& part : parts_) last = std::max(last, part.call->last_heard());
    return last;
  }
  std::vector<PendingMember> pending() const override {
    std::vector<PendingMember> out;
    for (const Part& part : parts_) {
      if (part.call->done()) continue;
      out.push_back({part.name, part.call->progress().phase, part.call->last_heard()});
    }
    std::stable_sort(out.begin(), out.end(), [](const PendingMember& a, const PendingMember& b) {
      return a.last_heard < b.last_heard;
    });
    return out;
  }
  bool done() const override {
    bool all = true;
    for (const Part& part : parts_) {
      const bool one = part.call->done();
      if (one && !part.call->result().ok()) return true;
      all = all && one;
    }
    return all;
  }
  Status result() const override {
    Status first;
    for (const Part& part : parts_) {
      if (!part.call->done() || part.call->result().ok()) continue;
      const Status one = part.call->result().Annotate(part.name);
      // A member that lost its peer because the peer failed is not the cause.
      const bool is_cause = one.code() != StatusCode::kUnavailable;
      if (first.ok() || (is_cause && first.code() == StatusCode::kUnavailable)) first = one;
    }
    return first;
  }

 private:
  std::vector<Part> parts_;
};

}  // namespace

Members::Members(std::vector<Member> members, const Leader& leader) {
  std::stable_sort(members.begin(), members.end(), [](const Member& a, const Member& b) {
    return a.role == Role::kExperts && b.role == Role::kAttention;
  });
  for (Member& member : members) {
    auto client = std::make_unique<TopologyClient>(member.address, leader);
    peers_.push_back({std::move(member), std::move(client)});
  }
}

std::unique_ptr<MembersPrepare> Members::Prepare(const Topology& topology, const ServicePlan& plan,
                                                 const TopologyClient::PrepareOptions& options) {
  std::vector<JoinedPrepare::Part> parts;
  parts.reserve(peers_.size());
  for (const Peer& peer : peers_) {
    parts.push_back({peer.member.name, peer.client->Prepare(topology, plan, options)});
  }
  return std::make_unique<JoinedPrepare>(std::move(parts));
}

Status Members::Commit(uint64_t epoch, Seconds timeout) {
  for (const Peer& peer : peers_) {
    Status status = peer.client->Commit(epoch, timeout);
    if (!status.ok()) return std::move(status).Annotate(peer.member.name);
  }
  return OkStatus();
}

Status Members::Abort(uint64_t epoch, Seconds timeout) {
  Status first;
  for (const Peer& peer : peers_) {
    Status status = peer.client->Abort(epoch, timeout);
    if (first.ok() && !status.ok()) first = std::move(status).Annotate(peer.member.name);
  }
  return first;
}

Result<Statistics> Members::GetStatistics(Seconds timeout) {
  Statistics all;
  Status first;
  // All are asked before any is awaited, so that the whole takes one timeout, however many are
  // late.
  std::vector<std::unique_ptr<StatisticsCall>> calls;
  for (const Peer& peer : peers_) calls.push_back(peer.client->AskStatistics(timeout));
  for (size_t i = 0; i < calls.size(); ++i) {
    Result<Statistics> one = calls[i]->Wait();
    if (!one.ok()) {
      if (first.ok()) first = std::move(one).status().Annotate(peers_[i].member.name);
      continue;
    }
    all.epoch = std::max(all.epoch, one->epoch);
    all.instances.insert(all.instances.end(), one->instances.begin(), one->instances.end());
  }
  if (all.instances.empty() && !first.ok()) return first;
  return all;
}

}  // namespace janus::control
