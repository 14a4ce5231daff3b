#pragma once

#include <stop_token>
#include <string>

#include "common/fd.h"
#include "common/function_ref.h"
#include "common/status.h"

namespace janus::hub {

// A lock between processes and threads, as huggingface_hub takes it: flock on a file, which stays.
// Released when destroyed. Confined to one thread.
class FileLock {
 public:
  // Waits until no other holds it; calls `waits` once before it waits. Cancelled: by `stop`.
  // FailedPrecondition: the file cannot be made.
  static Result<FileLock> Take(const std::string& path, FunctionRef<void()> waits,
                               const std::stop_token& stop);

 private:
  explicit FileLock(Fd fd) : fd_(std::move(fd)) {}
  Fd fd_;
};

}  // namespace janus::hub
