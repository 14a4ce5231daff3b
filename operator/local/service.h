#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/model/description.h"
#include "common/statistics.h"
#include "common/status.h"
#include "operator/local/processes.h"
#include "operator/local/run_folder.h"
#include "operator/reconcile/plan.h"
#include "operator/topology/members.h"

namespace janus::control {

// The gateway's own limits; what is not set is as janus-gateway has it. Its memory is of the plan.
struct GatewayTuning {
  std::optional<int64_t> stream_buffer_bytes;
  std::optional<int64_t> read_seconds;
  std::optional<int64_t> first_token_seconds;
  std::optional<int64_t> stall_seconds;
};

// What a service on this machine is made of.
struct LocalServiceOptions {
  std::string name;
  std::string model_dir;
  ModelDescription model;
  ServicePlan plan;
  std::string worker_program;  // paths of the siblings
  std::string gateway_program;
  std::string host = "127.0.0.1";
  int port = 8000;
  std::string chat_template;    // file; empty: the model's own
  std::string api_keys_file;    // empty: anyone may call
  int worker_metrics_port = 0;  // of the first worker; 0: Unix sockets in the run's folder
  bool debug_logits_hash = false;
  int64_t request_bytes = 4 << 20;
  int open_streams = 4096;
  GatewayTuning gateway;
  std::string log_dir;
  Seconds ready_timeout{60};     // from a process's start to its ready line
  Seconds progress_timeout{60};  // without progress while loading
};

// One service as local processes, for epoch 1: workers and gateway are started, the workers
// prepared and committed, and when the gateway has attached to them the service is open. It is told
// the time: call Step when event_fd is readable and at least every 100 ms; it waits for nothing but
// short answers of its own processes. Confined to the thread that made it.
class LocalService {
 public:
  enum class Phase { kStarting, kLoading, kOpening, kServing };

  // Starts the workers. An error names the program, path or limit.
  static Result<std::unique_ptr<LocalService>> Start(LocalServiceOptions options,
                                                     MonotonicTime now);
  // Whatever runs is killed.
  ~LocalService();

  // Goes as far as it can. An error is the end of the service: it names the process or the phase,
  // why, and the log.
  Status Step(MonotonicTime now);

  int event_fd() const { return processes_->event_fd(); }
  Phase phase() const { return phase_; }
  int workers_ready() const { return ready_; }
  PrepareProgress progress() const;
  // "http://127.0.0.1:8000", once it serves.
  const std::string& endpoint() const { return endpoint_; }
  // Asks all workers at once, for the table; who does not answer at once is left out.
  Result<Statistics> GetStatistics() { return members_->GetStatistics(Seconds(0.5)); }

  // SIGTERM, then SIGKILL after `grace`; returns when nothing is left.
  void Stop(Seconds grace);

 private:
  struct Worker {
    std::string name;
    Role role;
    std::string address;
    bool ready = false;
  };

  LocalService(LocalServiceOptions options, RunFolder folder, std::unique_ptr<Processes> processes,
               MonotonicTime now);
  Status StartWorkers();
  Status StartGateway();
  Status HandleEvents();
  Status BeginLoading(MonotonicTime now);
  Status Advance(MonotonicTime now);
  Status CheckServing(MonotonicTime now);
  Status LoadingFailed(const Status& status) const;
  std::string LogsOf(const std::string& process) const;

  const LocalServiceOptions options_;
  const std::string service_uid_;
  RunFolder folder_;
  std::unique_ptr<Processes> processes_;
  std::vector<Worker> workers_;  // attention by rank, then experts by rank
  std::unique_ptr<Members> members_;
  std::unique_ptr<MembersPrepare> prepare_;
  Phase phase_ = Phase::kStarting;
  MonotonicTime phase_began_;
  std::optional<MonotonicTime> lost_since_;     // the connection to a worker, while it loaded
  MonotonicTime looked_;                        // whether all serve
  std::optional<MonotonicTime> holding_since_;  // one of them does not
  int ready_ = 0;
  std::string endpoint_;
};

}  // namespace janus::control
