#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/control.h"
#include "common/fd.h"
#include "common/log.h"
#include "common/metrics.h"
#include "common/mutex.h"
#include "common/statistics.h"
#include "common/status.h"
#include "operator/kube/timeline.h"
#include "operator/local/embedded/watched_calls.h"
#include "operator/local/gpus.h"
#include "operator/local/node/local_node.h"
#include "operator/local/run_folder.h"
#include "operator/local/server/object_server.h"
#include "operator/local/store/store_client.h"
#include "operator/manager/manager.h"
#include "operator/members/grpc_member_calls.h"
#include "operator/members/grpc_model_questions.h"
#include "operator/planner/folder_planner.h"
#include "operator/records/record_book.h"
#include "rpc/page_server.h"

namespace janus::control {

// Settings of the gateway; unset fields keep janus-gateway's defaults.
struct GatewayTuning {
  std::optional<int64_t> stream_buffer_bytes;
  std::optional<int64_t> read_seconds;
  std::optional<int64_t> first_token_seconds;
  std::optional<int64_t> stall_seconds;
  std::optional<int64_t> idle_seconds;
  std::optional<int64_t> comment_seconds;
  std::vector<std::string> model_aliases;
  std::vector<std::string> cors_origins;
  std::string unknown_parameters;  // empty, as below: janus-gateway's default
  std::string tool_parser;
  std::string reasoning_parser;
};

struct EmbeddedClusterOptions {
  std::string ns = "default";  // the only namespace
  std::string log_dir;
  std::string worker_program;  // paths
  std::string gateway_program;
  MachineRoom room;
  std::vector<LocalGpu> gpus;      // for pods with a GPU limit; as many as room.gpus counts
  std::string host = "127.0.0.1";  // where the gateway listens
  int port = 8000;                 // of the gateway; if not 0, a restarted gateway keeps it
  int64_t gateway_memory_bytes = 0;
  std::string chat_template;  // file; empty: the template of the model
  std::string api_keys_file;  // empty: anyone may call
  GatewayTuning gateway;
  int worker_metrics_port = 0;  // of the first worker; 0: Unix sockets in the run's folder
  bool debug_logits_hash = false;
};

// "host:port" of the gateway, an IPv6 host in brackets.
std::string GatewayAddress(const EmbeddedClusterOptions& options);

// A cluster in this process: an object store instead of the API server, the operator's reconcile
// loop, and a node with local processes as pods (docs/design/006). It supports one MoEService,
// since there is one gateway address. Thread-safe, except Stop and the destructor, which only the
// owner calls.
class EmbeddedCluster {
 public:
  // Starts everything. An error names what is missing.
  static Result<std::unique_ptr<EmbeddedCluster>> Start(EmbeddedClusterOptions options);
  ~EmbeddedCluster();

  // For users' writes: the field manager is "janusctl".
  ObjectApi& api() { return user_; }
  // Unix socket through which this user's other processes reach the objects (object_server.h).
  std::string api_socket() const;
  // "http://127.0.0.1:PORT/" of the page of decisions, for every user of this machine; empty: it
  // could not be opened.
  std::string page_url() const;
  // Container events since the last call.
  std::vector<ContainerEvent> TakeEvents();
  // An error: the node could not start, so no pod will run.
  Status health() const;
  // Readable when TakeEvents has something; for poll().
  int event_fd() const { return event_fd_.get(); }
  // Of the epoch in preparation.
  PrepareProgress progress() const { return calls_.progress(); }
  // Returns the last statistics from the members of a service's committed epochs, those of several
  // pools as JoinPools has them, and asks them again without waiting. Nothing: no reply yet. Call
  // it now and then, from one thread.
  std::optional<Statistics> LatestStatistics(const ObjectKey& service);

  // Stops the operator, then every process: SIGTERM, and SIGKILL after five seconds. Returns when
  // all have ended. Call once.
  void Stop();

 private:
  EmbeddedCluster(EmbeddedClusterOptions options, RunFolder folder, Logger log, Fd log_file);
  void Observe(const ContainerEvent& event);

  const EmbeddedClusterOptions options_;
  RunFolder folder_;
  const Fd log_file_;
  const Logger log_;
  const Fd event_fd_;
  SystemTimeline timeline_;
  MetricRegistry registry_;
  LocalStore store_;
  StoreClient user_{store_, "janusctl"};
  StoreClient operator_client_{store_, "janus-operator"};
  StoreClient node_client_{store_, "janus-node"};
  GrpcModelQuestions questions_;  // in plain text: at sockets that only this user can open
  FolderPlanner planner_;
  GrpcMemberCalls member_calls_;
  WatchedCalls calls_;
  RecordBook records_;
  Manager manager_;
  LocalNode node_;

  mutable Mutex mu_;
  Status health_ JANUS_GUARDED_BY(mu_);
  std::vector<ContainerEvent> events_ JANUS_GUARDED_BY(mu_);  // the newest kMostEvents
  struct Asked {
    std::unique_ptr<StatisticsQuestion> question;
    std::shared_ptr<const Statistics> latest;  // null: no answer yet
  };
  std::map<std::string, Asked> asked_;  // by the MoETopology's name

  std::unique_ptr<ObjectServer> server_;
  std::unique_ptr<PageServer> page_;
  // Last members: destroyed first, the operator before the node.
  std::jthread node_thread_;
  std::jthread operator_thread_;
};

}  // namespace janus::control
