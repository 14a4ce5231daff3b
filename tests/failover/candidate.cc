// A candidate for the lease "leader" in $JANUS_NAMESPACE of $KUBECONFIG's cluster, until SIGTERM:
// kube-candidate IDENTITY. While it leads it creates ConfigMaps. Their names have the term in which
// it decided to, so that the server's audit log shows which candidate acted when. Prints the leader
// that it sees on stdout.

#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "common/check.h"
#include "common/stop_signals.h"
#include "operator/kube/client.h"
#include "operator/kube/leader_election.h"

namespace janus::control {
namespace {

const Resource kConfigMaps{"", "v1", "configmaps", "ConfigMap", true};
constexpr Seconds kBetweenActs{0.05};
// Less than the time between a leader's last moment and its successor's first, 15 s - 10 s.
constexpr Seconds kActTimeout{4};

MonotonicTime Later(const Timeline& timeline, Seconds by) {
  return timeline.Now() + std::chrono::duration_cast<MonotonicTime::duration>(by);
}

std::string Variable(const char* name) {
  const char* const value = std::getenv(name);
  JANUS_CHECK(value != nullptr, name, "is not set");
  return value;
}

void Act(ObjectApi& api, const std::string& name, const std::stop_token& stop) {
  Node act = Node::Map();
  act.Add("apiVersion", Node::String(kConfigMaps.ApiVersion()));
  act.Add("kind", Node::String(kConfigMaps.kind));
  SetAt(act, {"metadata", "name"}, Node::String(name));
  SetAt(act, {"metadata", "namespace"}, Node::String(Variable("JANUS_NAMESPACE")));
  const ApiResult<Node> done = api.Create(kConfigMaps, act, {}, {kActTimeout, stop});
  if (!done.ok()) std::fprintf(stderr, "%s\n", done.status().ToString().c_str());
}

void ActWhileLeading(ObjectApi& api, const LeaderElection& election, const std::string& identity,
                     const Timeline& timeline, const std::stop_token& stop) {
  int acts = 0;
  do {
    if (const std::optional<int64_t> term = election.Term(timeline.Now())) {
      Act(api, "term-" + std::to_string(*term) + "-" + identity + "-" + std::to_string(++acts),
          stop);
    }
  } while (timeline.WaitUntil(Later(timeline, kBetweenActs), stop));
}

void Campaign(LeaderElection& election, const Timeline& timeline, const std::stop_token& stop) {
  std::string seen;
  for (;;) {
    const MonotonicTime next = election.Step(stop);
    if (election.leader() != seen) {
      seen = election.leader();
      std::printf("leader %s\n", seen.c_str());
      std::fflush(stdout);
    }
    if (!timeline.WaitUntil(next, stop)) return;
  }
}

int Run(const std::string& identity) {
  StopSignals signals;
  Result<ClusterConfig> config = LoadKubeconfig(Variable("KUBECONFIG"), "");
  JANUS_CHECK(config.ok(), config.status().ToString());
  const SystemTimeline timeline;
  KubeClientOptions options;
  options.name = "kube-candidate-" + identity;
  KubeClient client(*std::move(config), options, timeline);
  LeaderElectionOptions candidate;
  candidate.lease = {Variable("JANUS_NAMESPACE"), "leader"};
  candidate.identity = identity;
  LeaderElection election(client, candidate, timeline);
  std::jthread campaigning(
      [&](const std::stop_token& stop) { Campaign(election, timeline, stop); });
  std::jthread acting([&](const std::stop_token& stop) {
    ActWhileLeading(client, election, identity, timeline, stop);
  });
  signals.Wait();
  acting.request_stop();
  acting.join();  // nothing is written after the lease is released
  campaigning.request_stop();
  campaigning.join();
  const Status released = election.Release();
  if (!released.ok()) std::fprintf(stderr, "%s\n", released.ToString().c_str());
  return released.ok() ? 0 : 1;
}

}  // namespace
}  // namespace janus::control

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: kube-candidate IDENTITY\n", stderr);
    return 2;
  }
  return janus::control::Run(argv[1]);
}
