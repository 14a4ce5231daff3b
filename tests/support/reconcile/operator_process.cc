#include "tests/support/reconcile/operator_process.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "common/check.h"
#include "operator/api/field_filter.h"
#include "operator/reconcile/objects/names.h"
#include "operator/reconcile/observe/caches.h"
#include "operator/reconcile/status/reasons.h"

namespace janus::control {
namespace {

// The same options as in Watches.
ObjectStoreOptions OptionsOf(const KeptKind& kept) {
  ObjectStoreOptions options;
  options.transform = FieldFilter(kept.fields);
  options.indexes = ServiceIndex(*kept.resource);
  return options;
}

// A loop that wakes itself for ever would not end.
constexpr int kMostPassesAtOnce = 200;

}  // namespace

OperatorProcess::OperatorProcess(ObjectApi& api, LocalStore& server, ServicePlanner& planner,
                                 MemberCalls& calls, const SimulatedTimeline& timeline,
                                 ReconcilerOptions options)
    : server_(server),
      timeline_(timeline),
      reconciler_(
          api,
          Caches{*watched_[0].store, *watched_[1].store, *watched_[2].store, *watched_[3].store,
                 *watched_[4].store, *watched_[5].store, *watched_[6].store, *watched_[7].store,
                 *watched_[8].store, *watched_[9].store, *watched_[10].store, *watched_[11].store,
                 *watched_[12].store},
          planner, calls, timeline,
          [this](Happening happening) {
            JANUS_CHECK(IsKnownEvent(happening.reason), happening.reason, "is not in reasons.cc");
            events_.push_back(std::move(happening));
          },
          [this](const ObjectKey& key) { EXPECT_TRUE(queue_.Add(key, timeline_.Now()).ok()); },
          std::move(options)) {}

std::vector<OperatorProcess::Watched> OperatorProcess::WatchAll() {
  std::vector<Watched> out;
  for (const KeptKind& kept : KeptKinds()) {
    out.push_back({&kept, std::make_unique<ObjectStore>(OptionsOf(kept))});
  }
  return out;
}

int OperatorProcess::CountEvents(const std::string& reason) const {
  return static_cast<int>(std::count_if(
      events_.begin(), events_.end(), [&](const Happening& one) { return one.reason == reason; }));
}

std::string OperatorProcess::LastText(const std::string& reason) const {
  const auto last = std::find_if(events_.rbegin(), events_.rend(),
                                 [&](const Happening& one) { return one.reason == reason; });
  return last == events_.rend() ? "" : last->note;
}

void OperatorProcess::Deliver(const Resource& resource, const Delta& delta) {
  if (&resource == &kNodes) {
    for (const ObjectKey& key : watched_[0].store->Keys()) {
      EXPECT_TRUE(queue_.Add(key, timeline_.Now()).ok());
    }
    return;
  }
  for (const Node* object : {delta.before, delta.after}) {
    if (object == nullptr) continue;
    if (const auto key = ServiceKeyOf(resource, *object)) {
      EXPECT_TRUE(queue_.Add(*key, timeline_.Now()).ok());
    }
  }
}

void OperatorProcess::ListAll(Watched& watched) {
  ListOptions options;
  options.limit = 0;
  if (watched.kind->is_labelled) options.selection.label_selector = std::string(kServiceLabel);
  const auto deliver = [&](const Delta& delta) { Deliver(*watched.kind->resource, delta); };
  watched.store->BeginList();
  watched.store->TakePage(informer_.List(*watched.kind->resource, options, CallLimits())->items,
                          deliver);
  watched.store->EndList(deliver);
}

void OperatorProcess::Tell(const Change& change) {
  for (Watched& watched : watched_) {
    if (watched.kind->resource->plural != change.kind->resource.plural ||
        watched.kind->resource->group != change.kind->resource.group) {
      continue;
    }
    const auto shows = [&](const SharedObject& object) {
      return object != nullptr && (!watched.kind->is_labelled ||
                                   ServiceKeyOf(*watched.kind->resource, *object).has_value());
    };
    const auto deliver = [&](const Delta& delta) { Deliver(*watched.kind->resource, delta); };
    const bool was = shows(change.before);
    const bool is = shows(change.after);
    if (!was && !is) return;
    const WatchEventType type = !was ? WatchEventType::kAdded
                                : is ? WatchEventType::kModified
                                     : WatchEventType::kDeleted;
    watched.store->TakeEvent({type, is ? *change.after : *change.before}, deliver);
    return;
  }
}

void OperatorProcess::CatchUp() {
  std::vector<Change> changes;
  int64_t version = 0;
  server_.Do([&](LocalStore::Session& session) {
    version = session.tables.version();
    if (seen_version_ < 0) return;
    for (int64_t at = seen_version_ + 1; at <= version; ++at) {
      changes.push_back(session.tables.history().At(at));
    }
  });
  if (seen_version_ < 0) {
    for (Watched& watched : watched_) ListAll(watched);
  }
  seen_version_ = version;
  if (!holds_pods_back) changes.insert(changes.begin(), held_back_.begin(), held_back_.end());
  if (!holds_pods_back) held_back_.clear();
  for (const Change& change : changes) {
    if (holds_pods_back && change.kind->resource.plural == kPods.plural) {
      held_back_.push_back(change);
    } else {
      Tell(change);
    }
  }
}

void OperatorProcess::Step() {
  for (int i = 0; i < kMostPassesAtOnce; ++i) {
    CatchUp();
    const std::optional<ObjectKey> key = queue_.TryTake(timeline_.Now());
    if (!key) return;
    ++passes_;
    const PassResult result = reconciler_.Pass(*key, {});
    if (result.status.ok()) {
      queue_.Forget(*key);
      queue_.Done(*key, timeline_.Now());
    } else {
      last_error_ = result.status;
      queue_.Retry(*key, timeline_.Now());
    }
    if (result.again) {
      EXPECT_TRUE(queue_.AddAt(*key, *result.again).ok());
    }
  }
  ADD_FAILURE() << "the loop does not come to rest";
}

}  // namespace janus::control
