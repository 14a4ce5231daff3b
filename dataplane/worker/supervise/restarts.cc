#include "dataplane/worker/supervise/restarts.h"

namespace janus::dataplane {

bool Restarts::Ended(int index, MonotonicTime now) {
  ends_.push_back(now);
  while (now - ends_.front() > kWithin) ends_.pop_front();
  if (ends_.size() >= kMostEnds) return false;
  ++restarts_[static_cast<size_t>(index)];
  return true;
}

bool Silences::Asked(int index, bool has_answered) {
  int& silent = silent_[static_cast<size_t>(index)];
  silent = has_answered ? 0 : silent + 1;
  return silent >= kMost;
}

}  // namespace janus::dataplane
