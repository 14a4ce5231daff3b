#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/status.h"
#include "common/stop_signals.h"
#include "common/timed_device.h"
#include "operator/local/embedded/embedded_cluster.h"

namespace janus::cli {

// So many nodes of each role, of so many instances.
struct PlayedNodes {
  int attention_nodes = 1;
  int attention_each = 1;
  int expert_nodes = 1;
  int experts_each = 1;
};

struct ServeOptions {
  std::string file;  // -f; empty if model_dir is set
  // --model: a folder, or owner/name[@revision] of a hub; empty if file is set
  std::string model_dir;
  std::string name;  // of the service, with model_dir; empty: the name of the folder
  // Only with model_dir. Counts: empty: as many as the target needs, if there is one; otherwise 1,
  // or of timed experts as many as hold the model.
  std::optional<int> attention;
  std::optional<int> experts;
  std::optional<int> tpot_milliseconds;  // the target of a service that sets its own counts
  int micro_batches = 0;                 // 0: chosen
  std::optional<int> pools;              // each with these counts; empty: the service uses no pools
  std::optional<PlayedNodes> nodes;      // that this machine plays; they give the counts
  std::string exchange_mode;             // empty: chosen
  std::string compression;               // of the exchange; empty: none
  std::string gate;                      // the role that computes it; empty: chosen
  std::string transport;                 // of the exchange; empty: chosen
  std::string sum;                       // of the exchange: a rule; empty: chosen
  int sum_bits = 32;                     // with FixedPoint
  std::vector<int> sum_exponents;        // with FixedPoint; empty: calibrated at the start
  std::optional<TimedDevice> timed;      // replaces the device of the object
  // Only with model_dir: "Auto" (GPUs if there are any), "CPU" or "CUDA".
  std::string device = "Auto";
  std::string host = "127.0.0.1";
  int port = 8000;
  std::string chat_template;
  std::string api_keys_file;
  int worker_metrics_port = 0;  // port of the first worker; 0: Unix sockets
  bool debug_logits_hash = false;
  std::optional<int64_t> memory_bytes;  // of the gateway; empty: the share that PlanService gives
                                        // it
  control::GatewayTuning gateway;
};

// Reads "2x4,4x2": attention nodes x instances of each, then the same of expert nodes.
// InvalidArgument: another form, or more instances than a service may have.
Result<PlayedNodes> ReadPlayedNodes(const std::string& text);

// Serves until a stop signal, or until the service is deleted (OK). Before the service is ready for
// the first time, any failure ends it and is returned. Later failures are repaired. Only the logs
// remain afterwards.
Status Serve(const ServeOptions& options, StopSignals& stop);

}  // namespace janus::cli
