#pragma once

#include <string>

#include "operator/records/step_page.h"

namespace janus::cli {

// Draws a step of a service, for people: each instance on lines of its own, a line for each
// micro-batch, time from left to right. Pure.

// For a terminal: `columns` characters of time for the recorded layers, or for `layers` of them if
// that is above 0; what each instance spent its time on; which experts answer last.
std::string StepText(const control::StepPage& page, int layers, int columns);

// A self-contained page with the same, in which each piece of time has a text.
std::string StepHtml(const control::StepPage& page, int layers);

}  // namespace janus::cli
