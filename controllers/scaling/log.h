#pragma once

#include <string>
#include <string_view>

#include "common/status.h"
#include "controllers/scaling/world.h"

namespace janus::controllers {

// Worlds as text, one line each, so that decisions can be replayed from a log: the same lines,
// policy and predictor give the same decisions. Numbers have all their digits.

std::string ToLine(const World& world);

// InvalidArgument names the field that is missing, out of order or not a number.
Result<World> ParseWorld(std::string_view line);

// The first invalid or negative number of a world, as "name is value"; empty: all are valid.
std::string UnsoundNumberOf(const World& world);

}  // namespace janus::controllers
