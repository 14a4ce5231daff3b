#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace janus {

// Reads an input as a list of [action, length, bytes...], with each record cut to the remaining
// input. Calls act(action, bytes) for each one until it returns false.
template <class Act>
void ForEachAction(const uint8_t* data, size_t size, Act&& act) {
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  while (rest.size() >= 2) {
    const auto action = static_cast<uint8_t>(rest[0]);
    const size_t length = std::min<size_t>(static_cast<uint8_t>(rest[1]), rest.size() - 2);
    if (!act(action, rest.substr(2, length))) return;
    rest.remove_prefix(2 + length);
  }
}

}  // namespace janus
