#pragma once

namespace janus::bench {

// Prints tables, one function per publication. Each file says what its tables ask.
void JanusFigures();
void MegaScaleFigures();
void MixServeFigures();
void PublishedDisaggregation();
void SearchSpeed();

}  // namespace janus::bench
