#pragma once

#include <span>
#include <string>
#include <string_view>

namespace janus::control {

// Number of insertions, deletions, replacements and swaps of neighbors that turn `a` into `b`;
// ignores case. O(|a|*|b|).
int EditDistance(std::string_view a, std::string_view b);

// The candidate nearest to `word`, the first of equals. Empty if none is near enough to be a typing
// error: more than a third of the letters, and more than one, differ.
std::string_view Nearest(std::string_view word, std::span<const std::string_view> candidates);

// "A", "A or B", "A, B or C".
std::string JoinOr(std::span<const std::string_view> words);

}  // namespace janus::control
