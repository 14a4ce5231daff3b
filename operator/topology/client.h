#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "common/clock.h"
#include "common/control.h"
#include "common/statistics.h"
#include "common/status.h"
#include "common/topology.h"
#include "operator/reconcile/plan.h"

namespace janus::control {

// A Prepare under way. Destroying it cancels the call and waits for its thread. Thread-safe.
class PrepareCall {
 public:
  virtual ~PrepareCall() = default;
  // Bytes never get fewer.
  virtual PrepareProgress progress() const = 0;
  // When progress was last heard of; the call's beginning at first.
  virtual MonotonicTime last_heard() const = 0;
  virtual bool done() const = 0;
  // How it ended; meaningful once done.
  virtual Status result() const = 0;
};

// A question for statistics under way; several may be out at once, and none has a thread.
// Destroying it cancels it and waits for its end. Confined.
class StatisticsCall {
 public:
  virtual ~StatisticsCall() = default;
  // The answer, or why there is none; waits at most for the deadline of the call. Once.
  virtual Result<Statistics> Wait() = 0;
};

// What workers refuse from anybody else: the service, and a leader that is not the last one.
struct Leader {
  std::string service_uid;
  uint64_t fence = 0;
};

// Speaks to one member of a service (for epoch 1 the attention instance with the lowest id), which
// relays to the others and aggregates their statistics. A call that cannot be carried out says why
// by its status, codes as gRPC's. Thread-safe.
class TopologyClient {
 public:
  // `target` is a gRPC target: "unix:/run/.../attention-0.sock". Connects when first used.
  TopologyClient(const std::string& target, Leader leader);
  ~TopologyClient();

  // Begins loading and connecting; follow it through the returned call. `epoch_key` tags every
  // message of the epoch's exchange.
  struct PrepareOptions {
    std::array<uint8_t, 16> epoch_key{};
    bool debug_logits_hash = false;
  };
  std::unique_ptr<PrepareCall> Prepare(const Topology& topology, const ServicePlan& plan,
                                       const PrepareOptions& options);

  Status Commit(uint64_t epoch, Seconds timeout);
  Status Abort(uint64_t epoch, Seconds timeout);
  Status Drain(uint64_t epoch, Seconds timeout);
  Result<Statistics> GetStatistics(Seconds timeout) { return AskStatistics(timeout)->Wait(); }
  std::unique_ptr<StatisticsCall> AskStatistics(Seconds timeout);

 private:
  template <class Request, class Reply, class Method>
  Status Write(Method method, uint64_t epoch, Seconds timeout);

  struct Channel;  // keeps gRPC out of this header
  const Leader leader_;
  const std::shared_ptr<Channel> channel_;
};

}  // namespace janus::control
