#pragma once

#include "controllers/plan/search.h"

namespace janus::controllers {

// Why no separated plan in the space keeps the goal. InvalidArgument: the model does not fit (with
// the bytes), the batch exceeds what all attention GPUs may take, or no number of pods gives the
// requested counts. FailedPrecondition: nothing is fast enough; the message names the fastest plan
// and, if `wholes` is not empty, its best: the whole model keeps the goal.
Status WhyNoPlan(const Setting& setting, const PlanGoal& goal, const PlanSpace& space,
                 const std::vector<WholePlan>& wholes);

// The error if some plans keep the TPOT but all give the first token too late. `soonest` is the
// plan with the earliest first token.
Status WhyNoFirstToken(const PlanGoal& goal, const Plan& soonest,
                       const std::vector<WholePlan>& wholes);

}  // namespace janus::controllers
