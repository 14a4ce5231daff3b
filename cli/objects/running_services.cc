#include "cli/objects/running_services.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "operator/kube/client.h"
#include "operator/reconcile/objects/names.h"

namespace janus::cli {
namespace {

namespace fs = std::filesystem;

// The socket is on this machine. A service that has stopped refuses at once; a slow one gets 30 s.
const control::CallLimits kLimits{Seconds(30), {}};

std::unique_ptr<control::ObjectApi> Reach(const std::string& socket,
                                          const control::Timeline& timeline) {
  control::ClusterConfig config;
  config.origin = socket;
  config.host = std::string(control::kUnixHost) + socket;
  config.use_tls = false;
  control::KubeClientOptions options;
  options.name = "janusctl";
  return std::make_unique<control::KubeClient>(std::move(config), options, timeline);
}

}  // namespace

Status NoServiceRuns() {
  return NotFound(
      "no service runs on this machine; start one with janusctl serve, or use kubectl for a "
      "cluster");
}

std::vector<RunningService> FindRunningServices(const control::Environment& environment,
                                                const control::Timeline& timeline) {
  std::vector<RunningService> out;
  std::error_code error;
  for (fs::directory_iterator at(environment.state_home + "/janus", error), end;
       !error && at != end; at.increment(error)) {
    std::error_code none;
    const fs::path socket = fs::read_symlink(at->path() / kApiLink, none);
    // A janusctl that was killed leaves its link behind, without a socket.
    if (none || !fs::exists(socket, none)) continue;
    std::unique_ptr<control::ObjectApi> api = Reach(socket.string(), timeline);
    const auto services = api->List(control::kMoEServices, {}, kLimits);
    if (!services.ok() || services->items.empty()) continue;
    out.push_back({control::KeyOf(services->items[0]), std::move(api), socket.string()});
  }
  std::sort(out.begin(), out.end(), [](const RunningService& a, const RunningService& b) {
    return a.key.name < b.key.name;
  });
  return out;
}

Result<RunningService> FindRunningService(const control::Environment& environment,
                                          const control::Timeline& timeline,
                                          const std::string& name) {
  std::vector<RunningService> all = FindRunningServices(environment, timeline);
  std::string names;
  for (const RunningService& one : all) names += (names.empty() ? "" : ", ") + one.key.name;
  if (all.empty()) return NoServiceRuns();
  if (name.empty()) {
    if (all.size() == 1) return std::move(all[0]);
    return InvalidArgument("several services run here; give the name of one: " + names);
  }
  for (RunningService& one : all) {
    if (one.key.name == name) return std::move(one);
  }
  return NotFound("no service '" + name + "' runs here; running: " + names);
}

}  // namespace janus::cli
