// What does the performance model say of the papers' figures and of published results of separating
// attention and experts, and how long does a search take?
//
// plan_bench [janus | megascale | afd | speed]: tables of what was published, ours, and why they
// differ; all of them without an argument.

#include <cstdio>
#include <string_view>
#include <utility>

#include "bench/plan/settings.h"

int main(int argc, char** argv) {
  const std::pair<std::string_view, void (*)()> tables[] = {
      {"janus", janus::bench::JanusFigures},
      {"megascale", janus::bench::MegaScaleFigures},
      {"afd", janus::bench::PublishedDisaggregation},
      {"speed", janus::bench::SearchSpeed}};
  bool is_known = argc < 2;
  for (const auto& [name, print] : tables) {
    if (argc > 1 && name != argv[1]) continue;
    is_known = true;
    print();
  }
  if (is_known) return 0;
  std::fprintf(stderr, "plan_bench: no table '%s'; want janus, megascale, afd or speed\n", argv[1]);
  return 2;
}
