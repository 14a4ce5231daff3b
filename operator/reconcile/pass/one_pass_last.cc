#include <algorithm>
#include <string>
#include <utility>

#include "operator/api/json.h"
#include "operator/api/parse.h"
#include "operator/reconcile/objects/names.h"
#include "operator/reconcile/pass/one_pass.h"

namespace janus::control {
namespace {

// All annotations of an object together may have 256 KiB.
constexpr size_t kMostSpecBytes = 192 << 10;

}  // namespace

// An edit that cannot be carried out is as if it had not come, but for the conditions that say so:
// what serves is kept by the last spec that it was whole under, and losses are mended. Whether the
// service sleeps or is paused the newest spec says.
void Reconciler::OnePass::HoldLast() {
  if (!topology_ || (!topology_->spec.committed && !ended_)) return;
  for (const Role role : {Role::kAttention, Role::kExperts}) {
    if (DesiredInstances(tree_, role).value_or(0) == 0) return;  // it sleeps
  }
  std::optional<MoEService> found = LastService();
  if (!found) return;
  MoEService last = *std::move(found);
  last.spec.suspend = service_.spec.suspend;
  last.spec.paused = service_.spec.paused;
  // Nor does it begin anew what the annotation asks for together with the edit.
  const std::string restart(kRestartedAtAnnotation);
  last.metadata.annotations.erase(restart);
  if (!pinned_.restarted_at.empty()) last.metadata.annotations[restart] = pinned_.restarted_at;

  // Nor has it an image of its own.
  const PinnedImage named = std::exchange(pinned_, PinnedImageOf(tree_));
  const Cause why = std::exchange(invalid_, {});
  std::swap(service_, last);
  capacity_ = awaited_ = {};
  planned_.reset();
  CheckSpec();
  if (!invalid_) PlanSpec();
  if (!invalid_) JudgeModel();
  is_held_ = !invalid_;
  invalid_ = why;
  if (is_held_) return;
  ends_.clear();
  // Another build of the operator, perhaps, or another limit of its administrator's.
  pinned_ = named;
  std::swap(service_, last);
  planned_.reset();
  capacity_ = awaited_ = {};
  PlanSpec();
}

// While it is paused: what people would see begin if it were not. Gateways are not paused.
bool Reconciler::OnePass::HasWaitingEdits() const {
  std::optional<MoEService> last = LastService();
  if (!last) return false;
  MoEServiceSpec asked = ParseMoEService(tree_).object.spec;
  last->spec.paused = asked.paused;
  last->spec.suspend = asked.suspend;
  last->spec.gateway = asked.gateway;
  return last->spec != asked;
}

// The spec by which all is there and serves.
void Reconciler::OnePass::KeepLast() {
  // While it is paused its counts and pods need not be those of the spec, nor is its TLS while that
  // is held.
  if (service_.spec.paused || held_tls_ || held_back_) return;
  if (invalid_ || capacity_ || awaited_ || !planned_ || !planned_->awaited.empty()) return;
  if (!wants_pods() || !record_ || !topology_ || !topology_->spec.committed) return;
  if (topology_->spec.proposed || !line_->epochs.HasTold(topology_->spec.committed->epoch)) return;
  if (!line_->epochs.reason().empty() || !refused_.empty()) return;
  if (!IsWhole()) return;
  const Node* spec = tree_.Find("spec");
  if (spec == nullptr) return;
  std::string text = WriteJson(*spec);
  if (text.size() > kMostSpecBytes) return;
  const FieldPath place = {"metadata", "annotations", kLastSpecAnnotation};
  if (TextAt(*record_, place) == text) return;
  Node object = *record_;
  SetAt(object, place, Node::String(text));
  ApiResult<Node> written =
      owner_.api_.Update(kTopologies, object, Subresource::kNone, {}, limits_);
  if (!written.ok()) {
    refused_.push_back(RefusalOf(written.error(), "note the spec that serves"));
    return;
  }
  memory_.writes.Wrote(kTopologies, std::string(ResourceVersionOf(*record_)), *written, now_);
  record_ = *std::move(written);
}

}  // namespace janus::control
