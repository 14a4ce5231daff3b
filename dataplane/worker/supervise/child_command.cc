#include "dataplane/worker/supervise/child_command.h"

#include <sys/un.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

namespace janus::dataplane {
namespace {

constexpr int kPortsApart = 10;
constexpr int kUcxPortsApart = 32;
constexpr int kMostPort = 65535;
// More than a machine has: CUDA ignores what follows the last GPU that exists.
constexpr int kMostGpus = 16;
constexpr std::string_view kUcxPorts = "UCX_TCP_PORT_RANGE=";
constexpr std::string_view kGpus = "CUDA_VISIBLE_DEVICES=";

std::optional<int> PortIn(std::string_view text) {
  int port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc() || end != text.data() + text.size() || port < 0 || port > kMostPort) {
    return std::nullopt;
  }
  return port;
}

Result<std::string> MovedListen(const std::string& listen, int by) {
  const size_t colon = listen.rfind(':');
  const std::optional<int> port = colon == std::string::npos
                                      ? std::nullopt
                                      : PortIn(std::string_view(listen).substr(colon + 1));
  if (!port || *port + by > kMostPort) {
    return InvalidArgument("--listen '" + listen +
                           "': with --supervise the address ends in :PORT, and every instance has "
                           "its own port, 10 above the one before");
  }
  return listen.substr(0, colon + 1) + std::to_string(*port + by);
}

Result<std::string> MovedRange(const std::string& range, int by) {
  const size_t dash = range.find('-');
  if (dash == std::string::npos) return range;
  const std::optional<int> first = PortIn(std::string_view(range).substr(0, dash));
  const std::optional<int> last = PortIn(std::string_view(range).substr(dash + 1));
  if (!first || !last || *last + by > kMostPort) {
    return InvalidArgument(std::string(kUcxPorts) + range +
                           ": want FIRST-LAST, and 32 more ports for every further instance");
  }
  return std::to_string(*first + by) + "-" + std::to_string(*last + by);
}

// `visible`: a list of GPUs; absent: all.
Result<std::string> OwnGpuFirst(const std::optional<std::string>& visible, int index) {
  std::vector<std::string> gpus;
  if (visible) {
    for (size_t at = 0; at <= visible->size();) {
      const size_t comma = std::min(visible->find(',', at), visible->size());
      gpus.push_back(visible->substr(at, comma - at));
      at = comma + 1;
    }
    if (static_cast<size_t>(index) >= gpus.size()) {
      return InvalidArgument(std::string(kGpus) + *visible +
                             ": --supervise needs a GPU for every instance");
    }
  } else {
    for (int gpu = 0; gpu < kMostGpus; ++gpu) gpus.push_back(std::to_string(gpu));
  }
  std::string out = gpus[static_cast<size_t>(index)];
  gpus.erase(gpus.begin() + index);
  for (const std::string& other : gpus) out += "," + other;
  return out;
}

// Without the flags that the supervisor sets.
std::vector<std::string> KeptOf(const std::vector<std::string>& arguments) {
  std::vector<std::string> kept;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& one = arguments[i];
    const bool is_ours =
        std::ranges::any_of(std::initializer_list<std::string_view>{"--supervise", "--run-folder",
                                                                    "--listen", "--metrics"},
                            [&](std::string_view flag) {
                              if (one == flag) ++i;  // and its value
                              return one.substr(0, one.find('=')) == flag;
                            });
    if (!is_ours) kept.push_back(one);
  }
  return kept;
}

}  // namespace

Result<ChildCommand> CommandOf(int index, const Supervision& supervision,
                               const std::vector<std::string>& arguments,
                               const std::vector<std::string>& environment) {
  ChildCommand out;
  out.pages = supervision.run_folder + "/pages-" + std::to_string(index);
  if (out.pages.size() >= sizeof(sockaddr_un::sun_path)) {
    return InvalidArgument("--run-folder " + supervision.run_folder +
                           ": its path is too long for a socket; want at most " +
                           std::to_string(sizeof(sockaddr_un::sun_path) - sizeof "/pages-0") +
                           " bytes");
  }
  JANUS_ASSIGN_OR_RETURN(const std::string listen,
                         MovedListen(supervision.listen, index * kPortsApart));
  out.arguments = KeptOf(arguments);
  out.arguments.push_back("--listen=" + listen);
  out.arguments.push_back("--metrics=unix:" + out.pages);
  out.arguments.push_back("--instance=" + std::to_string(index));
  out.arguments.push_back("--instances=" + std::to_string(supervision.instances));
  std::optional<std::string> visible;
  for (const std::string& variable : environment) {
    if (variable.starts_with(kUcxPorts)) {
      JANUS_ASSIGN_OR_RETURN(const std::string range,
                             MovedRange(variable.substr(kUcxPorts.size()), index * kUcxPortsApart));
      out.environment.push_back(std::string(kUcxPorts) + range);
    } else if (supervision.has_gpus && variable.starts_with(kGpus)) {
      visible = variable.substr(kGpus.size());
    } else {
      out.environment.push_back(variable);
    }
  }
  if (supervision.has_gpus) {
    JANUS_ASSIGN_OR_RETURN(const std::string gpus, OwnGpuFirst(visible, index));
    out.environment.push_back(std::string(kGpus) + gpus);
  }
  return out;
}

}  // namespace janus::dataplane
