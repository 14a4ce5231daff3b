#pragma once

#include <string>
#include <vector>

#include "common/status.h"

namespace janus::dataplane {

inline constexpr int kMostSupervised = 8;

// What the supervisor of a pod's instances does, from the flags of janus-worker.
struct Supervision {
  int instances = 0;                      // k, 1 to kMostSupervised; 0: no supervision
  std::string run_folder = "/run/janus";  // for the sockets of the instances' pages
  std::string listen;                     // --listen
  bool has_gpus = false;                  // --device cuda
};

// The process of one instance.
struct ChildCommand {
  std::vector<std::string> arguments;    // the program's name first
  std::vector<std::string> environment;  // "NAME=value"
  std::string pages;                     // path of the Unix socket of its pages
};

// The command of instance `index`, from the supervisor's own arguments and environment. What names
// a place differs from instance to instance:
//   --listen             its port, the number after the last colon, grows by 10 per index
//   --metrics            a socket in the run folder
//   UCX_TCP_PORT_RANGE   a range "a-b" moves by 32 per index; other values stay
//   CUDA_VISIBLE_DEVICES the GPUs in the order in which its own, the index-th one, comes first. All
//                        stay visible, because instances of a pod read each other's memory.
// InvalidArgument names the flag or the variable: no port at the end of --listen, a port above
// 65535, fewer GPUs than instances in CUDA_VISIBLE_DEVICES, a run folder with too long a path.
Result<ChildCommand> CommandOf(int index, const Supervision& supervision,
                               const std::vector<std::string>& arguments,
                               const std::vector<std::string>& environment);

}  // namespace janus::dataplane
