#pragma once

#include <cstddef>
#include <vector>

#include "dataplane/comm/exchange/exchange.h"
#include "tests/support/random.h"

namespace janus::dataplane {

// What a round sends: the number of rows of each attention instance, and which expert instance
// computes each (row, top-k slot) of them.
struct RoundPlan {
  ExchangeShape shape;
  RoundKey key;
  std::vector<int> rows;                   // [m]; 0: a round without rows
  std::vector<std::vector<int>> owner_of;  // [m][row * K + slot] -> expert rank
};

// What must arrive, defined as plainly as possible; every mode and transport is compared with it.
// - Every expert instance gets all rows of every attention instance, once, in their order.
// - Every attention instance gets, for each of its rows and each top-k slot, the one contribution
//   that the slot's owner made from this row, and no other bytes.
// - With sums, it gets for each of its rows at most one sum from each expert instance (in the
//   two-phase modes: node), and they add up to all contributions to the row.
struct Delivery {
  std::vector<std::vector<std::byte>> rows;  // [m]: [rows, H] of the wire type
  std::vector<std::vector<std::vector<std::byte>>> contributions;  // [m][row * K + slot] -> [H]
};
Delivery Deliver(const RoundPlan& plan);

// The bytes that represent a row and a contribution; all of a run differ.
std::vector<std::byte> BytesOfRow(const RoundPlan& plan, int attention, int row);
std::vector<std::byte> BytesOfContribution(const RoundPlan& plan, int attention, int row, int slot);

// With sums: the integers that represent a contribution; some are not finite.
std::vector<int32_t> TermsOf(const RoundPlan& plan, int attention, int row, int slot);
// What all contributions to a row add up to.
std::vector<int32_t> SumOfRow(const RoundPlan& plan, int attention, int row);

// Up to `most_rows` rows per attention instance, sometimes zero, with random owners.
RoundPlan RandomRound(Random& random, const ExchangeShape& shape, const RoundKey& key,
                      int most_rows);

}  // namespace janus::dataplane
