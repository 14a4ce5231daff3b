#include "dataplane/comm/exchange/two_phase_layout.h"

#include <algorithm>

#include "dataplane/comm/exchange/direct.h"
#include "dataplane/comm/exchange/two_phase.h"

namespace janus::dataplane {
namespace {

PeerId Attention(int rank) {
  return {Role::kAttention, Rank{rank}};
}
PeerId Experts(int rank) {
  return {Role::kExperts, Rank{rank}};
}

// Each reader once, without the owner.
void Add(std::vector<SlotSpec>& slots, PeerId owner, int index, size_t bytes,
         std::vector<PeerId> readers) {
  std::erase(readers, owner);
  std::ranges::sort(readers);
  readers.erase(std::unique(readers.begin(), readers.end()), readers.end());
  slots.push_back({owner, index, bytes, std::move(readers)});
}

void AddAttention(const Lanes& lanes, const ExchangeShape& shape, int rank,
                  std::vector<SlotSpec>& slots) {
  const ExchangeSize size = shape.size();
  const std::vector<const Lane*> own = lanes.EndingAtAttention(rank);
  const AttentionSlots number{shape.micro_batches, BundlesOf(shape, own.size())};
  const PeerId self = Attention(rank);
  std::vector<PeerId> ends;
  for (const Lane* lane : lanes.OfAttention(rank)) ends.push_back(Attention(lane->attention_end));
  for (int mb = 0; mb < shape.micro_batches; ++mb) {
    Add(slots, self, number.Rows(mb), RowSlotBytes(size), ends);
  }
  if (own.empty()) return;
  std::vector<PeerId> other_ends;
  for (const Lane* lane : own) other_ends.push_back(Experts(lane->expert_end));
  for (int bundle = 0; bundle < number.bundles; ++bundle) {
    const std::vector<PeerId> readers =
        number.bundles == 1 ? other_ends : std::vector{other_ends[static_cast<size_t>(bundle)]};
    for (int mb = 0; mb < shape.micro_batches; ++mb) {
      Add(slots, self, number.Bundle(bundle, mb), RowBundleBytes(size, *own.front()), readers);
    }
  }
  for (size_t l = 0; l < own.size(); ++l) {
    const Lane& lane = *own[l];
    if (!SpreadsContributions(lane)) continue;
    for (int mb = 0; mb < shape.micro_batches; ++mb) {
      for (size_t place = 0; place < lane.attention.size(); ++place) {
        Add(slots, self, number.Spread(lane, static_cast<int>(l), mb, static_cast<int>(place)),
            SpreadBytes(size, lane), {Attention(lane.attention[place])});
      }
    }
  }
}

void AddExperts(const Lanes& lanes, const ExchangeShape& shape, int rank,
                std::vector<SlotSpec>& slots) {
  const ExchangeSize size = shape.size();
  const PeerId self = Experts(rank);
  const std::vector<const Lane*> own = lanes.EndingAtExpert(rank);
  const ExpertSlots number{shape.micro_batches, shape.m, static_cast<int>(own.size())};
  std::vector<int> end_of(static_cast<size_t>(shape.m));
  for (const Lane* lane : lanes.OfExpert(rank)) {
    for (const int a : lane->attention) end_of[static_cast<size_t>(a)] = lane->expert_end;
  }
  for (int mb = 0; mb < shape.micro_batches; ++mb) {
    for (int a = 0; a < shape.m; ++a) {
      Add(slots, self, number.Contributions(mb, a), ContributionSlotBytes(size),
          {Experts(end_of[static_cast<size_t>(a)])});
    }
  }
  for (size_t l = 0; l < own.size(); ++l) {
    for (int mb = 0; mb < shape.micro_batches; ++mb) {
      Add(slots, self, number.Bundle(static_cast<int>(l), mb),
          ContributionBundleBytes(size, *own[l]), {Attention(own[l]->attention_end)});
    }
  }
  for (size_t l = 0; l < own.size(); ++l) {
    if (!SpreadsRows(*own[l])) continue;
    std::vector<PeerId> mates;
    for (const int e : own[l]->experts) mates.push_back(Experts(e));
    for (int mb = 0; mb < shape.micro_batches; ++mb) {
      Add(slots, self, number.Spread(static_cast<int>(l), mb), RowBundleBytes(size, *own[l]),
          mates);
    }
  }
}

// In GPU memory there are the slots of mode Direct, and their readers. The expert end of a lane
// reads the rows that the lane carries for its node.
void AddDevices(const Lanes& lanes, const ExchangeShape& shape, TransportLayout& layout) {
  TransportLayout direct = DirectLayout(shape, layout.self);
  layout.device_slots = std::move(direct.slots);
  layout.landing[static_cast<size_t>(Role::kAttention)] =
      direct.landing[static_cast<size_t>(Role::kAttention)];
  for (int e = 0; e < shape.n; ++e) {
    size_t at = 0;
    for (const Lane* lane : lanes.EndingAtExpert(e)) {
      LandingSpec landing;
      landing.owner = Experts(e);
      landing.bytes = RowLandingBytes(shape);
      for (const int mate : lane->experts) {
        if (mate != e) landing.mates.push_back(Experts(mate));
      }
      for (const int a : lane->attention) {
        landing.source = Attention(a);
        for (int mb = 0; mb < shape.micro_batches; ++mb) {
          landing.slot = mb;
          landing.at = at;
          layout.landings.push_back(landing);
          at += landing.bytes;
        }
      }
    }
  }
}

}  // namespace

TransportLayout TwoPhaseLayout(ExchangeMode mode, const ExchangeShape& shape, PeerId self) {
  const Lanes lanes(mode, shape);
  TransportLayout layout;
  layout.self = self;
  layout.m = shape.m;
  layout.n = shape.n;
  layout.expert_nodes = lanes.expert_nodes();
  for (int a = 0; a < shape.m; ++a) AddAttention(lanes, shape, a, layout.slots);
  for (int e = 0; e < shape.n; ++e) AddExperts(lanes, shape, e, layout.slots);
  if (WhyThroughHosts(shape).empty()) AddDevices(lanes, shape, layout);
  return layout;
}

}  // namespace janus::dataplane
