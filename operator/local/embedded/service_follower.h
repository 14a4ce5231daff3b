#pragma once

#include <optional>
#include <span>
#include <string>

#include "common/clock.h"
#include "common/status.h"
#include "operator/api/tree.h"
#include "operator/local/node/local_node.h"

namespace janus::control {

enum class ServicePhase {
  kStarting,  // workers start
  kLoading,   // they load and connect
  kOpening,   // they serve; the gateway does not yet
  kServing,
};

// Follows one service of this machine from its first process to its first answer. Whoever starts a
// service sits before it: what the operator would try again and again is told and ends the start.
// Once it has served nothing ends it: then it heals. Confined.
class ServiceFollower {
 public:
  struct Options {
    std::string log_dir;        // for messages
    Seconds ready_timeout{60};  // from the first process until all are ready, and for the gateway
    // Of what may be mended by trying again: a member that is not reached.
    Seconds patience{10};
  };
  ServiceFollower(Options options, MonotonicTime now)
      : options_(std::move(options)), phase_began_(now) {}

  // What is there now: the MoEService, its workers' pods, and what containers did since the last
  // call. An error is the end of the start: it names the process or the phase, why, and the log.
  Status Follow(const Node& service, std::span<const Node> pods,
                std::span<const ContainerEvent> events, MonotonicTime now);

  ServicePhase phase() const { return phase_; }
  bool has_served() const { return has_served_; }
  int pods_ready() const { return pods_ready_; }

 private:
  Status Judge(const Node& service, std::span<const Node> pods, MonotonicTime now);

  const Options options_;
  ServicePhase phase_ = ServicePhase::kStarting;
  MonotonicTime phase_began_;
  std::optional<MonotonicTime> unreachable_since_;
  std::string ended_;  // how the first process ended that was not told to
  bool has_served_ = false;
  int pods_ready_ = 0;
};

}  // namespace janus::control
