#include "bench/earlier_cell.h"

#include <gtest/gtest.h>

namespace janus::bench {
namespace {

const std::array<std::string, 3> kModes = {"One", "Two", "Three"};

// As the bench prints it.
const nlohmann::json kLine = {{"bench", "exchange_modes"},
                              {"nodes", "1x4,2x3"},
                              {"row_bytes_of_an_instance", 8192},
                              {"One_ms", 1.5},
                              {"One_cpu_share", 0.1},
                              {"Two_ms", 2.5},
                              {"Two_cpu_share", 0},
                              {"Three_ms", 3.5},
                              {"Three_cpu_share", 0.3},
                              {"measured_mbit", 40},
                              {"measured_latency_us", 900},
                              {"measured_message_us", 0}};

// The error for the line with this value; without the key if `value` is discarded.
std::string Says(const std::string& key, const nlohmann::json& value) {
  nlohmann::json line = kLine;
  line.erase(key);
  if (!value.is_discarded()) line[key] = value;
  const auto cell = ReadEarlierCell(line.dump(), kModes);
  return cell.ok() ? "ok" : cell.status().message();
}

TEST(EarlierCell, HasWhatTheLineSays) {
  const auto cell = ReadEarlierCell(kLine.dump(), kModes);
  ASSERT_TRUE(cell.ok() && *cell) << cell.status().ToString();
  const EarlierCell& is = **cell;
  EXPECT_EQ(is.nodes, (std::array<int, 4>{1, 4, 2, 3}));
  EXPECT_EQ(is.row_bytes, 8192);
  EXPECT_EQ(is.milliseconds, (std::array<double, 3>{1.5, 2.5, 3.5}));
  EXPECT_EQ(is.cpu_share, (std::array<double, 3>{0.1, 0, 0.3}));
  EXPECT_EQ(is.megabits, 40);
  EXPECT_EQ(is.latency_microseconds, 900);
  EXPECT_EQ(is.message_microseconds, 0);
}

TEST(EarlierCell, IsNotInOtherLines) {
  for (const char* text : {"", "rounds: 5", "[1]", R"({"bench": "exchange_modes_summary"})",
                           R"({"bench": 3})", R"({"nodes": "1x4,2x3"})"}) {
    const auto cell = ReadEarlierCell(text, kModes);
    EXPECT_TRUE(cell.ok() && !*cell) << text;
  }
}

TEST(EarlierCell, NamesTheKeyThatIsAbsentOrWrong) {
  const nlohmann::json absent(nlohmann::json::value_t::discarded);
  for (const auto& item : kLine.items()) {
    if (item.key() == "bench") continue;
    EXPECT_TRUE(Says(item.key(), absent).starts_with("\"" + item.key() + "\" is absent; want "))
        << Says(item.key(), absent);
    EXPECT_TRUE(Says(item.key(), "x").starts_with("\"" + item.key() + "\" is \"x\"; want "))
        << Says(item.key(), "x");
    EXPECT_TRUE(Says(item.key(), nullptr).starts_with("\"" + item.key() + "\" is null; want "));
    if (item.key() == "nodes") continue;
    EXPECT_TRUE(Says(item.key(), -1).starts_with("\"" + item.key() + "\" is -1; want "));
  }
  EXPECT_EQ(Says("Two_ms", 0), "\"Two_ms\" is 0; want a number above 0");
}

TEST(EarlierCell, HasFourCountsOfNodesAndInstances) {
  EXPECT_EQ(Says("nodes", "1x4,2x2"), "ok");
  for (const char* counts : {"", "1x4", "1x4,2", "1x4,2x2,", "1x4,2x2 ", "0x4,2x2", "1x4,2x-2",
                             "1x4,2x99999", "1x4;2x2"}) {
    EXPECT_EQ(Says("nodes", counts),
              "\"nodes\" is \"" + std::string(counts) + "\"; want four counts, as in \"1x4,2x2\"");
  }
}

TEST(EarlierCell, IsNotTakenFromACutLine) {
  const std::string whole = kLine.dump();
  const auto cell = ReadEarlierCell(whole.substr(0, whole.size() / 2), kModes);
  EXPECT_EQ(cell.status().message(),
            "is no JSON object, and begins like one; it may have been cut");
}

}  // namespace
}  // namespace janus::bench
