#pragma once

#include <string>

namespace janus {

// The names in the nearest existing folder at or above `folder`: "/models has: demo, demo2", for
// the message about a path that does not exist. Those that begin like the missing part of `folder`
// come first; at most kMostNeighbours, and the number of the rest. Empty: no such folder can be
// read. Reads at most kMostEntries entries of one folder.
std::string NeighboursOf(const std::string& folder);

inline constexpr size_t kMostNeighbours = 8;
inline constexpr size_t kMostEntries = 10'000;

}  // namespace janus
