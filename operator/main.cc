#include <memory>
#include <string>
#include <utility>

#include "operator/program/run_operator.h"

namespace janus::control {
namespace {

// Fails at once, and says why: services get their pods and all that belongs to them, and no
// topology.
class NotCalled final : public MemberCall {
 public:
  explicit NotCalled(MonotonicTime now) : began_(now) {}
  bool done() const override { return true; }
  Status result() const override {
    return Unimplemented("this build of janus-operator does not call workers");
  }
  MonotonicTime last_heard() const override { return began_; }

 private:
  const MonotonicTime began_;
};

class NoMemberCalls final : public MemberCalls {
 public:
  explicit NoMemberCalls(const Clock& clock) : clock_(clock) {}
  std::unique_ptr<MemberCall> Prepare(const MemberOrder&, const Topology&, const ServicePlan&,
                                      Wake) override {
    return std::make_unique<NotCalled>(clock_.Now());
  }
  std::unique_ptr<MemberCall> Commit(const MemberOrder&, Wake) override {
    return std::make_unique<NotCalled>(clock_.Now());
  }
  std::unique_ptr<MemberCall> Abort(const MemberOrder&, Wake) override {
    return std::make_unique<NotCalled>(clock_.Now());
  }

 private:
  const Clock& clock_;
};

}  // namespace
}  // namespace janus::control

int main(int argc, char** argv) {
  using namespace janus::control;
  return RunOperator(argc, argv, [](const Timeline& timeline) {
    return std::make_unique<NoMemberCalls>(timeline);
  });
}
