#include "operator/local/store/tables.h"

#include <gtest/gtest.h>

#include <string>

#include "operator/api/json.h"

namespace janus::control {
namespace {

const Kind& ConfigMaps() {
  return *FindKind("v1", "ConfigMap");
}

Node Object(const std::string& name, const std::string& value) {
  return *ParseJson(
      R"({"data":{"a":")" + value + R"("},"metadata":{"name":")" + name + R"(","namespace":"n"}})",
      "test");
}
ObjectKey Key(const std::string& name) {
  return {"n", name};
}

TEST(History, ForgetsTheOldestAndSaysWhereItBegins) {
  TableLimits limits;
  limits.max_changes = 3;
  Tables tables(limits);
  for (int i = 0; i < 5; ++i) {
    tables.Put(ConfigMaps(), Key("a"), Object("a", std::to_string(i)));
  }
  EXPECT_EQ(tables.history().newest(), Tables::kFirstVersion + 5);
  EXPECT_EQ(tables.history().floor(), Tables::kFirstVersion + 2);
  EXPECT_EQ(tables.history().At(tables.version()).version, tables.version());
}

TEST(History, KeepsNoMoreBytesThanItMay) {
  TableLimits limits;
  limits.max_history_bytes = 100'000;
  Tables tables(limits);
  for (int i = 0; i < 50; ++i) {
    tables.Put(ConfigMaps(), Key("a"), Object("a", std::string(10'000, 'x')));
  }
  EXPECT_GE(tables.history().floor(), tables.version() - 10);
  EXPECT_LT(tables.history().floor(), tables.version());
}

TEST(Tables, AnObjectCarriesTheVersionOfItsLastChange) {
  Tables tables(TableLimits{});
  const SharedObject made = tables.Put(ConfigMaps(), Key("a"), Object("a", "1"));
  EXPECT_EQ(ResourceVersionOf(*made), std::to_string(tables.version()));
  const SharedObject gone = tables.Remove(ConfigMaps(), Key("a"));
  EXPECT_EQ(ResourceVersionOf(*gone), std::to_string(tables.version()));
  EXPECT_EQ(tables.Find(ConfigMaps(), Key("a")), nullptr);
}

TEST(Tables, ASnapshotIsWhatWasThereThen) {
  Tables tables(TableLimits{});
  tables.Put(ConfigMaps(), Key("a"), Object("a", "1"));
  tables.Put(ConfigMaps(), Key("b"), Object("b", "1"));
  const int64_t then = tables.version();
  tables.Remove(ConfigMaps(), Key("a"));
  tables.Put(ConfigMaps(), Key("b"), Object("b", "2"));
  tables.Put(ConfigMaps(), Key("c"), Object("c", "1"));
  const auto snapshot = tables.SnapshotAt(ConfigMaps(), then);
  ASSERT_EQ(snapshot.size(), 2U);
  EXPECT_EQ(TextAt(*snapshot.at(Key("a")), {"data", "a"}), "1");
  EXPECT_EQ(TextAt(*snapshot.at(Key("b")), {"data", "a"}), "1");
}

TEST(Tables, CountsTheBytesOfWhatIsThere) {
  Tables tables(TableLimits{});
  const size_t empty = tables.bytes();
  tables.Put(ConfigMaps(), Key("a"), Object("a", std::string(1000, 'x')));
  const size_t one = tables.bytes();
  EXPECT_GT(one, empty + 1000);
  tables.Put(ConfigMaps(), Key("a"), Object("a", std::string(1000, 'y')));
  EXPECT_EQ(tables.bytes(), one);
  tables.Remove(ConfigMaps(), Key("a"));
  EXPECT_EQ(tables.bytes(), empty);
}

}  // namespace
}  // namespace janus::control
