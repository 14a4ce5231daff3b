#include "operator/planner/worker_planner.h"

#include <algorithm>
#include <array>
#include <utility>

#include "common/model/config.h"

namespace janus::control {
namespace {

// The worker for the next question; workers that did not answer come last.
const WorkerToAsk* ChooseWorker(const WorkersToAsk& all, Role role, const std::string& revision,
                                bool any_revision,
                                const std::map<std::string, MonotonicTime>& silent) {
  const WorkerToAsk* chosen = nullptr;
  for (const WorkerToAsk& one : all.workers) {
    if (one.role != role || (one.revision != revision && !any_revision)) continue;
    const auto failed = silent.find(one.address);
    if (failed != silent.end() &&
        all.now < failed->second +
                      std::chrono::duration_cast<MonotonicTime::duration>(WorkerPlanner::kPause)) {
      continue;
    }
    const bool is_new = one.revision == revision;
    if (chosen == nullptr || (is_new && chosen->revision != revision)) chosen = &one;
  }
  return chosen;
}

using Answer = WorkerPlanner::Answer;
using Answers = WorkerPlanner::Answers;

// The answer of that revision; null: none.
const Answer* AnswerOf(const Answers& answers, const std::string& revision) {
  const auto found = std::find_if(answers.begin(), answers.end(),
                                  [&](const auto& one) { return one->revision == revision; });
  return found == answers.end() ? nullptr : found->get();
}

// What is known of a role, and which workers can be asked.
struct RoleWord {
  Answers answers;
  std::string awaited;  // why more is not known: a worker is being asked, or did not answer
  Status unreadable;    // NotFound: a worker has no model at its path

  // The answer of `revision`, or else the newest; null: none.
  const Answer* Best(const std::string& revision) const {
    const Answer* const found = AnswerOf(answers, revision);
    return found != nullptr || answers.empty() ? found : answers.front().get();
  }
  bool IsNew(const std::string& revision) const { return AnswerOf(answers, revision) != nullptr; }
  std::optional<ProcessRoom> Room(const std::string& revision, bool new_only) const {
    const Answer* const best = Best(revision);
    if (best == nullptr || (new_only && !IsNew(revision))) return std::nullopt;
    return best->room;
  }
  std::optional<DeviceReport> Device(const std::string& revision) const {
    const Answer* const best = Best(revision);
    if (best == nullptr) return std::nullopt;
    return best->device;
  }
};

class WorkerKnowledge final : public ModelKnowledge {
 public:
  WorkerKnowledge(RoleWord attention, RoleWord experts)
      : attention_(std::move(attention)), experts_(std::move(experts)) {}

  Result<PlannedService> Plan(const MoEService& service,
                              const WorkersToAsk& workers) const override;
  RoleDevices Devices(const WorkersToAsk& workers) const override {
    return {attention_.Device(workers.attention_revision),
            experts_.Device(workers.experts_revision)};
  }

 private:
  const RoleWord attention_;
  const RoleWord experts_;
};

Result<PlannedService> WorkerKnowledge::Plan(const MoEService& service,
                                             const WorkersToAsk& workers) const {
  struct Said {
    const RoleWord& word;
    const std::string& revision;
    Role role;
    bool IsNew() const { return word.IsNew(revision); }
  };
  const std::array<Said, 2> roles = {{{attention_, workers.attention_revision, Role::kAttention},
                                      {experts_, workers.experts_revision, Role::kExperts}}};
  // Prefer answers of the wanted revision, attention first; otherwise any.
  const Said* said = nullptr;
  for (const Said& role : roles) {
    if (role.word.Best(role.revision) == nullptr) continue;
    if (said == nullptr || (role.IsNew() && !said->IsNew())) said = &role;
  }
  if (said == nullptr) {
    for (const RoleWord* word : {&attention_, &experts_}) {
      if (!word->unreadable.ok()) return word->unreadable;
    }
    std::string why = attention_.awaited;
    if (why.empty()) why = experts_.awaited;
    if (why.empty()) why = "waiting for the first worker to start and report the model";
    return Unavailable("the needs of the model are not known yet: " + why);
  }
  const auto until_asked = [&](const Status& refused) {
    return Unavailable("waiting for a worker of the newest revision; older ones report: " +
                       refused.message());
  };
  const Answer& answer = *said->word.Best(said->revision);
  if (!answer.model.ok()) {
    return said->IsNew() ? answer.model.status() : until_asked(answer.model.status());
  }
  PlannedService out;
  out.model = *answer.model;
  out.model_digest = answer.digest;
  out.text_digest = answer.text_digest;
  out.devices = Devices(workers);
  const auto rooms = [&](bool new_only) {
    return PodRooms{attention_.Room(workers.attention_revision, new_only),
                    experts_.Room(workers.experts_revision, new_only),
                    experts_.IsNew(workers.experts_revision)};
  };
  Result<ServicePlan> plan = PlanServiceInPods(service, out.model, rooms(false));
  if (plan.status().code() == StatusCode::kResourceExhausted) {
    plan = PlanServiceInPods(service, out.model, rooms(true));
  }
  if (!plan.ok()) return said->IsNew() ? plan.status() : until_asked(plan.status());
  out.plan = *std::move(plan);
  for (const Said& role : roles) {
    const bool has_workers =
        std::any_of(workers.workers.begin(), workers.workers.end(), [&](const WorkerToAsk& one) {
          return one.role == role.role && one.revision == role.revision;
        });
    if (!has_workers || role.IsNew() || !out.awaited.empty()) continue;
    out.awaited = "the memory for the model is not known yet: " + role.word.awaited;
  }
  return out;
}

}  // namespace

// Takes the answer of a finished question. True: there was one.
bool WorkerPlanner::Take(RoleKnown& role, MonotonicTime now, Over& over) {
  if (role.question == nullptr || !role.question->done()) return false;
  const Result<ModelReport> report = role.question->result();
  over.push_back(std::move(role.question));
  if (!report.ok()) {
    role.silent[role.asked.address] = now;
    role.trouble =
        Status(report.status().code(), role.asked.name + ": " + report.status().message());
    return true;
  }
  role.silent.clear();
  role.trouble = OkStatus();
  Result<ModelDescription> model = ParseModelConfig(report->config_json);
  if (!model.ok()) {
    model = std::move(model).status().Annotate("the model's config.json, as " + role.asked.name +
                                               " has it");
  }
  std::erase_if(role.answers,
                [&](const auto& one) { return one->revision == role.asked.revision; });
  role.answers.insert(role.answers.begin(),
                      std::make_shared<const Answer>(Answer{role.asked.revision, report->digest,
                                                            report->text_digest, std::move(model),
                                                            report->room, report->device}));
  if (role.answers.size() > kMostAnswers) role.answers.pop_back();
  return true;
}

bool WorkerPlanner::AskOne(const std::string& service_uid, Role role, const std::string& revision,
                           const WorkersToAsk& workers, RoleKnown& known, Over& over) {
  const auto is_there = [&](const std::string& address) {
    return std::any_of(workers.workers.begin(), workers.workers.end(), [&](const WorkerToAsk& one) {
      return one.role == role && one.address == address;
    });
  };
  bool has_changed = Take(known, workers.now, over);
  std::erase_if(known.silent, [&](const auto& one) { return !is_there(one.first); });
  if (known.question != nullptr) {
    const bool is_known = AnswerOf(known.answers, known.asked.revision) != nullptr;
    if (is_there(known.asked.address) && !is_known) return has_changed;
    over.push_back(std::move(known.question));
    has_changed = true;
  }
  if (AnswerOf(known.answers, revision) != nullptr) return has_changed;
  const WorkerToAsk* const next =
      ChooseWorker(workers, role, revision, known.answers.empty(), known.silent);
  if (next == nullptr) return has_changed;
  known.asked = *next;
  known.question = questions_.Ask(service_uid, next->address, workers.wake);
  return true;
}

std::shared_ptr<const ModelKnowledge> WorkerPlanner::Know(const std::string& service_uid,
                                                          const std::vector<std::string>&,
                                                          MonotonicTime now) {
  Over over;  // destroyed without the lock
  const MutexLock lock(mu_);
  const auto found = known_.find(service_uid);
  if (found == known_.end()) return std::make_shared<WorkerKnowledge>(RoleWord(), RoleWord());
  const auto word = [&](RoleKnown& role) {
    Take(role, now, over);
    RoleWord out{role.answers, role.trouble.message(), {}};
    if (role.trouble.code() == StatusCode::kNotFound) out.unreadable = role.trouble;
    if (out.awaited.empty() && role.question != nullptr) {
      out.awaited = "waiting for " + role.asked.name + " to report its model and memory";
    }
    return out;
  };
  RoleWord attention = word(found->second.attention);
  return std::make_shared<WorkerKnowledge>(std::move(attention), word(found->second.experts));
}

bool WorkerPlanner::Ask(const std::string& service_uid, const WorkersToAsk& workers) {
  Over over;  // cancelled without the lock
  const MutexLock lock(mu_);
  Known& known = known_[service_uid];
  const bool attention = AskOne(service_uid, Role::kAttention, workers.attention_revision, workers,
                                known.attention, over);
  const bool experts =
      AskOne(service_uid, Role::kExperts, workers.experts_revision, workers, known.experts, over);
  return attention || experts;
}

void WorkerPlanner::Forget(const std::string& service_uid) {
  Known gone;
  const MutexLock lock(mu_);
  const auto found = known_.find(service_uid);
  if (found == known_.end()) return;
  gone = std::move(found->second);
  known_.erase(found);
}

}  // namespace janus::control
