#include <algorithm>
#include <utility>

#include "operator/api/device.h"
#include "operator/api/parse.h"
#include "operator/api/validate.h"
#include "operator/api/validate_read.h"
#include "operator/reconcile/children/scalers.h"
#include "operator/reconcile/epochs/topology_record.h"
#include "operator/reconcile/objects/names.h"
#include "operator/reconcile/pass/one_pass.h"
#include "operator/reconcile/pods/revision.h"
#include "operator/reconcile/pods/template_conflicts.h"

namespace janus::control {
namespace {

// A planner that could not ask anybody is asked again after this.
constexpr std::chrono::seconds kModelPause{2};

bool IsBelow(const std::string& path, const std::string& folder) {
  if (folder == "/") return true;
  return path == folder || path.starts_with(folder + "/");
}

std::string Joined(const FieldErrors& errors) {
  return JoinErrors(errors, kLongestMessage);
}

}  // namespace

void Reconciler::OnePass::ReadSpec() {
  ParsedService parsed = ParseMoEService(tree_);
  if (!parsed.errors.empty()) invalid_ = {"InvalidSpec", Joined(ValidateRead(tree_, parsed))};
  service_ = std::move(parsed.object);
}

void Reconciler::OnePass::CheckSpec() {
  if (invalid_) return;
  FieldErrors errors = ValidateSchema(service_);
  const std::optional<HostPathSource>& host_path = service_.spec.model.source.host_path;
  if (errors.empty() && host_path &&
      std::none_of(owner_.options_.host_paths.begin(), owner_.options_.host_paths.end(),
                   [&](const std::string& folder) { return IsBelow(host_path->path, folder); })) {
    errors.push_back({"spec.model.source.hostPath.path",
                      "is '" + host_path->path +
                          "', below none of the folders this operator allows; have its "
                          "administrator add one to hostPaths, or use another source",
                      0});
  }
  if (!errors.empty()) {
    invalid_ = {"InvalidSpec", Joined(errors)};
    return;
  }
  errors = ValidateSupported(service_, owner_.options_.ground);
  if (!errors.empty()) {
    invalid_ = {"NotSupported", Joined(errors)};
    return;
  }
  errors = ValidateDevice(service_);
  if (errors.empty()) errors = TemplateConflicts(service_, owner_.options_.defaults);
  if (errors.empty() && DeviceOf(service_) == Device::kCuda && service_.spec.image.empty() &&
      owner_.options_.worker_cuda_image.empty()) {
    errors.push_back({"spec.image",
                      "is empty, and this operator was told of no image of workers on GPUs; name "
                      "one, or have its administrator set defaults.workerCudaImage",
                      0});
  }
  if (!errors.empty()) invalid_ = {"InvalidSpec", Joined(errors)};
}

void Reconciler::OnePass::PinImage() {
  pinned_ = PinnedImageOf(tree_);
  if (invalid_) return;
  const auto annotation = service_.metadata.annotations.find(std::string(kRestartedAtAnnotation));
  const std::string restart =
      annotation == service_.metadata.annotations.end() ? "" : annotation->second;
  const Device device = DeviceOf(service_);
  if (!service_.spec.image.empty() || pinned_.image.empty() || !pinned_.named.empty() ||
      restart != pinned_.restarted_at || device != pinned_.device) {
    pinned_.image = NewestImage(device);
  }
  pinned_.restarted_at = restart;
  pinned_.named = service_.spec.image;
  pinned_.device = device;
}

const std::string& Reconciler::OnePass::NewestImage(Device device) const {
  if (!service_.spec.image.empty()) return service_.spec.image;
  return device == Device::kCuda ? owner_.options_.worker_cuda_image : owner_.options_.worker_image;
}

// Of the pods that this pass makes. While a spec is kept that computes on another device than the
// newest one asks for, the pinned image is of the other device's workers.
const std::string& Reconciler::OnePass::ImageOfPods() const {
  const Device device = DeviceOf(service_);
  return device == pinned_.device ? pinned_.image : NewestImage(device);
}

// Whom a planner may ask: those whose ports are open, the oldest first.
void Reconciler::OnePass::LookForWorkers() {
  WorkersToAsk out;
  out.now = now_;
  out.attention_revision = roles_[0].wanted.revision;
  out.experts_revision = roles_[1].wanted.revision;
  out.wake = [wake = owner_.wake_, key = KeyOf(tree_)] { wake(key); };
  for (const RolePass& role : roles_) {
    std::vector<const PodSeen*> there;
    for (const PodSeen& pod : role.pods) {
      if (pod.is_live() && pod.containers_ready && !pod.ip.empty()) there.push_back(&pod);
    }
    std::sort(there.begin(), there.end(),
              [](const PodSeen* a, const PodSeen* b) { return a->id < b->id; });
    for (const PodSeen* pod : there) {
      out.workers.push_back(
          {role.role, "pod " + pod->name, pod->revision, owner_.options_.locate(*pod).address});
    }
  }
  has_workers_ = !out.workers.empty();
  owner_.planner_.Look(PlannerKey(), out);
}

// Of an attention instance of the wanted revision that serves: another one is given the same.
std::optional<SequenceRoom> Reconciler::OnePass::HeldRoom() {
  if (!topology_ || !topology_->spec.committed) return std::nullopt;
  const RolePass& attention = roles_[0];
  for (const PodSeen& pod : attention.pods) {
    if (!pod.is_live() || pod.revision != attention.wanted.revision) continue;
    const std::optional<SequenceRoom> room = RoomOf(*topology_->spec.committed, InstanceOf(pod));
    if (room) return room;
  }
  return std::nullopt;
}

// There is no room for what is wanted. What was wanted before, as far as it served, is kept whole:
// losses are mended by the like of what was lost.
void Reconciler::OnePass::HoldCommitted() {
  if (!topology_ || !topology_->spec.committed) return;
  MoEService held = service_;
  for (const TopologyInstance& one : topology_->spec.committed->instances) {
    const std::optional<SequenceRoom> room = RoomAt(*topology_->spec.committed, one);
    if (!room) continue;
    held.spec.model.max_model_len = static_cast<int32_t>(room->max_model_len);
    held.spec.roles.attention.max_batch_size = room->max_batch_size;
    held.spec.roles.attention.kv_cache.size = UnitsOf(room->kv_bytes);
  }
  for (RolePass& role : roles_) {
    RoleSpec& spec = SpecOf(held, role.role);
    spec.scaling.reset();
    spec.replicas = DesiredInstances(tree_, role.role).value_or(0);
    if (*spec.replicas == 0) return;
    const auto serves = [&](const PodSeen& pod) {
      return pod.is_live() && committed_.contains(pod.uid);
    };
    const auto like = std::find_if(role.pods.begin(), role.pods.end(), serves);
    if (like != role.pods.end()) role.wanted.revision = like->revision;
    role.wanted.rolls = false;
  }
  LookForWorkers();  // those that serve have rooms of their own
  janus::Result<PlannedService> planned = owner_.planner_.Plan(held);
  if (!planned.ok()) return;
  planned_ = *std::move(planned);
  for (RolePass& role : roles_) role.wanted.pods = *SpecOf(held, role.role).replicas;
}

// What an edit asks for is not done by that, and nobody may read that it is. Where the spec is the
// one that all came by, it is as wanted: only another one would need room. A scaler says it itself.
void Reconciler::OnePass::SayWhatIsKept() {
  const bool is_asked = std::any_of(roles_.begin(), roles_.end(), [&](const RolePass& role) {
    return IsExternal(SpecOf(service_, role.role)) && role.wanted.pods != role.external_count;
  });
  if (is_asked || held_back_ || !planned_ || !wants_pods() || IsLastSpec()) return;
  if (service_.spec.paused) return;
  held_back_ = {
      capacity_.reason,
      "the newest spec has no room, and what serves is kept as it was: " + capacity_.message};
  for (RolePass& role : roles_) {
    const std::optional<int32_t>& asked = SpecOf(service_, role.role).replicas;
    if (!asked || *asked == role.wanted.pods) continue;
    role.limit = {capacity_.reason, "spec.roles." + std::string(ToString(role.role)) +
                                        ".replicas is " + std::to_string(*asked) +
                                        "; the newest spec has no room, and the count is kept at " +
                                        std::to_string(role.wanted.pods)};
  }
}

// Members with and without TLS cannot call each other, nor can a gateway of one kind call the
// other: all that runs stays of the kind that it is, whatever else is edited, until nobody is left.
void Reconciler::OnePass::HoldTls() {
  held_tls_ = {};
  if (invalid_ || !owner_.options_.defaults.certificates) return;
  const bool sleeps = !WhyAsleep().empty();
  const bool wants = service_.spec.security.tls == Tls::kAuto;
  bool has_wanted = false, has_other = false;
  std::vector<PodSeen> all = old_pods_;
  for (const RolePass& role : roles_) all.insert(all.end(), role.pods.begin(), role.pods.end());
  for (const PodSeen& pod : all) {
    // Those that leave are served by their gateways to the end, and meet nobody new.
    const bool counts = pod.is_live() || (sleeps && pod.is_leaving);
    if (counts) (pod.uses_tls == wants ? has_wanted : has_other) = true;
  }
  if (!has_other || has_wanted) return;
  service_.spec.security.tls = wants ? Tls::kDisabled : Tls::kAuto;
  if (sleeps) return;
  held_tls_ = {"NotSupported",
               "spec.security.tls: pods with and without TLS cannot call each other, so the "
               "service goes on " +
                   std::string(wants ? "without" : "with") +
                   " as before; for the change set spec.suspend: true, and false again when its "
                   "pods are gone"};
}

// What of the counts is known without the model comes first: pods start while it is read, and where
// they are who knows it, there is no other way.
void Reconciler::OnePass::PlanSpec() {
  HoldTls();
  if (held_back_.reason == "InsufficientCapacity") held_back_ = {};  // of another spec
  for (RolePass& role : roles_) {
    role.wanted = {};
    role.wanted.now = wall_;
    role.wanted.rolls = !service_.spec.paused;
    const std::optional<int> before = DesiredInstances(tree_, role.role);
    role.wanted.pods = before.value_or(0);
    if (!acts()) continue;
    role.wanted.revision = RevisionOf(service_, role.role, ImageOfPods());
    RoleSpec& spec = SpecOf(service_, role.role);
    // Paused counts stay what they were.
    role.limit = {};
    if (service_.spec.paused && before && *before > 0 && spec.replicas) {
      if (*spec.replicas != *before) {
        role.limit = {"Paused", "spec.roles." + std::string(ToString(role.role)) + ".replicas is " +
                                    std::to_string(*spec.replicas) +
                                    "; spec.paused keeps the count at " + std::to_string(*before)};
      }
      spec.replicas = *before;
    }
    if (spec.replicas) {
      role.wanted.pods = *spec.replicas;
    } else {
      const int least = spec.scaling ? spec.scaling->min_replicas.value_or(1) : 1;
      role.wanted.pods = std::max(role.wanted.pods, least);
    }
    if (IsExternal(spec)) AskScaler(role, before);
  }
  if (!acts()) return;
  // Nobody serves: there is nothing to plan.
  if (has_no_replicas()) {
    for (RolePass& role : roles_) role.wanted.pods = 0;
    return;
  }
  LookForWorkers();
  janus::Result<PlannedService> planned = PlanPinned(owner_.planner_, service_, HeldRoom());
  if (planned.ok()) {
    planned_ = *std::move(planned);
    for (RolePass& role : roles_) {
      const RoleSpec& spec = SpecOf(service_, role.role);
      if (spec.replicas) continue;
      role.wanted.pods = role.role == Role::kAttention ? planned_->plan.m : planned_->plan.n;
      if (IsExternal(spec)) TakeExternal(role, role.wanted.pods);
    }
  } else if (planned.status().code() == StatusCode::kInvalidArgument) {
    invalid_ = {"InvalidSpec", planned.status().message()};
  } else if (planned.status().code() == StatusCode::kResourceExhausted) {
    capacity_ = {"InsufficientCapacity", planned.status().message()};
    HoldCommitted();
    SayWhatIsKept();
  } else {
    awaited_ = {"ModelUnknown", planned.status().message()};
  }
  // Whoever does not answer is asked again.
  const bool is_asking = awaited_ || (planned_ && !planned_->awaited.empty());
  if (is_asking && has_workers_) BringForward(again_, now_ + kModelPause);
  if (service_.spec.suspend) {
    for (RolePass& role : roles_) role.wanted.pods = 0;
  }
}

void Reconciler::OnePass::Plan() {
  ReturnToOldSide();
  if (MustAwaitOldSide()) return AwaitOldSide();
  PlanSpec();
  JudgeModel();
  if (invalid_) HoldLast();
  LookForOldPods();
}

}  // namespace janus::control
