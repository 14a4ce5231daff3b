#pragma once

#include <cstddef>
#include <vector>

#include "dataplane/comm/exchange/exchange.h"
#include "tests/support/random.h"

namespace janus::dataplane {

// What a round sends: how many rows each attention instance has, and which expert instance computes
// each (row, top-k slot) of them.
struct RoundPlan {
  ExchangeShape shape;
  RoundKey key;
  std::vector<int> rows;                   // [m]; 0: sends a round of no rows
  std::vector<std::vector<int>> owner_of;  // [m][row * K + slot] -> expert rank
};

// What must arrive, said as plainly as possible; every mode and transport is held to it.
//  - Every expert instance gets the rows of every attention instance: all of them, once, in the
//    order in which they were put there.
//  - Every attention instance gets, for each of its rows and each top-k slot, the one contribution
//    that the slot's owner made of this row. It gets no other bytes.
struct Delivery {
  std::vector<std::vector<std::byte>> rows;  // [m]: [rows, H] of the wire type
  std::vector<std::vector<std::vector<std::byte>>> contributions;  // [m][row * K + slot] -> [H]
};
Delivery Deliver(const RoundPlan& plan);

// The bytes that stand for a row and for a contribution; no two in a run are alike.
std::vector<std::byte> BytesOfRow(const RoundPlan& plan, int attention, int row);
std::vector<std::byte> BytesOfContribution(const RoundPlan& plan, int attention, int row, int slot);

// Up to `most_rows` rows per attention instance, some of them none, owners at random.
RoundPlan RandomRound(Random& random, const ExchangeShape& shape, const RoundKey& key,
                      int most_rows);

}  // namespace janus::dataplane
