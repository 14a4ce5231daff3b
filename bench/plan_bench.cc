// What does the performance model say of the papers' figures and of published results of separating
// attention and experts, and how long does a search take?
//
// plan_bench [janus|megascale|mixserve|afd|speed]...: tables of what was published, ours, and why
// they differ; all of them without an argument.

#include "bench/plan/figures.h"
#include "bench/sections.h"

int main(int argc, char** argv) {
  using namespace janus::bench;  // NOLINT: main
  return PrintSections("plan_bench", {argv + 1, argv + argc},
                       {Sound("janus", JanusFigures), Sound("megascale", MegaScaleFigures),
                        Sound("mixserve", MixServeFigures), Sound("afd", PublishedDisaggregation),
                        Sound("speed", SearchSpeed)});
}
