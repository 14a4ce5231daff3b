#pragma once

#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "common/clock.h"
#include "common/mutex.h"
#include "operator/local/node/pod_run.h"

namespace janus::control {

// Probe results of one run of a container.
struct Probed {
  bool is_started = false;
  bool is_ready = false;
  std::string is_dead;  // why the container must be restarted; empty: it is alive

  friend bool operator==(const Probed&, const Probed&) = default;
};

// Probes one run of a container on a separate thread, so that a hanging probe delays no other
// container. A missing probe counts as success. Until a probe first succeeds, it repeats every
// `starting_period` instead of its period: local probes are cheap, and a longer period would only
// delay the start. Thread-safe, except the destructor, which only the owner calls.
class Prober {
 public:
  struct Options {
    std::string address;  // "unix:/path" or "host:port"
    std::optional<Probe> startup;
    std::optional<Probe> liveness;
    std::optional<Probe> readiness;
    Seconds starting_period{0.1};
  };

  // Calls `on_change` on the prober's thread after each change of seen().
  Prober(Options options, std::function<void()> on_change);
  // Aborts a running probe.
  ~Prober();
  Prober(const Prober&) = delete;
  Prober& operator=(const Prober&) = delete;

  Probed seen() const;

 private:
  class Schedule;

  void Run(const std::stop_token& stop);
  // False if `stop` was requested.
  bool WaitUntil(MonotonicTime time, const std::stop_token& stop);
  bool AwaitStart(const std::stop_token& stop);
  void Watch(const std::stop_token& stop);
  bool Succeeds(const Probe& probe, const std::stop_token& stop);
  void Set(const Probed& found);

  const Options options_;
  const std::function<void()> on_change_;
  mutable Mutex mu_;
  CondVar stopped_;
  Probed seen_ JANUS_GUARDED_BY(mu_);
  std::jthread thread_;  // last: ends first
};

}  // namespace janus::control
