#include "operator/reconcile/pass/observe.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <string>
#include <utility>

#include "common/fingerprint.h"
#include "operator/api/json.h"
#include "operator/reconcile/children/plan_children.h"
#include "operator/reconcile/epochs/topology_record.h"
#include "operator/reconcile/model/fetch_pod.h"
#include "operator/reconcile/objects/names.h"
#include "operator/reconcile/objects/owned.h"
#include "operator/reconcile/pass/wake_time.h"
#include "operator/reconcile/pods/roster.h"
#include "operator/reconcile/status/words.h"

namespace janus::control {
namespace {

// If a cache has not shown our new object for this long, ask the server.
constexpr std::chrono::seconds kCacheLag{60};

// Resolves creates of unknown outcome. False: a read failed.
bool ResolveDoubts(Pass& pass) {
  OwnWrites& writes = pass.memory.writes;
  writes.DoubtOlderThan(pass.now - kCacheLag);
  const std::set<OwnWrites::Place> doubts = writes.unresolved();
  for (const OwnWrites::Place& place : doubts) {
    ApiResult<Node> there =
        pass.api.Get(*place.first, place.second, Subresource::kNone, pass.limits);
    if (there.ok()) {
      const bool ours = IsControlledBy(*there, pass.memory.uid);
      writes.Resolve(place, ours ? std::optional(*std::move(there)) : std::nullopt, pass.now);
    } else if (there.error().code == StatusCode::kNotFound) {
      writes.Resolve(place, std::nullopt, pass.now);
    } else {
      const std::string call = "read " + place.first->kind + " " + place.second.name;
      pass.Refuse(call, RefusalOf(there.error(), call));
      return false;
    }
  }
  return true;
}

class Observing {
 public:
  explicit Observing(Pass& pass) : pass_(pass), writes_(pass.memory.writes) {}

  std::optional<ServiceObserved> Run() {
    if (pass_.is_first_round && !ResolveDoubts(pass_)) return std::nullopt;
    if (!ReadService()) return std::nullopt;
    out_.now = pass_.now;
    out_.wall = pass_.wall;
    ReadPods();
    ReadTopologies();
    ReadFetchJobs();
    ReadAutoscalers();
    ReadChildren();
    writes_.ForgetDeleted(there_);
    if (pass_.options.reads_nodes) JudgeNodes();
    out_.alive = AliveInstances(out_.pods);
    HearMembers();
    ReadModels();
    ReadProfiles();
    out_.refused = pass_.memory.refusals.All(pass_.now);
    // Refusals of this pass come first, so that they are found before older ones.
    out_.refused.insert(out_.refused.begin(), pass_.refused.begin(), pass_.refused.end());
    out_.certificates_are_kept = pass_.certificates_are_kept;
    out_.remembered = pass_.memory.remembered;
    out_.rival = pass_.memory.claim.RivalAt(pass_.now);
    if (!out_.rival.empty()) out_.rival_until = At(*pass_.memory.claim.rival_asked, kRivalFor);
    return std::move(out_);
  }

 private:
  std::string Index() const { return pass_.key.namespace_ + "/" + pass_.key.name; }

  bool ReadService() {
    std::optional<Node> tree =
        writes_.Newest(kMoEServices, pass_.key, pass_.caches.services.Get(pass_.key));
    if (!tree || UidOf(*tree) != pass_.memory.uid) return false;
    if (FindAt(*tree, {"metadata", "deletionTimestamp"}) != nullptr) return false;
    out_.tree = *std::move(tree);
    return true;
  }

  void ReadPods() {
    for (const Node& node : writes_.NewestOf(kPods, pass_.caches.pods.Find(kByService, Index()))) {
      there_.emplace(UidOf(node));
      if (TextAt(node, {"metadata", "labels", "app.kubernetes.io/component"}) == "gateway") {
        const bool is_leaving = FindAt(node, {"metadata", "deletionTimestamp"}) != nullptr;
        out_.gateway_pods.push_back({KeyOf(node).name, is_leaving, WhyNotRunning(ReadStart(node)),
                                     std::string(TextAt(node, {"spec", "nodeName"}))});
      }
      if (TextAt(node, {"metadata", "labels", "app.kubernetes.io/component"}) == kFetch) {
        fetch_pods_.push_back(ReadFetchPod(node));
      }
      if (!IsControlledBy(node, pass_.memory.uid)) continue;
      std::optional<PodSeen> pod = ReadPod(node);
      if (!pod) continue;
      pod->is_leaving = pod->is_leaving || writes_.IsDeleted(pod->uid);
      out_.pods.push_back(*std::move(pod));
    }
    if (!pass_.is_first_round) return;
    // An edit may change what is created, and a deleted pod frees resources.
    Fingerprint world;
    world.Mix(static_cast<uint64_t>(IntegerAt(out_.tree, {"metadata", "generation"}).value_or(0)));
    for (const std::string& uid : there_) world.Mix(uid);
    pass_.memory.refusals.See(world.value());
  }

  void ReadTopologies() {
    std::set<std::string> names;
    for (Node& node :
         writes_.NewestOf(kTopologies, pass_.caches.topologies.Find(kByService, Index()))) {
      there_.emplace(UidOf(node));
      if (!IsControlledBy(node, pass_.memory.uid)) continue;
      if (FindAt(node, {"metadata", "deletionTimestamp"}) != nullptr) continue;
      if (writes_.IsDeleted(std::string(UidOf(node)))) continue;
      TopologySeen seen;
      Parsed<MoETopology> parsed = ParseMoETopology(node);
      for (const auto* one : {&parsed.object.spec.committed, &parsed.object.spec.proposed}) {
        if (*one) seen.pods.merge(PodsOf(**one));
      }
      if (parsed.errors.empty()) {
        seen.ended = TakeEnded(parsed.object);
        seen.topology = std::move(parsed.object);
      } else {
        seen.unreadable = parsed.errors[0].path + " " + parsed.errors[0].message;
      }
      seen.record = std::move(node);
      names.insert(seen.name());
      out_.topologies.push_back(std::move(seen));
    }
    pass_.memory.KeepLines(names);
  }

  void ReadFetchJobs() {
    for (const Node& node : writes_.NewestOf(kJobs, pass_.caches.jobs.Find(kByService, Index()))) {
      there_.emplace(UidOf(node));
      if (!IsControlledBy(node, pass_.memory.uid)) continue;
      FetchJobSeen job = ReadFetchJob(node);
      job.is_leaving = job.is_leaving || writes_.IsDeleted(job.uid);
      for (const FetchPodSeen& pod : fetch_pods_) {
        if (pod.job_uid == job.uid) job.pods.push_back(pod);
      }
      out_.fetch_jobs.push_back(std::move(job));
    }
    HearFetch();
  }

  // At most one of the Jobs downloads: that of the newest spec.
  void HearFetch() {
    if (pass_.options.fetches == nullptr) return;
    FetchPodSeen* running = nullptr;
    for (FetchJobSeen& job : out_.fetch_jobs) {
      if (job.is_leaving || job.has_ended) continue;
      for (FetchPodSeen& pod : job.pods) {
        if (!pod.address.empty()) running = &pod;
      }
    }
    FetchWatch& watch = pass_.memory.fetch;
    watch.Look(*pass_.options.fetches, running == nullptr ? "" : running->address, pass_.now,
               pass_.wake, pass_.again);
    if (running != nullptr) running->progress = watch.progress(pass_.now);
  }

  void ReadAutoscalers() {
    for (const Node& node : pass_.caches.autoscalers.Find(kByService, Index())) {
      if (const auto scaled = ScaledBy(node)) {
        out_.autoscalers.push_back({KeyOf(node).name, scaled->role});
      }
    }
  }

  void ReadChildren() {
    for (const auto& [resource, name] : ChildNames(pass_.key.name)) {
      const ObjectKey key{pass_.key.namespace_, name};
      std::optional<Node> there =
          writes_.Newest(*resource, key, pass_.caches.Of(*resource).Get(key));
      if (!there) continue;
      const std::string uid(UidOf(*there));
      there_.insert(uid);
      out_.children[{resource->plural, name}] = {*std::move(there), writes_.IsDeleted(uid)};
    }
  }

  // Nothing: no such node. The node cache may lag behind the pod cache, so before a pod is given
  // up, the server is asked for a node that the cache lacks.
  std::optional<NodeSeen> FindNode(const std::string& name, bool is_leaving) {
    const ObjectKey key{"", name};
    if (const auto cached = pass_.caches.nodes.Get(key)) return ReadNode(*cached);
    if (is_leaving) return std::nullopt;
    const auto known = pass_.nodes.find(name);
    if (known != pass_.nodes.end()) return known->second;
    std::optional<NodeSeen>& out = pass_.nodes[name];
    const ApiResult<Node> there = pass_.api.Get(kNodes, key, Subresource::kNone, pass_.limits);
    if (there.ok()) {
      out = ReadNode(*there);
    } else if (there.error().code != StatusCode::kNotFound) {
      const std::string call = "read node " + name;
      pass_.Refuse(call, RefusalOf(there.error(), call));
      out.emplace();
      out->name = name;
    }
    return out;
  }

  void JudgeNodes() {
    std::map<std::string, NodeSeen> nodes;
    for (const PodSeen& pod : out_.pods) {
      if (pod.node.empty() || nodes.contains(pod.node)) continue;
      std::optional<NodeSeen> node = FindNode(pod.node, pod.is_leaving);
      if (node) nodes[pod.node] = *std::move(node);
    }
    for (GatewayPodSeen& pod : out_.gateway_pods) {
      const auto node = pass_.caches.nodes.Get({"", pod.node});
      if (!node) continue;
      const NodeSeen seen = ReadNode(*node);
      pod.must_leave = seen.is_cordoned || !seen.evicts.empty();
    }
    out_.next_lost_node = JudgeByNodes(nodes, pass_.wall, out_.pods);
  }

  // For people, if an answer of this pass has one.
  void KeepTrace(const WatchSeen& watch, int pool) {
    if (pass_.options.records == nullptr || watch.answered != pass_.now) return;
    if (watch.statistics == nullptr || watch.statistics->traces.empty()) return;
    pass_.options.records->Add(pass_.key, {pass_.wall, watch.statistics, pool});
  }

  // A decision needs counters that are newer than the last one's.
  std::chrono::milliseconds LookEvery() const {
    const std::optional<int64_t> interval =
        IntegerAt(out_.tree, {"spec", "scaling", "intervalSeconds"});
    if (!interval || *interval <= 0) return kLookEvery;
    const std::chrono::milliseconds half(std::min<int64_t>(*interval, 3'600) * 1'000 / 2);
    return std::clamp<std::chrono::milliseconds>(half, kLookLeastEvery, kLookEvery);
  }

  void HearMembers() {
    const bool can_call =
        pass_.options.certificates == nullptr || pass_.memory.remembered.certificates.can_call;
    for (TopologySeen& one : out_.topologies) {
      Memory::Line& line = pass_.memory.LineOf(one.name());
      if (can_call && one.topology) {
        line.epochs.Hear({pass_.key, pass_.memory.uid, one.record, *one.topology, out_.alive,
                          pass_.now, pass_.wall, LookEvery()},
                         pass_.wake, pass_.tell, pass_.again);
      }
      one.epochs = line.epochs.Seen(pass_.now);
      KeepTrace(one.epochs.watch, one.pool());
      one.epochs.released = line.end.released();
    }
  }

  // Local model folders of the newest spec, and of an earlier one that served.
  std::vector<std::string> ModelFolders() const {
    const FieldPath path = {"model", "source", "hostPath", "path"};
    std::set<std::string> out;
    const Node* const spec = out_.tree.Find("spec");
    if (spec == nullptr) return {};
    out.emplace(TextAt(*spec, path));
    const std::string newest = WriteJson(*spec);
    for (const TopologySeen& one : out_.topologies) {
      const std::string_view last =
          TextAt(one.record, {"metadata", "annotations", kLastSpecAnnotation});
      if (last.empty() || last == newest) continue;
      const janus::Result<Node> parsed =
          ParseJson(std::string(last), std::string(kLastSpecAnnotation));
      if (parsed.ok()) out.emplace(TextAt(*parsed, path));
    }
    out.erase("");
    return {out.begin(), out.end()};
  }

  // A profile that cannot be read is as if it were not there: the decision names what it lacks.
  void ReadProfiles() {
    // Without this target nothing is decided, and no profile is read.
    if (FindAt(out_.tree, {"spec", "slo", "tpot"}) == nullptr) return;
    for (const Node& node : pass_.caches.profiles.List()) {
      Parsed<HardwareProfileObject> parsed = ParseHardwareProfile(node);
      if (!parsed.errors.empty() || !ValidateSchema(parsed.object).empty()) continue;
      out_.profiles.push_back(std::move(parsed.object));
    }
  }

  void ReadModels() {
    const std::vector<std::string> folders = ModelFolders();
    ServicePlanner& planner = pass_.memory.planner;
    out_.models = planner.Know(pass_.memory.uid, folders, pass_.now);
    out_.old_models = planner.Know(OldPlannerKey(pass_.memory.uid), folders, pass_.now);
  }

  Pass& pass_;
  OwnWrites& writes_;
  std::set<std::string> there_;           // uids of existing objects
  std::vector<FetchPodSeen> fetch_pods_;  // of any Job
  ServiceObserved out_;
};

}  // namespace

std::optional<ServiceObserved> Observe(Pass& pass) {
  return Observing(pass).Run();
}

}  // namespace janus::control
