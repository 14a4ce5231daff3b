#pragma once

namespace janus::controllers {

// Slots of a layer on each of `instances` expert instances, where no number is asked for: half as
// many replicas again as there are experts, which is what AEBS needs to choose well (JANUS 3.3;
// routing_bench schedule). No more than `most`, which an instance's memory holds, and no more than
// `experts`, since a second replica on one instance has no use. At least as many as hold the model
// once. REQUIRES: experts >= 1, instances >= 1. Pure.
int SlotsByDefault(int experts, int instances, int most);

// The fewest slots of a layer on each of them that hold the model once. Pure.
int FewestSlots(int experts, int instances);

}  // namespace janus::controllers
