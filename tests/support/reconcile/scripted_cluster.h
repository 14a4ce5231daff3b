#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "operator/local/store/store_client.h"

namespace janus::control {

// A cluster's other components, as far as the operator sees them, in the time of a clock:
// scheduler, kubelets and the controller of Deployments, one step at a time. Confined to one
// thread; others may write to the store meanwhile.
class ScriptedCluster {
 public:
  // `clock` and `store` outlive this. Creates the nodes at once.
  ScriptedCluster(const Clock& clock, LocalStore& store,
                  std::vector<std::string> nodes = {"node-a", "node-b"});

  // Does everything that is due. Almost free if nothing has changed since the last step.
  void Step();

  Seconds start_time{2};  // from a pod's creation to its container being ready
  Seconds end_time{1};    // from its deletion to its end
  // From a container's end to its restart, and again from then until it is ready.
  Seconds restart_time{0};

  bool gateways_run = true;  // pods of Deployments run as soon as they are created

  // The container of that pod ends and is restarted.
  void Crash(const std::string& pod) {
    crashed_[pod] = {clock_.WallNow()};
    is_due_ = true;
  }
  // Its container runs, but answers its readiness probe or not.
  void SetReadiness(const std::string& pod, bool is_ready) {
    if (is_ready) {
      unready_.erase(pod);
    } else {
      unready_.insert(pod);
    }
    is_due_ = true;
  }
  // It ends again and again, with these last words.
  void CrashLoop(const std::string& pod, const std::string& words) {
    crash_loops_[pod] = words;
    ++restarts_[pod];
    is_due_ = true;
  }
  // Containers of that role's new pods cannot start, with the kubelet's reason for a waiting
  // container and its text. Empty: they can start again.
  void KeepFromStarting(const std::string& role, const std::string& reason,
                        const std::string& words) {
    unstartable_[role] = {reason, words};
    is_due_ = true;
  }
  // Kubelets refuse new pods of that role, which fail with this reason. Empty: they accept them
  // again.
  void Refuse(const std::string& role, const std::string& reason) {
    refused_[role] = reason;
    is_due_ = true;
  }
  // Pods of that role find no node, with the scheduler's text.
  void FillUp(const std::string& role, const std::string& words) {
    full_[role] = words;
    is_due_ = true;
  }
  void MakeRoom(const std::string& role) {
    full_.erase(role);
    is_due_ = true;
  }
  // The node is unreachable, and nothing on it ends.
  void LoseNode(const std::string& node);
  void Cordon(const std::string& node, bool is_cordoned = true);

  // uids of all pods that ever existed.
  const std::set<std::string>& pods_ever() const { return pods_ever_; }

 private:
  void StepPod(Node pod);
  void Place(Node& pod);
  void Run(Node& pod);
  // True: its kubelet cannot run it.
  bool IsKeptFromRunning(Node& pod);
  // False: its worker has ended and is not ready again.
  bool HasRestarted(const std::string& name);
  void StepDeployment(Node deployment);

  // The next step looks at writes of others meanwhile.
  void Written(const ApiResult<Node>& result);
  int64_t Version();

  const Clock& clock_;

  LocalStore& store_;
  StoreClient client_{store_, "kubelet"};
  std::vector<std::string> nodes_;
  std::set<std::string> lost_;
  std::set<std::string> cordoned_;
  std::map<std::string, int> restarts_;
  struct Crashed {
    WallTime at;
    bool is_counted = false;  // already counted as a restart
  };
  std::map<std::string, Crashed> crashed_;  // pods with a worker that is not ready again
  std::set<std::string> unready_;
  std::map<std::string, std::string> crash_loops_;
  std::map<std::string, std::string> full_;
  std::map<std::string, std::pair<std::string, std::string>> unstartable_;
  std::map<std::string, std::string> refused_;
  std::set<std::string> pods_ever_;
  int addresses_ = 0;
  int64_t seen_version_ = -1;
  bool is_due_ = true;  // a change is due by time alone, or was requested
};

}  // namespace janus::control
