#pragma once

#include <string_view>

namespace janus {

// How PeerLink::transport (common/statistics.h) ends if payloads stay in GPU memory: those of both
// directions, or of one. Workers write it; the choice of an exchange mode reads it.
inline constexpr std::string_view kInGpus = ", GPU memory";
inline constexpr std::string_view kInGpusOneWay = ", GPU memory one way";

}  // namespace janus
