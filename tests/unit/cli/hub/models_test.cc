#include "cli/hub/models.h"

#include <gtest/gtest.h>

namespace janus::cli {
namespace {

TEST(Models, ListsTheCacheAsATable) {
  const std::string commit(40, 'a');
  ModelRow whole{
      {"org/demo", commit, {"main", "v1"}, "/c/x", 2'000'000'000, {}}, "mixtral", {"demo", "two"}};
  ModelRow part{
      {"org/big", commit, {}, "/c/y", 10, {"1.safetensors", "2.safetensors", "3"}}, "", {}};
  EXPECT_EQ(RenderModels({part, whole}, "/c"),
            "MODEL      REVISION                SIZE     STATE                                     "
            "      FAMILY    SERVICES\n"
            "org/big    aaaaaaaaaaaa            10 B     lacks 1.safetensors, 2.safetensors and 1 "
            "more   -         -\n"
            "org/demo   main, v1 aaaaaaaaaaaa   2.0 GB   complete                                  "
            "      mixtral   demo, two\n"
            "cache: /c\n");
}

TEST(Models, SaysHowToGetAModelIfThereIsNone) {
  EXPECT_EQ(RenderModels({}, "/c"),
            "no models in /c; janusctl serve --model owner/name downloads one, and so does "
            "janusctl models owner/name --download\n");
}

}  // namespace
}  // namespace janus::cli
