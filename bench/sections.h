#pragma once

// The sections of a benchmark: selects those that the arguments name, and computes the exit status.

#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace janus::bench {

struct Section {
  std::string name;
  std::function<bool()> print;  // false: a row ended in an error, which was printed
};

// Prints the sections that are asked for, or all if none is named, in the order of `sections`. Exit
// status: 0; 1 if a row ended in an error; 2 if a name is unknown. In the last case it prints only
// the known names, on stderr.
inline int PrintSections(const char* bench, const std::vector<std::string>& asked,
                         const std::vector<Section>& sections) {
  for (const std::string& name : asked) {
    if (std::ranges::find(sections, name, &Section::name) != sections.end()) continue;
    std::fprintf(stderr, "%s: no section '%s'; there are", bench, name.c_str());
    for (const Section& section : sections) std::fprintf(stderr, " %s", section.name.c_str());
    std::fprintf(stderr, "\n");
    return 2;
  }
  bool is_sound = true;
  for (const auto& [name, print] : sections) {
    if (!asked.empty() && std::ranges::find(asked, name) == asked.end()) continue;
    is_sound = print() && is_sound;
  }
  return is_sound ? 0 : 1;
}

// A section that either prints all rows or ends the program.
inline Section Sound(std::string name, std::function<void()> print) {
  return {std::move(name), [print = std::move(print)] {
            print();
            return true;
          }};
}

}  // namespace janus::bench
