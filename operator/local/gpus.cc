#include "operator/local/gpus.h"

#include <utility>

#include "operator/api/json.h"
#include "operator/api/tree.h"
#include "operator/kube/object.h"
#include "operator/kube/program.h"

namespace janus::control {

Result<LocalGpus> FindGpus(const std::string& worker_program, const std::stop_token& stop) {
  constexpr Seconds kLongest{60};
  const std::string what = worker_program + " gpus";
  JANUS_ASSIGN_OR_RETURN(const ProgramOutput said,
                         RunProgram({worker_program, {"gpus"}, {}}, kLongest, stop));
  if (said.exit_code != 0) {
    return Unavailable(what + ": ended with status " + std::to_string(said.exit_code) +
                       (said.error.empty() ? "" : ": " + said.error));
  }
  JANUS_ASSIGN_OR_RETURN(const Node root, ParseJson(said.out, what));
  LocalGpus out;
  out.why = TextAt(root, {"why"});
  const Node* const gpus = FindAt(root, {"gpus"});
  if (gpus == nullptr) return Unavailable(what + ": its answer has no list of GPUs");
  for (const Node& one : gpus->items) {
    out.gpus.push_back({std::string(TextAt(one, {"id"})), std::string(TextAt(one, {"name"})),
                        IntegerAt(one, {"totalBytes"}).value_or(0),
                        IntegerAt(one, {"freeBytes"}).value_or(0)});
  }
  return out;
}

}  // namespace janus::control
