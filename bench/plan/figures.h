#pragma once

namespace janus::bench {

// Tables, by publication; what each asks stands in its file.
void JanusFigures();
void MegaScaleFigures();
void MixServeFigures();
void PublishedDisaggregation();
void SearchSpeed();

}  // namespace janus::bench
