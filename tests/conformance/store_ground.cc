// This process' store, in real time: informers wait in threads beside the writers.

#include "operator/local/store/store_client.h"
#include "tests/conformance/ground.h"

namespace janus::control {
namespace {

class StoreGround final : public Ground {
 public:
  ObjectApi& api() override { return client_; }
  ObjectApi& other_api() override { return other_; }
  std::string ns() const override { return "default"; }

 private:
  SystemTimeline timeline_;
  LocalStore store_{{}, timeline_};
  StoreClient client_{store_, "janus-operator"};
  StoreClient other_{store_, "somebody-else"};
};

}  // namespace

std::unique_ptr<Ground> MakeGround() {
  return std::make_unique<StoreGround>();
}

}  // namespace janus::control
