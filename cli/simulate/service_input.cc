#include "cli/simulate/service_input.h"

#include "cli/plan/service_spec.h"
#include "operator/scaling/policy_of.h"

namespace janus::cli {

Status ReadServiceInto(const std::string& file, SimulateOptions& options) {
  JANUS_ASSIGN_OR_RETURN(const control::MoEServiceSpec spec, ReadServiceSpec(file));
  if (Status status = control::FillPolicy(spec, options.scaling); !status.ok()) {
    return std::move(status).Annotate(file);
  }
  FillSetting(spec, options.setting);
  FillExchange(spec, options.pins, options.exchange);
  return OkStatus();
}

}  // namespace janus::cli
