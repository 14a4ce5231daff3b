#pragma once

#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "common/clock.h"
#include "common/mutex.h"
#include "operator/local/node/pod_run.h"

namespace janus::control {

// What the probes of one run of a container have found so far.
struct Probed {
  bool is_started = false;
  bool is_ready = false;
  std::string is_dead;  // why the container is to be started anew; empty: it is not

  friend bool operator==(const Probed&, const Probed&) = default;
};

// Probes one run of a container from a thread of its own, so that one that hangs keeps no other
// waiting. A probe that is not given succeeds. Until its first success a probe is repeated every
// `starting_period`, not its own: on one machine asking costs next to nothing, and waiting is all
// that a start would be made of. Thread-safe, but for the destructor: the owner's.
class Prober {
 public:
  struct Options {
    std::string address;  // "unix:/path" or "host:port"
    std::optional<Probe> startup;
    std::optional<Probe> liveness;
    std::optional<Probe> readiness;
    Seconds starting_period{0.1};
  };

  // `on_change` is called on the prober's thread when seen() has changed.
  Prober(Options options, std::function<void()> on_change);
  // A probe under way is given up.
  ~Prober();
  Prober(const Prober&) = delete;
  Prober& operator=(const Prober&) = delete;

  Probed seen() const;

 private:
  class Schedule;

  void Run(const std::stop_token& stop);
  // False when `stop` came.
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
