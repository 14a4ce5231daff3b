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

// Plans services from their workers' answers: which model they have, whatever its source, and which
// resources a pod of their role has. It asks one worker of each role, once per pod revision. If a
// worker does not answer, it asks another, and the first again after a pause.
//
// It refuses a service only by answers of workers with the wanted revision. Answers of other
// workers (an older image, other limits) may still give a plan, so that a running service
// continues. If they make the plan impossible, it waits for new workers.
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

  // Pause before a worker that did not answer is asked again.
  static constexpr Seconds kPause{2};
  // Number of revisions remembered per role.
  static constexpr size_t kMostAnswers = 4;

  // A worker's answer.
  struct Answer {
    std::string revision;
    std::string digest;
    std::string text_digest;
    Result<ModelDescription> model;
    ProcessRoom room;
    DeviceReport device = {};
  };
  // Newest first, one per revision, at most kMostAnswers.
  using Answers = std::vector<std::shared_ptr<const Answer>>;

 private:
  // Knowledge of a role.
  struct RoleKnown {
    Answers answers;
    WorkerToAsk asked;  // the worker of `question`
    std::unique_ptr<ModelQuestion> question;
    std::map<std::string, MonotonicTime> silent;  // by address: time without an answer
    Status trouble;  // of the last worker that did not answer, with its name
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
