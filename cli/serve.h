#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/status.h"
#include "common/stop_signals.h"
#include "operator/local/embedded/embedded_cluster.h"

namespace janus::cli {

struct ServeOptions {
  std::string file;       // -f; empty with model_dir
  std::string model_dir;  // --model; empty with file
  std::string name;       // of the service with model_dir; empty: from the folder's name
  int attention = 1;      // with model_dir
  int experts = 1;
  std::string host = "127.0.0.1";
  int port = 8000;
  std::string chat_template;
  std::string api_keys_file;
  int worker_metrics_port = 0;  // of the first worker; 0: Unix sockets
  bool debug_logits_hash = false;
  std::optional<int64_t> memory_bytes;  // of the gateway; empty: PlanService's share
  control::GatewayTuning gateway;
};

// Serves until a stop signal, or until the service is deleted (OK). Until it has served for the
// first time whatever keeps it from serving ends it, with the reason; from then on it heals.
// Nothing is left behind but the logs.
Status Serve(const ServeOptions& options, StopSignals& stop);

}  // namespace janus::cli
