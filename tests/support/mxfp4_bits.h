#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "tests/support/mxfp4_checkpoint.h"

namespace janus::dataplane {

// Expects a checkpoint in mxfp4 to give the same bits of logits and tokens as its numbers written
// out, and different ones than the checkpoint it was made from.
inline void ExpectSameBits(const Mxfp4Golden& golden, const KernelChoice& kernels, int tokens) {
  const CaseService service = {.kernels = kernels, .m = 1, .n = 2};
  const auto run = [&](const TempFolder& folder, const ModelDescription& model) {
    Result<CaseRun> ran = RunCase(folder.path(), golden.prompt, model, service, tokens);
    EXPECT_TRUE(ran.ok()) << ran.status().ToString();
    return ran.ok() ? *std::move(ran) : CaseRun();
  };
  const auto bits = [](const CaseRun& ran) {
    std::map<int, std::vector<uint32_t>> of;
    for (const auto& [position, logits] : ran.logits) {
      for (const float logit : logits) of[position].push_back(std::bit_cast<uint32_t>(logit));
    }
    return of;
  };
  const CaseRun packed = run(golden.packed, golden.packed_model);
  const CaseRun written_out = run(golden.written_out, golden.plain_model);
  ASSERT_FALSE(packed.logits.empty());
  EXPECT_EQ(static_cast<int>(packed.tokens.size()), tokens);
  EXPECT_EQ(bits(packed), bits(written_out));
  EXPECT_EQ(packed.tokens, written_out.tokens);
  EXPECT_NE(bits(packed), bits(run(golden.unquantized, golden.plain_model)));
}

}  // namespace janus::dataplane
