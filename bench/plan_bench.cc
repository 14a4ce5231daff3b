// Compares the performance model with the papers' figures and with published results of separating
// attention and experts. Also: how long does a search take?
//
// plan_bench [janus|megascale|mixserve|afd|speed]...: tables of published figures, ours, and why
// they differ. All tables without an argument.

#include "bench/plan/figures.h"
#include "bench/sections.h"

int main(int argc, char** argv) {
  using namespace janus::bench;  // NOLINT: main
  return PrintSections("plan_bench", {argv + 1, argv + argc},
                       {Sound("janus", JanusFigures), Sound("megascale", MegaScaleFigures),
                        Sound("mixserve", MixServeFigures), Sound("afd", PublishedDisaggregation),
                        Sound("speed", SearchSpeed)});
}
