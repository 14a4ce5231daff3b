#include "operator/kube/packed_tree.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>

#include "operator/api/json.h"

namespace janus::control {
namespace {

Node Read(const std::string& json) {
  return ParseJson(json, "test").value();
}

// Any tree: all kinds, sizes on both sides of a number's one byte, names beyond those there is room
// for.
Node Draw(std::minstd_rand& random, int depth) {
  const auto text = [&] {
    const size_t size = random() % 5 == 0 ? random() % 400 : random() % 8;
    std::string out(size, 0);
    for (char& c : out) c = static_cast<char>(random());
    return out;
  };
  switch (random() % (depth == 0 ? 5 : 7)) {
    case 0:
      return {};
    case 1:
      return Node::Bool(random() % 2 == 0);
    case 2:
      return Node::Integer(static_cast<int64_t>(random() * random() * random()) >> (random() % 63));
    case 3: {
      Node out = Node::String("1.5e" + std::to_string(random() % 300));
      out.kind = Node::Kind::kFloat;
      return out;
    }
    case 4:
      return Node::String(text());
    case 5: {
      Node out = Node::List();
      for (size_t i = random() % 5; i > 0; --i) out.items.push_back(Draw(random, depth - 1));
      return out;
    }
    default: {
      Node out = Node::Map();
      for (size_t i = random() % 5; i > 0; --i) out.Add(text(), Draw(random, depth - 1));
      return out;
    }
  }
}

TEST(PackedTree, AnyTreeComesBackAndEqualTreesAreEqualBytes) {
  std::minstd_rand random(7);
  FieldNames names;
  for (int i = 0; i < 3000; ++i) {
    const Node tree = Draw(random, 5);
    const PackedTree packed(tree, names);
    const Node back = packed.Unpack(names);
    ASSERT_TRUE(back == tree) << WriteJson(tree);
    ASSERT_TRUE(PackedTree(back, names) == packed);
    const Node other = Draw(random, 5);
    ASSERT_EQ(PackedTree(other, names) == packed, other == tree);
  }
  EXPECT_EQ(names.Number("a name that was not seen before"), 0U);  // there was no room any more
}

TEST(PackedTree, NumbersComeBackAsTheyWereWritten) {
  FieldNames names;
  for (const char* const json :
       {"[0,-1,1,63,64,-64,-65,127,128,9223372036854775807,-9223372036854775808]",
        "[1.0,1e3,-0.5,18446744073709551615]"}) {
    EXPECT_EQ(WriteJson(PackedTree(Read(json), names).Unpack(names)), json);
  }
  Node written = Node::Integer(16);
  written.text = "0x10";
  EXPECT_TRUE(PackedTree(written, names).Unpack(names) == written);
}

TEST(PackedTree, ANameIsHeldOnceForAllTrees) {
  FieldNames names;
  const std::string name(100, 'n');
  const Node tree = Read("{\"" + name + "\":{\"" + name + "\":7}}");
  for (int i = 0; i < 2; ++i) {
    const PackedTree packed(tree, names);
    EXPECT_LT(packed.size(), 10U);
    EXPECT_TRUE(packed.Unpack(names) == tree);
  }
}

TEST(FieldNames, ThoseThereIsNoRoomForAreWrittenOut) {
  FieldNames names;
  for (uint32_t i = 0; i < FieldNames::kMost; ++i) {
    ASSERT_EQ(names.Number("n" + std::to_string(i)), i + 1);
  }
  EXPECT_EQ(names.Number("one more"), 0U);
  EXPECT_EQ(names.Number("n7"), 8U);
  EXPECT_EQ(names.Name(8), "n7");
  const Node tree = Read(R"({"one more":{"n7":1,"another":2}})");
  EXPECT_TRUE(PackedTree(tree, names).Unpack(names) == tree);
}

}  // namespace
}  // namespace janus::control
