#pragma once

#include <string>
#include <string_view>

#include "common/status.h"
#include "controllers/scaling/world.h"

namespace janus::controllers {

// Worlds as text, one line each, so that a log of them can be decided again: the same lines, policy
// and predictor give the same decisions. Numbers are written with all their digits.

std::string ToLine(const World& world);

// InvalidArgument names the field that is missing, out of order or not a number.
Result<World> ParseWorld(std::string_view line);

// The first number of a world that is negative or none, as "name is value"; empty: all are sound.
std::string UnsoundNumberOf(const World& world);

}  // namespace janus::controllers
