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

  Result<PlannedService> Plan(const MoEService& service) override;
  void Look(const std::string& service_uid, const WorkersToAsk& workers) override;
  void Forget(const std::string& service_uid) override;

  // Who was asked and did not answer is asked again after this.
  static constexpr Seconds kPause{2};
  // So many revisions of a role are remembered.
  static constexpr size_t kMostAnswers = 4;

 private:
  struct Answer {
    std::string revision;
    std::string digest;
    std::string text_digest;
    Result<ModelDescription> model;
    ProcessRoom room;
  };
  // What is known of a role.
  struct RoleKnown {
    std::string revision;  // that is wanted
    bool has_workers = false;
    std::vector<Answer> answers;  // newest first, each of another revision, kMostAnswers at most
    WorkerToAsk asked;            // with `question`
    std::unique_ptr<ModelQuestion> question;
    std::map<std::string, MonotonicTime> silent;  // by address: when it did not answer
    std::string trouble;                          // of who did not answer last

    // Of `revision`, else the newest; null: there is none.
    const Answer* Best() const;
    bool IsKnown(const std::string& of) const;
    bool IsNew() const { return IsKnown(revision); }
    std::optional<ProcessRoom> Room(bool new_only) const;
  };
  struct Known {
    RoleKnown attention;
    RoleKnown experts;
  };
  using Over = std::vector<std::unique_ptr<ModelQuestion>>;

  static void Take(RoleKnown& role, MonotonicTime now, Over& over);
  void AskOne(const std::string& service_uid, Role role, const WorkersToAsk& workers,
              RoleKnown& known, Over& over) JANUS_REQUIRES(mu_);

  ModelQuestions& questions_;
  Mutex mu_;
  std::map<std::string, Known> known_ JANUS_GUARDED_BY(mu_);  // by uid
};

}  // namespace janus::control
