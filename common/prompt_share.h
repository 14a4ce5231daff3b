#pragma once

namespace janus {

// A step that computes prompts is filled up to this share of the TPOT target. While prompts wait,
// every step takes that long: requests that decode meanwhile then keep the target although some
// steps take longer than predicted.
inline constexpr double kPromptShareOfTpot = 0.95;

// Share of a step's decode time that prompts get even if the target leaves them less.
inline constexpr double kLeastPromptShare = 0.1;

}  // namespace janus
