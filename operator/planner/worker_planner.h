#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/mutex.h"
#include "operator/planner/model_questions.h"
#include "operator/reconcile/capacity/service_planner.h"

namespace janus::control {

// Plans services by what their workers say: of what model they are, whatever its source, and what
// room a pod of their role has. One worker of each role is asked, once for each revision of its
// pods; who does not answer is asked again after a pause, another one before.
//
// A refusal rests on the word of workers that are as the spec wants them now. On the word of others
// (an older image, other limits) a service may still be planned, so that what serves goes on; but
// what they make impossible waits for the new ones.
//
// Thread-safe.
class WorkerPlanner final : public ServicePlanner {
 public:
  // `questions` outlives this.
  explicit WorkerPlanner(ModelQuestions& questions) : questions_(questions) {}

  std::shared_ptr<const ModelKnowledge> Know(const std::string& service_uid,
                                             const std::vector<std::string>& folders,
                                             MonotonicTime now) override;
  bool Ask(const std::string& service_uid, const WorkersToAsk& workers) override;
  void Forget(const std::string& service_uid) override;

  // Who was asked and did not answer is asked again after this.
  static constexpr Seconds kPause{2};
  // So many revisions of a role are remembered.
  static constexpr size_t kMostAnswers = 4;

  // What a worker has said.
  struct Answer {
    std::string revision;
    std::string digest;
    std::string text_digest;
    Result<ModelDescription> model;
    ProcessRoom room;
    DeviceReport device = {};
  };
  // Newest first, each of another revision, kMostAnswers at most.
  using Answers = std::vector<std::shared_ptr<const Answer>>;

 private:
  // What is known of a role.
  struct RoleKnown {
    Answers answers;
    WorkerToAsk asked;  // with `question`
    std::unique_ptr<ModelQuestion> question;
    std::map<std::string, MonotonicTime> silent;  // by address: when it did not answer
    std::string trouble;                          // of the worker that did not answer last
  };
  struct Known {
    RoleKnown attention;
    RoleKnown experts;
  };
  using Over = std::vector<std::unique_ptr<ModelQuestion>>;

  static bool Take(RoleKnown& role, MonotonicTime now, Over& over);
  bool AskOne(const std::string& service_uid, Role role, const std::string& revision,
              const WorkersToAsk& workers, RoleKnown& known, Over& over) JANUS_REQUIRES(mu_);

  ModelQuestions& questions_;
  Mutex mu_;
  std::map<std::string, Known> known_ JANUS_GUARDED_BY(mu_);  // by uid
};

}  // namespace janus::control
