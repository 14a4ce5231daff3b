#include "tests/support/reconcile/fence_book.h"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <utility>

#include "common/check.h"
#include "common/fd.h"

namespace janus::control {

FenceBook::FenceBook(const std::string& file, std::string who)
    : file_(file), who_(std::move(who)) {}

bool FenceBook::Take(const std::string& verb, const MemberOrder& order) {
  // A new descriptor each time: flock locks belong to a descriptor, so this also excludes threads.
  const Fd locked(open(file_.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
  JANUS_CHECK(locked.get() >= 0 && flock(locked.get(), LOCK_EX) == 0, file_);
  int64_t highest = 0;
  std::ifstream lines(file_);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string service, its_verb;
    int64_t fence = 0;
    words >> service >> its_verb >> fence;
    if (service == order.service.ToString()) highest = std::max(highest, fence);
  }
  const bool is_taken = order.fence >= highest;
  std::ofstream(file_, std::ios::app)
      << order.service.ToString() << ' ' << verb << ' ' << order.fence << ' ' << order.epoch << ' '
      << order.members.size() << ' ' << who_ << (is_taken ? " taken" : " refused") << std::endl;
  return is_taken;
}

}  // namespace janus::control
