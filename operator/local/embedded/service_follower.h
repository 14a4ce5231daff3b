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
  kStarting,  // workers are starting
  kLoading,   // workers load weights and connect
  kOpening,   // workers serve; the gateway does not yet
  kServing,
};

// Follows one local service from its first process to its first answer. Its user is watching, so an
// error that the operator would retry forever is reported and ends the start. Once the service has
// served, nothing ends it; the operator repairs it. Confined.
class ServiceFollower {
 public:
  struct Options {
    std::string log_dir;        // for messages
    Seconds ready_timeout{60};  // from the first process until all are ready, and again for the
                                // gateway
    // For errors that a retry may fix, such as an unreachable member.
    Seconds patience{10};
  };
  ServiceFollower(Options options, MonotonicTime now)
      : options_(std::move(options)), phase_began_(now) {}

  // Checks the MoEService, its workers' pods, and the containers' events since the last call. An
  // error ends the start: it names the process or phase, the reason and the log.
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
  std::string ended_;  // how the first unexpected exit happened
  bool has_served_ = false;
  int pods_ready_ = 0;
};

}  // namespace janus::control
