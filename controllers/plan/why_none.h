#pragma once

#include "controllers/plan/search.h"

namespace janus::controllers {

// Why no separated plan keeps the goal within the space. InvalidArgument: the model does not fit
// (with the bytes), the batch is more than all attention GPUs may take, or pods that no number of
// makes what is asked. FailedPrecondition: nothing is fast enough; names the fastest, and the whole
// model where `wholes`, best first, keep the goal.
Status WhyNoPlan(const Setting& setting, const PlanGoal& goal, const PlanSpace& space,
                 const std::vector<WholePlan>& wholes);

// Why none does though some keep the TPOT: the first token comes too late with all. `soonest` is
// the one with which it comes first.
Status WhyNoFirstToken(const PlanGoal& goal, const Plan& soonest,
                       const std::vector<WholePlan>& wholes);

}  // namespace janus::controllers
