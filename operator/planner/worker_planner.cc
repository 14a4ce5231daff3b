#include "operator/planner/worker_planner.h"

#include <algorithm>
#include <utility>

#include "common/model/config.h"

namespace janus::control {
namespace {

// Of the question that comes next: those that do not answer stand behind the others.
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

}  // namespace

const WorkerPlanner::Answer* WorkerPlanner::RoleKnown::Best() const {
  if (IsKnown(revision)) {
    return &*std::find_if(answers.begin(), answers.end(),
                          [&](const Answer& one) { return one.revision == revision; });
  }
  return answers.empty() ? nullptr : &answers.front();
}

bool WorkerPlanner::RoleKnown::IsKnown(const std::string& of) const {
  return std::any_of(answers.begin(), answers.end(),
                     [&](const Answer& one) { return one.revision == of; });
}

std::optional<ProcessRoom> WorkerPlanner::RoleKnown::Room(bool new_only) const {
  const Answer* const best = Best();
  if (best == nullptr || (new_only && !IsNew())) return std::nullopt;
  return best->room;
}

// The answer of a question that has ended.
void WorkerPlanner::Take(RoleKnown& role, MonotonicTime now, Over& over) {
  if (role.question == nullptr || !role.question->done()) return;
  const Result<ModelReport> report = role.question->result();
  over.push_back(std::move(role.question));
  if (!report.ok()) {
    role.silent[role.asked.address] = now;
    role.trouble = role.asked.name + ": " + report.status().message();
    return;
  }
  role.silent.clear();
  role.trouble.clear();
  Result<ModelDescription> model = ParseModelConfig(report->config_json);
  if (!model.ok()) {
    model = std::move(model).status().Annotate("the model's config.json, as " + role.asked.name +
                                               " has it");
  }
  std::erase_if(role.answers,
                [&](const Answer& one) { return one.revision == role.asked.revision; });
  role.answers.insert(role.answers.begin(), {role.asked.revision, report->digest,
                                             report->text_digest, std::move(model), report->room});
  if (role.answers.size() > kMostAnswers) role.answers.pop_back();
}

void WorkerPlanner::AskOne(const std::string& service_uid, Role role, const WorkersToAsk& workers,
                           RoleKnown& known, Over& over) {
  const auto is_there = [&](const std::string& address) {
    return std::any_of(workers.workers.begin(), workers.workers.end(), [&](const WorkerToAsk& one) {
      return one.role == role && one.address == address;
    });
  };
  Take(known, workers.now, over);
  std::erase_if(known.silent, [&](const auto& one) { return !is_there(one.first); });
  if (known.question != nullptr) {
    if (is_there(known.asked.address) && !known.IsKnown(known.asked.revision)) return;
    over.push_back(std::move(known.question));
  }
  if (known.IsNew()) return;
  const WorkerToAsk* const next =
      ChooseWorker(workers, role, known.revision, known.answers.empty(), known.silent);
  if (next == nullptr) return;
  known.asked = *next;
  known.question = questions_.Ask(service_uid, next->address, workers.wake);
}

void WorkerPlanner::Look(const std::string& service_uid, const WorkersToAsk& workers) {
  Over over;  // cancelled outside the lock
  const MutexLock lock(mu_);
  Known& known = known_[service_uid];
  known.attention.revision = workers.attention_revision;
  known.experts.revision = workers.experts_revision;
  for (RoleKnown* const its : {&known.attention, &known.experts}) {
    const Role role = its == &known.attention ? Role::kAttention : Role::kExperts;
    its->has_workers = std::any_of(
        workers.workers.begin(), workers.workers.end(),
        [&](const WorkerToAsk& one) { return one.role == role && one.revision == its->revision; });
    AskOne(service_uid, role, workers, *its, over);
  }
}

void WorkerPlanner::Forget(const std::string& service_uid) {
  Known gone;
  const MutexLock lock(mu_);
  const auto found = known_.find(service_uid);
  if (found == known_.end()) return;
  gone = std::move(found->second);
  known_.erase(found);
}

Result<PlannedService> WorkerPlanner::Plan(const MoEService& service) {
  const MutexLock lock(mu_);
  const Known& known = known_[service.metadata.uid];
  const RoleKnown& attention = known.attention;
  const RoleKnown& experts = known.experts;
  const auto awaited = [](const RoleKnown& role) {
    if (!role.trouble.empty()) return role.trouble;
    if (role.question != nullptr) return role.asked.name + " is being asked";
    return std::string();
  };
  // Of those that are as wanted, attention first; else of any.
  const RoleKnown* said = nullptr;
  for (const RoleKnown* role : {&attention, &experts}) {
    if (role->Best() == nullptr) continue;
    if (said == nullptr || (role->IsNew() && !said->IsNew())) said = role;
  }
  if (said == nullptr) {
    std::string why = awaited(attention);
    if (why.empty()) why = awaited(experts);
    if (why.empty()) why = "its first worker is awaited, which says it";
    return Unavailable("what the model needs is not known yet: " + why);
  }
  const auto until_asked = [&](const Status& refused) {
    return Unavailable(
        "a worker as the spec wants it now is awaited; by what the older ones say, " +
        refused.message());
  };
  const Answer& answer = *said->Best();
  if (!answer.model.ok()) {
    return said->IsNew() ? answer.model.status() : until_asked(answer.model.status());
  }
  PlannedService out;
  out.model = *answer.model;
  out.model_digest = answer.digest;
  out.text_digest = answer.text_digest;
  Result<ServicePlan> plan =
      PlanServiceInPods(service, out.model, {attention.Room(false), experts.Room(false)});
  if (plan.status().code() == StatusCode::kResourceExhausted) {
    plan = PlanServiceInPods(service, out.model, {attention.Room(true), experts.Room(true)});
  }
  if (!plan.ok()) return said->IsNew() ? plan.status() : until_asked(plan.status());
  out.plan = *std::move(plan);
  for (const RoleKnown* role : {&attention, &experts}) {
    if (!role->has_workers || role->IsNew() || !out.awaited.empty()) continue;
    out.awaited = "what room there is is not known yet: " + awaited(*role);
  }
  return out;
}

}  // namespace janus::control
