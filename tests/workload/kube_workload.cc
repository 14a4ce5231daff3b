// kube-workload OBJECTS ROUNDS
//
// Sets data.round of OBJECTS ConfigMaps to 1, 2, ..., one object after another, until ROUNDS or, if
// that is 0, until its standard input ends. An informer follows them. Like a reconciler, it reacts
// only to error codes: it retries temporary errors after a fresh read. Exits with 0 if the server
// and the informer's copy are as wanted.
//
// $KUBECONFIG names the server; $JANUS_NAMESPACE must exist. Prints a line at the start and one at
// the end, and every error, by code, on standard error.

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include "operator/kube/client.h"
#include "operator/kube/informer.h"

namespace janus::control {
namespace {

const Resource kConfigMaps{"", "v1", "configmaps", "ConfigMap", true};
constexpr Seconds kCallTimeout{5};
constexpr Seconds kDeadline{280};
constexpr Seconds kPause{0.05};  // before each write

std::string RoundOf(const Node& object) {
  return std::string(TextAt(object, {"data", "round"}));
}

// Whether the error may be temporary. Prints each error.
bool MayPass(const std::string& what, const ApiError& error) {
  std::fprintf(stderr, "%s: %s%s\n", what.c_str(), error.ToStatus().ToString().c_str(),
               error.outcome_unknown ? " (perhaps done)" : "");
  return error.code != StatusCode::kInvalidArgument && error.code != StatusCode::kDataLoss;
}

bool HasInputEnded() {
  pollfd input{STDIN_FILENO, POLLIN, 0};
  return poll(&input, 1, 0) != 0;
}

class Workload {
 public:
  Workload(ObjectApi& api, const Timeline& timeline, std::string ns)
      : api_(api), timeline_(timeline), ns_(std::move(ns)), end_(Add(timeline.Now(), kDeadline)) {}

  bool Run(int objects, int rounds) {
    ReflectorOptions options;
    options.selection.namespace_ = ns_;
    options.longest_pause = Seconds(2);
    options.page_size = 2;  // so that a list has more than one
    Informer informer(api_, kConfigMaps, options, {}, {}, timeline_);
    informer.Start();
    std::printf("begins\n");
    std::fflush(stdout);
    int round = 0;
    do {
      ++round;
      for (int i = 0; i < objects; ++i) {
        Wait(kPause);
        if (!Bring("w-" + std::to_string(i), std::to_string(round))) return false;
      }
    } while (rounds == 0 ? !HasInputEnded() : round < rounds);
    while (!IsCopied(informer, objects, std::to_string(round))) {
      if (timeline_.Now() >= end_) {
        std::fprintf(stderr, "the informer's copy is not as the server\n");
        return false;
      }
      Wait(Seconds(0.05));
    }
    const ReflectorStatistics seen = informer.statistics();
    std::printf(
        "%d objects, %d rounds, %d attempts failed; informer: %ld lists, %ld watches, %ld "
        "failures\n",
        objects, round, failed_, seen.lists, seen.watches, seen.failures);
    return true;
  }

 private:
  static MonotonicTime Add(MonotonicTime time, Seconds by) {
    return time + std::chrono::duration_cast<MonotonicTime::duration>(by);
  }
  void Wait(Seconds time) const { timeline_.WaitUntil(Add(timeline_.Now(), time), {}); }

  // Sets one object to one round.
  bool Bring(const std::string& name, const std::string& round) {
    for (int attempt = 1;; ++attempt) {
      const ApiResult<Node> done = TryBring(name, round);
      if (done.ok() && RoundOf(*done) == round) return true;
      if (!done.ok() && !MayPass(name + " round " + round, done.error())) return false;
      ++failed_;
      if (timeline_.Now() >= end_) return false;
      Wait(BackoffOf(attempt));
    }
  }
  ApiResult<Node> TryBring(const std::string& name, const std::string& round) {
    const CallLimits limits{kCallTimeout};
    ApiResult<Node> read = api_.Get(kConfigMaps, {ns_, name}, Subresource::kNone, limits);
    if (!read.ok()) {
      if (read.error().code != StatusCode::kNotFound) return read;
      Node made = Node::Map();
      made.Add("apiVersion", Node::String("v1"));
      made.Add("kind", Node::String("ConfigMap"));
      SetAt(made, {"metadata", "name"}, Node::String(name));
      SetAt(made, {"metadata", "namespace"}, Node::String(ns_));
      SetAt(made, {"data", "round"}, Node::String(round));
      return api_.Create(kConfigMaps, made, {}, limits);
    }
    if (RoundOf(*read) == round) return read;
    SetAt(*read, {"data", "round"}, Node::String(round));
    return api_.Update(kConfigMaps, *read, Subresource::kNone, {}, limits);
  }
  static Seconds BackoffOf(int attempt) {
    return std::min(Seconds(0.1) * (1 << std::min(attempt - 1, 5)), Seconds(2));
  }

  bool IsCopied(const Informer& informer, int objects, const std::string& round) const {
    for (int i = 0; i < objects; ++i) {
      const auto copy = informer.store().Get({ns_, "w-" + std::to_string(i)});
      if (!copy || RoundOf(*copy) != round) return false;
    }
    return true;
  }

  ObjectApi& api_;
  const Timeline& timeline_;
  const std::string ns_;
  const MonotonicTime end_;
  int failed_ = 0;
};

int Main(int argc, char** argv) {
  const char* const kubeconfig = std::getenv("KUBECONFIG");
  const char* const ns = std::getenv("JANUS_NAMESPACE");
  if (argc != 3 || kubeconfig == nullptr || ns == nullptr) {
    std::fprintf(stderr,
                 "usage: KUBECONFIG=... JANUS_NAMESPACE=... kube-workload OBJECTS ROUNDS\n");
    return 2;
  }
  const Result<ClusterConfig> config = LoadKubeconfig(kubeconfig, "");
  if (!config.ok()) {
    std::fprintf(stderr, "%s\n", config.status().ToString().c_str());
    return 2;
  }
  const SystemTimeline timeline;
  KubeClientOptions options;
  options.watch_silence = Seconds(5);
  KubeClient client(*config, options, timeline);
  Workload workload(client, timeline, ns);
  return workload.Run(std::atoi(argv[1]), std::atoi(argv[2])) ? 0 : 1;
}

}  // namespace
}  // namespace janus::control

int main(int argc, char** argv) {
  return janus::control::Main(argc, argv);
}
