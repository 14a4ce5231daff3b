#include "dataplane/gateway/topology_watch.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <optional>
#include <thread>

#include "common/mutex.h"
#include "proto/control.grpc.pb.h"
#include "rpc/channel.h"

namespace janus::gateway {

namespace {

constexpr Seconds kFirstPause{0.1};

MonotonicTime After(Seconds seconds) {
  return MonotonicClock::now() + std::chrono::duration_cast<MonotonicClock::duration>(seconds);
}

// What the thread waits for: an answer of the member, the end of its stream, or the request to
// stop. A newer answer replaces an older one that was not taken.
struct Mailbox {
  Mutex mu;
  CondVar changed;
  std::optional<v1::GetTopologyReply> answer JANUS_GUARDED_BY(mu);
  std::optional<grpc::Status> ended JANUS_GUARDED_BY(mu);
  bool stopped JANUS_GUARDED_BY(mu) = false;
};

// The stream from one member. Must live until it has ended.
class Stream final : public grpc::ClientReadReactor<v1::GetTopologyReply> {
 public:
  Stream(v1::Control::Stub& stub, const TopologyWatchOptions& options, Mailbox& mailbox)
      : mailbox_(mailbox) {
    request_.set_service_uid(options.service_uid);
    request_.set_text_digest(options.text_digest);
    request_.set_pool(static_cast<uint32_t>(options.pool));
    stub.async()->WatchTopology(&context_, &request_, this);
    StartRead(&incoming_);
    StartCall();
  }
  void Cancel() { context_.TryCancel(); }

  void OnReadDone(bool ok) override {
    if (!ok) return;
    {
      MutexLock lock(mailbox_.mu);
      mailbox_.answer = std::move(incoming_);
      mailbox_.changed.NotifyAll();
    }
    incoming_.Clear();
    StartRead(&incoming_);
  }
  void OnDone(const grpc::Status& status) override {
    MutexLock lock(mailbox_.mu);
    mailbox_.ended = status;
    mailbox_.changed.NotifyAll();
  }

 private:
  Mailbox& mailbox_;
  grpc::ClientContext context_;
  v1::GetTopologyRequest request_;
  v1::GetTopologyReply incoming_;
};

class Watch final : public TopologyWatch {
 public:
  Watch(TopologyWatchOptions options, std::function<void(const AttentionMembers&)> on_change,
        Logger log)
      : options_(std::move(options)),
        on_change_(std::move(on_change)),
        log_(std::move(log)),
        thread_([this] { Run(); }) {}

  ~Watch() override {
    MutexLock lock(mailbox_.mu);
    mailbox_.stopped = true;
    mailbox_.changed.NotifyAll();
  }

 private:
  void Run() {
    Seconds pause = kFirstPause;
    while (true) {
      bool heard = false;
      for (const std::string& address : Candidates()) {
        if (Stopped()) return;
        heard |= WatchOne(address);
        if (heard) break;  // by then the newest topology has the addresses to ask
        if (ForgetSilent()) break;
      }
      if (heard) {
        pause = kFirstPause;
        heard_at_ = MonotonicClock::now();
      }
      if (!Pause(pause)) return;
      if (!heard) pause = std::min(pause * 2, options_.longest_pause);
    }
  }

  // Members of the newest topology, then the initial ones; the member lost last comes last.
  std::vector<std::string> Candidates() const {
    std::vector<std::string> out;
    for (const auto* list : {&newest_members_, &options_.members}) {
      for (const std::string& address : *list) {
        if (address != last_asked_ && std::ranges::find(out, address) == out.end()) {
          out.push_back(address);
        }
      }
    }
    if (!last_asked_.empty()) out.push_back(last_asked_);
    return out;
  }

  // Addresses of a pool that was drained may soon belong to others. True: they are forgotten now.
  bool ForgetSilent() {
    if (!is_told_ || options_.forgotten_after <= Seconds(0)) return false;
    if (MonotonicClock::now() - heard_at_ < options_.forgotten_after) return false;
    log_.Info("no member of the pool answers; its instances are forgotten",
              {{"pool", options_.pool}, {"epoch", epoch_}});
    is_told_ = false;
    newest_members_.clear();
    last_asked_.clear();
    on_change_({});
    return true;
  }

  bool Stopped() {
    MutexLock lock(mailbox_.mu);
    return mailbox_.stopped;
  }

  // False: the watch is to stop.
  bool Pause(Seconds pause) {
    const MonotonicTime end = After(pause);
    MutexLock lock(mailbox_.mu);
    while (!mailbox_.stopped) {
      if (!mailbox_.changed.WaitUntil(mailbox_.mu, end)) break;
    }
    return !mailbox_.stopped;
  }

  // Runs until the member's stream ends or the member proves useless. Returns whether it reported a
  // topology at least as new as the newest known one.
  bool WatchOne(const std::string& address) {
    last_asked_ = address;
    {
      MutexLock lock(mailbox_.mu);
      mailbox_.answer.reset();
      mailbox_.ended.reset();
    }
    const std::unique_ptr<v1::Control::Stub> stub =
        v1::Control::NewStub(DialInstance(address, options_.credentials, kPeerLostToWatch));
    Stream stream(*stub, options_, mailbox_);
    bool heard = false;
    const MonotonicTime first_answer = After(options_.first_answer);
    while (const std::optional<v1::GetTopologyReply> reply = NextAnswer(heard, first_answer)) {
      if (!Take(*reply, address)) break;
      heard = true;
    }
    stream.Cancel();
    const grpc::Status ended = WaitForEnd();
    if (!Stopped()) {
      log_.Debug("topology stream ended", {{"member", address}, {"reason", ended.error_message()}});
    }
    return heard;
  }

  // Nothing: the stream has ended, the first answer is late, or the watch is to stop.
  std::optional<v1::GetTopologyReply> NextAnswer(bool heard, MonotonicTime first_answer) {
    MutexLock lock(mailbox_.mu);
    while (!mailbox_.stopped && !mailbox_.answer && !mailbox_.ended) {
      if (heard) {
        mailbox_.changed.Wait(mailbox_.mu);
      } else if (!mailbox_.changed.WaitUntil(mailbox_.mu, first_answer)) {
        break;
      }
    }
    if (mailbox_.stopped) return std::nullopt;
    return std::exchange(mailbox_.answer, std::nullopt);
  }

  grpc::Status WaitForEnd() {
    MutexLock lock(mailbox_.mu);
    while (!mailbox_.ended) mailbox_.changed.Wait(mailbox_.mu);
    return *mailbox_.ended;
  }

  // False: this member is behind, or reports an impossible topology.
  bool Take(const v1::GetTopologyReply& reply, const std::string& address) {
    Result<ToldTopology> told = ReadTopology(reply);
    if (!told.ok()) {
      log_.Warning("a member's topology is invalid",
                   {{"member", address}, {"reason", told.status().message()}});
      return false;
    }
    const AttentionMembers& members = told->members;
    if (members.epoch < epoch_) {
      log_.Warning("a member reports an old topology",
                   {{"member", address}, {"epoch", members.epoch}, {"known", epoch_}});
      return false;
    }
    if (members.epoch == epoch_ && is_told_) return true;
    epoch_ = members.epoch;
    newest_members_ = std::move(told->addresses);
    is_told_ = true;
    log_.Info("topology", {{"epoch", epoch_},
                           {"attention", reply.committed().attention_size()},
                           {"experts", reply.committed().experts_size()},
                           {"member", address}});
    on_change_(members);
    return true;
  }

  const TopologyWatchOptions options_;
  const std::function<void(const AttentionMembers&)> on_change_;
  const Logger log_;
  Mailbox mailbox_;

  // Confined to the watch's thread.
  uint64_t epoch_ = 0;
  bool is_told_ = false;    // on_change_ has the instances of that epoch
  MonotonicTime heard_at_;  // when a member last answered, or stopped answering
  std::vector<std::string> newest_members_;
  std::string last_asked_;

  std::jthread thread_;
};

}  // namespace

std::unique_ptr<TopologyWatch> TopologyWatch::Start(
    TopologyWatchOptions options, std::function<void(const AttentionMembers&)> on_change,
    Logger log) {
  return std::make_unique<Watch>(std::move(options), std::move(on_change), std::move(log));
}

}  // namespace janus::gateway
