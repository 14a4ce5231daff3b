// A copy follows a resource although lists and watches fail.

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "operator/api/json.h"
#include "operator/kube/reflector.h"
#include "operator/local/store/store_client.h"
#include "tests/support/kube/fault_sweep.h"
#include "tests/support/kube/simulated_timeline.h"
#include "tests/support/kube/without_streams.h"

namespace janus::control {
namespace {

const Resource kConfigMaps{"", "v1", "configmaps", "ConfigMap", true};
const CallLimits kLimits;

LocalStoreOptions Forgetful() {
  LocalStoreOptions options;
  options.limits.max_changes = 5;  // a watch that stays away misses more than this
  return options;
}

// Starts with five objects, listed two at a time or streamed. Then ten changes, two seconds apart:
// create, change, delete, recreate under the same name.
class Following {
 public:
  // `streams`: lists are streamed; otherwise paged.
  Following(std::vector<FaultPlan> plans, bool streams)
      : api_(streams ? static_cast<ObjectApi&>(client_) : pages_, std::move(plans), timeline_),
        reflector_(
            api_, kConfigMaps, Options(), copy_, [this](const Delta& delta) { Hear(delta); },
            timeline_) {
    for (const char* const name : {"a", "b", "c", "d", "e"}) Write(name, "0");
    double at = 1;
    for (const char* const name : {"a", "f", "-b", "b", "a", "-f", "f", "c", "-a", "a"}) {
      timeline_.In(Seconds(at), [this, name] {
        if (name[0] == '-') {
          EXPECT_TRUE(client_.Delete(kConfigMaps, {"default", name + 1}, {}, kLimits).ok());
        } else {
          Write(name, std::to_string(++written_));
        }
      });
      at += 2;
    }
    timeline_.In(Seconds(400), [this] { api_.Heal(); });
    timeline_.In(Seconds(800), [this] { stop_.request_stop(); });
  }

  void Play() {
    reflector_.Run(stop_.get_token());
    EXPECT_TRUE(reflector_.HasSynced());
    std::map<std::string, std::string> there;
    std::map<std::string, std::string> copied;
    const ApiResult<ObjectList> list = client_.List(kConfigMaps, {}, kLimits);
    for (const Node& item : list->items) {
      there[KeyOf(item).name] = TextAt(item, {"data", "key"});
    }
    for (const ObjectKey& key : copy_.Keys()) {
      copied[key.name] = TextAt(*copy_.Get(key), {"data", "key"});
    }
    EXPECT_EQ(copied, there);
    EXPECT_EQ(heard_, there);
  }
  CallCounts counts() const { return api_.counts(); }

 private:
  static ReflectorOptions Options() {
    ReflectorOptions options;
    options.page_size = 2;
    options.seed = SweepSeed();
    return options;
  }
  void Write(const std::string& name, const std::string& value) {
    const Node object =
        *ParseJson(R"({"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":")" + name +
                       R"(","namespace":"default"},"data":{"key":")" + value + R"("}})",
                   "test");
    if (client_.Create(kConfigMaps, object, {}, kLimits).ok()) return;
    EXPECT_TRUE(client_.Update(kConfigMaps, object, Subresource::kNone, {}, kLimits).ok());
  }
  // An added object exists until it is deleted, and did not exist before.
  void Hear(const Delta& delta) {
    const bool was_there = heard_.contains(delta.key.name);
    EXPECT_EQ(was_there, delta.type != DeltaType::kAdded) << delta.key.name;
    if (delta.type == DeltaType::kDeleted) {
      heard_.erase(delta.key.name);
    } else {
      heard_[delta.key.name] = TextAt(*delta.after, {"data", "key"});
    }
  }

  SimulatedTimeline timeline_;
  LocalStore store_{Forgetful(), timeline_};
  StoreClient client_{store_, "janus-operator"};
  WithoutStreams pages_{client_};
  FaultyApi api_;
  ObjectStore copy_{{}};
  std::map<std::string, std::string> heard_;
  int written_ = 0;
  std::stop_source stop_;
  Reflector reflector_;
};

class ReflectorFaults : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Lists, ReflectorFaults, testing::Bool(),
                         [](const auto& info) { return info.param ? "Streamed" : "InPages"; });

TEST_P(ReflectorFaults, TheCopyIsTheServersInTheEndWhateverCallsFail) {
  std::vector<Fault> faults = CallFaults();
  faults.insert(faults.end(), WatchFaults().begin(), WatchFaults().end());
  SweepFaults("reflector", faults, [](std::vector<FaultPlan> plans) {
    Following following(std::move(plans), GetParam());
    following.Play();
    return following.counts();
  });
}

}  // namespace
}  // namespace janus::control
