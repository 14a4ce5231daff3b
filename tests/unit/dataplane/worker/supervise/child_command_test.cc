#include "dataplane/worker/supervise/child_command.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/contains.h"

namespace janus::dataplane {
namespace {

using Texts = std::vector<std::string>;

Supervision Of(const std::string& listen, int instances = 4) {
  return {.instances = instances, .listen = listen};
}

std::string Variable(const ChildCommand& command, const std::string& name) {
  for (const std::string& one : command.environment) {
    if (one.starts_with(name + "=")) return one.substr(name.size() + 1);
  }
  return "none";
}

TEST(ChildCommand, EveryInstanceHasAPlaceOfItsOwnAndTheOtherFlagsAsTheyAre) {
  const Texts arguments = {"janus-worker",
                           "--role=experts",
                           "--supervise=4",
                           "--model",
                           "/models/demo",
                           "--listen=10.0.0.5:9000",
                           "--metrics",
                           "10.0.0.5:9100",
                           "--run-folder",
                           "/run/janus",
                           "--service-uid=--listen=",
                           "--drain-seconds=7",
                           "--metrics-like",
                           "--listening=x"};
  const auto command = CommandOf(2, Of("10.0.0.5:9000"), arguments, {});
  ASSERT_TRUE(command.ok()) << command.status().ToString();
  EXPECT_EQ(command->arguments,
            (Texts{"janus-worker", "--role=experts", "--model", "/models/demo",
                   "--service-uid=--listen=", "--drain-seconds=7", "--metrics-like",
                   "--listening=x", "--listen=10.0.0.5:9020", "--metrics=unix:/run/janus/pages-2",
                   "--instance=2", "--instances=4"}));
  EXPECT_EQ(command->pages, "/run/janus/pages-2");
}

TEST(ChildCommand, ThePortIsTheNumberBehindTheLastColon) {
  for (const auto& [listen, second] : {std::pair{"10.0.0.5:9000", "10.0.0.5:9010"},
                                       {"[fd00::5]:9000", "[fd00::5]:9010"},
                                       {"unix:/tmp/a:9000", "unix:/tmp/a:9010"},
                                       {"0.0.0.0:65525", "0.0.0.0:65535"}}) {
    for (const auto& [index, want] : {std::pair{0, listen}, {1, second}}) {
      const auto command = CommandOf(index, Of(listen), {"janus-worker"}, {});
      ASSERT_TRUE(command.ok()) << command.status().ToString();
      EXPECT_EQ(command->arguments[1], std::string("--listen=") + want);
    }
  }
  for (const char* listen :
       {"unix:/tmp/a.sock", "10.0.0.5", "10.0.0.5:", "10.0.0.5:x", "a:-1", "a:65526", "a:99999"}) {
    const Status status = CommandOf(1, Of(listen), {"janus-worker"}, {}).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << listen;
    EXPECT_TRUE(Contains(status.message(), "--listen")) << listen;
  }
}

TEST(ChildCommand, TheEnvironmentStaysButForThePortsOfUcx) {
  const Texts environment = {"PATH=/bin", "UCX_TCP_PORT_RANGE=9200-9231", "UCX_TLS=tcp"};
  const auto command = CommandOf(3, Of("a:1"), {"janus-worker"}, environment);
  ASSERT_TRUE(command.ok()) << command.status().ToString();
  EXPECT_EQ(command->environment,
            (Texts{"PATH=/bin", "UCX_TCP_PORT_RANGE=9296-9327", "UCX_TLS=tcp"}));
  EXPECT_EQ(CommandOf(3, Of("a:1"), {"janus-worker"}, {"UCX_TCP_PORT_RANGE=0"})->environment,
            Texts{"UCX_TCP_PORT_RANGE=0"})
      << "any port";
  for (const char* range : {"65500-65531", "a-b", "-", "1-"}) {
    const Status status =
        CommandOf(3, Of("a:1"), {"janus-worker"}, {"UCX_TCP_PORT_RANGE=" + std::string(range)})
            .status();
    EXPECT_TRUE(Contains(status.message(), "UCX_TCP_PORT_RANGE")) << range;
  }
}

// All stay visible: an instance reads the memory of the others' GPUs.
TEST(ChildCommand, TheOwnGpuIsTheFirstOfAllThatAreVisible) {
  Supervision gpus = Of("a:1", 3);
  gpus.has_gpus = true;
  const auto visible = [&](int index, const Texts& environment) {
    const auto command = CommandOf(index, gpus, {"janus-worker"}, environment);
    return command.ok() ? Variable(*command, "CUDA_VISIBLE_DEVICES") : command.status().message();
  };
  EXPECT_EQ(visible(1, {"CUDA_VISIBLE_DEVICES=GPU-a,GPU-b,GPU-c"}), "GPU-b,GPU-a,GPU-c");
  EXPECT_EQ(visible(0, {"CUDA_VISIBLE_DEVICES=7,5,3"}), "7,5,3");
  EXPECT_EQ(visible(2, {"CUDA_VISIBLE_DEVICES=7,5,3"}), "3,7,5");
  EXPECT_TRUE(visible(2, {}).starts_with("2,0,1,3,4,"));
  EXPECT_TRUE(Contains(visible(2, {"CUDA_VISIBLE_DEVICES=7,5"}), "a GPU for every instance"));
  gpus.has_gpus = false;
  EXPECT_EQ(visible(1, {"CUDA_VISIBLE_DEVICES=7,5"}), "7,5");
  EXPECT_EQ(visible(1, {}), "none");
}

TEST(ChildCommand, ThePathsOfSocketsAreBounded) {
  Supervision of = Of("a:1");
  of.run_folder = "/" + std::string(98, 'x');
  EXPECT_EQ(CommandOf(0, of, {"janus-worker"}, {}).status(), OkStatus());
  of.run_folder += "x";
  EXPECT_TRUE(Contains(CommandOf(0, of, {"janus-worker"}, {}).status().message(),
                       "too long for a socket; want at most 99 bytes"));
}

}  // namespace
}  // namespace janus::dataplane
