#pragma once

// The sections of a bench: which of them are asked for, and what its exit status says.

#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace janus::bench {

struct Section {
  std::string name;
  std::function<bool()> print;  // false: one of its rows ended in an error, which it has printed
};

// Prints the sections that are asked for, all of them where none is, in the order of `sections`.
// The exit status: 0; 1 where a row ended in an error; 2 where there is no section of a name: then
// nothing is printed but, on stderr, which there are.
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

// One whose rows either come out or end the program.
inline Section Sound(std::string name, std::function<void()> print) {
  return {std::move(name), [print = std::move(print)] {
            print();
            return true;
          }};
}

}  // namespace janus::bench
