#pragma once

// Flags of a benchmark, each with a value: `--steps 40`. An unknown flag ends the program before it
// measures anything: figures for the wrong settings would look valid.

#include <charconv>
#include <cstdio>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace janus::bench {

struct Flag {
  std::string name;
  std::string values;                          // for the message: "a number of at least 1"
  std::function<bool(std::string_view)> take;  // false: the value is invalid
};

// A flag for a number of at least `least`.
template <class Number>
Flag NumberFlag(std::string name, Number least, Number* into) {
  char text[64];
  std::snprintf(text, sizeof(text), "a number of at least %g", static_cast<double>(least));
  return {std::move(name), text, [least, into](std::string_view value) {
            Number number = 0;
            const char* const end = value.data() + value.size();
            const auto [stop, error] = std::from_chars(value.data(), end, number);
            if (error != std::errc() || stop != end || !(number >= least)) return false;
            *into = number;
            return true;
          }};
}

// False: a flag is wrong. The reason is on stderr, and the caller exits with 2.
inline bool TakeFlags(const char* bench, const std::vector<std::string>& args,
                      const std::vector<Flag>& flags) {
  for (size_t i = 0; i < args.size(); i += 2) {
    const Flag* known = nullptr;
    for (const Flag& flag : flags) known = flag.name == args[i] ? &flag : known;
    if (known == nullptr) {
      std::fprintf(stderr, "%s: no flag '%s'; there are", bench, args[i].c_str());
      for (const Flag& flag : flags) std::fprintf(stderr, " %s", flag.name.c_str());
      std::fprintf(stderr, "\n");
      return false;
    }
    if (i + 1 < args.size() && known->take(args[i + 1])) continue;
    std::fprintf(stderr, "%s: %s wants %s", bench, args[i].c_str(), known->values.c_str());
    if (i + 1 < args.size()) std::fprintf(stderr, ", not '%s'", args[i + 1].c_str());
    std::fprintf(stderr, "\n");
    return false;
  }
  return true;
}

// For a benchmark with a single argument: the number of repeats.
inline bool TakeRounds(const char* bench, const std::vector<std::string>& args, int* rounds) {
  const Flag flag = NumberFlag("rounds", 1, rounds);
  if (args.empty() || (args.size() == 1 && flag.take(args[0]))) return true;
  const std::string& wrong = args.size() > 1 && flag.take(args[0]) ? args[1] : args[0];
  std::fprintf(stderr, "%s: the only argument is rounds, %s, not '%s'\n", bench,
               flag.values.c_str(), wrong.c_str());
  return false;
}

}  // namespace janus::bench
