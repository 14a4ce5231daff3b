#include "dataplane/worker/prepare_board.h"

#include <algorithm>
#include <utility>

namespace janus::dataplane {
namespace {

constexpr size_t kMostNames = 4;  // names in a summary

}  // namespace

PrepareBoard::PrepareBoard(std::vector<std::string> names, MonotonicTime now) {
  for (std::string& name : names) {
    Member member;
    member.name = std::move(name);
    member.heard = now;
    members_.push_back(std::move(member));
  }
}

void PrepareBoard::Heard(size_t member, const v1::PrepareProgress& progress, MonotonicTime now) {
  Member& one = members_[member];
  one.heard = now;
  if (!progress.phase().empty()) one.phase = progress.phase();
  // Only the phase that moves bytes reports them. Later phases keep its figures.
  if (progress.bytes_total() > 0) {
    one.bytes_done = progress.bytes_done();
    one.bytes_total = progress.bytes_total();
  }
}

void PrepareBoard::Ended(size_t member, Status status, bool cancelled) {
  Member& one = members_[member];
  ++ended_;
  one.cancelled = cancelled;
  if (status.ok()) one.bytes_done = one.bytes_total;
  failed_ = failed_ || !status.ok();
  one.ended = std::move(status);
}

v1::PrepareProgress PrepareBoard::Summary() const {
  v1::PrepareProgress sum;
  bool all_known = true;
  std::vector<const Member*> waiting;
  for (const Member& one : members_) {
    all_known = all_known && (!one.phase.empty() || one.ended);
    sum.set_bytes_done(sum.bytes_done() + one.bytes_done);
    sum.set_bytes_total(sum.bytes_total() + one.bytes_total);
    // While one member still loads weights, the summary's phase is "weights".
    if (sum.phase().empty() || (!one.ended && one.phase == "weights")) sum.set_phase(one.phase);
    if (!one.ended) waiting.push_back(&one);
  }
  if (!all_known) {
    sum.set_bytes_done(0);
    sum.set_bytes_total(0);
  }
  std::stable_sort(waiting.begin(), waiting.end(),
                   [](const Member* a, const Member* b) { return a->heard < b->heard; });
  if (waiting.size() > kMostNames) waiting.resize(kMostNames);
  for (const Member* const one : waiting) {
    sum.add_waiting_for(one->name + (one->phase.empty() ? "" : " (" + one->phase + ")"));
  }
  return sum;
}

std::vector<v1::MemberFailure> PrepareBoard::Failures() const {
  std::vector<v1::MemberFailure> out;
  for (const bool lost : {false, true}) {
    for (const Member& one : members_) {
      if (!one.ended || one.ended->ok() || one.cancelled) continue;
      if ((one.ended->code() == StatusCode::kUnavailable) != lost) continue;
      out.push_back(FailureOf(one.name, *one.ended));
    }
  }
  return out;
}

v1::MemberFailure FailureOf(const std::string& name, const Status& status) {
  v1::MemberFailure failure;
  failure.set_name(name);
  failure.set_code(static_cast<uint32_t>(status.code()));
  failure.set_message(status.message());
  return failure;
}

}  // namespace janus::dataplane
