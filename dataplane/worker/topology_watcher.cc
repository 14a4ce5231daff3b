#include "dataplane/worker/topology_watcher.h"

#include <utility>

#include "common/mutex.h"
#include "proto/convert.h"

namespace janus::dataplane {
namespace {

using Reactor = grpc::ServerWriteReactor<v1::GetTopologyReply>;

class Watcher final : public Reactor {
 public:
  Watcher(Worker& worker, std::string text_digest, std::atomic<int>& watchers)
      : worker_(worker),
        text_digest_(std::move(text_digest)),
        watchers_(watchers),
        listener_(std::make_shared<Listener>(this)) {
    worker.AddCommitListener(listener_);
    Tell();
  }

  void OnWriteDone(bool ok) override {
    if (!ok) {
      Close(grpc::Status::OK);
      return;
    }
    {
      const MutexLock lock(mu_);
      writing_ = false;
    }
    Tell();
  }
  void OnCancel() override { Close(grpc::Status::CANCELLED); }
  void OnDone() override {
    listener_->Detach();
    watchers_.fetch_sub(1);
    delete this;
  }

 private:
  // The worker holds this; it may outlive the stream.
  class Listener final : public CommitListener {
   public:
    explicit Listener(Watcher* watcher) : watcher_(watcher) {}
    void OnCommit() override {
      const MutexLock lock(mu_);
      if (watcher_ != nullptr) watcher_->Tell();
    }
    void Detach() {
      const MutexLock lock(mu_);
      watcher_ = nullptr;
    }

   private:
    Mutex mu_;
    Watcher* watcher_ JANUS_GUARDED_BY(mu_);
  };

  // Writes the serving topology, unless it was written before or a write is pending.
  void Tell() {
    const MutexLock lock(mu_);
    if (writing_ || closed_) return;
    const std::optional<Topology> topology = worker_.TopologyFor(text_digest_);
    if (!topology || topology->epoch == told_) return;
    told_ = topology->epoch;
    reply_.set_fence(worker_.fence());
    *reply_.mutable_committed() = ToProto(*topology);
    writing_ = true;
    StartWrite(&reply_);
  }
  void Close(const grpc::Status& status) {
    const MutexLock lock(mu_);
    if (closed_) return;
    closed_ = true;
    Finish(status);
  }

  Worker& worker_;
  const std::string text_digest_;
  std::atomic<int>& watchers_;
  const std::shared_ptr<Listener> listener_;
  v1::GetTopologyReply reply_;  // written by the thread that sets writing_

  Mutex mu_;
  bool writing_ JANUS_GUARDED_BY(mu_) = false;
  bool closed_ JANUS_GUARDED_BY(mu_) = false;
  uint64_t told_ JANUS_GUARDED_BY(mu_) = 0;
};

class Refusal final : public Reactor {
 public:
  explicit Refusal(const grpc::Status& status) { Finish(status); }
  void OnDone() override { delete this; }
};

}  // namespace

Reactor* WatchTopologies(Worker& worker, std::string text_digest, std::atomic<int>& watchers) {
  if (watchers.fetch_add(1) >= kMostWatchers) {
    watchers.fetch_sub(1);
    return RefuseWatch(
        ResourceExhausted(std::to_string(kMostWatchers) + " watch this worker's topology already"));
  }
  return new Watcher(worker, std::move(text_digest), watchers);
}

Reactor* RefuseWatch(const Status& status) {
  return new Refusal(ToGrpc(status));
}

}  // namespace janus::dataplane
