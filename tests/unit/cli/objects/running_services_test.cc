#include "cli/objects/running_services.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <optional>

#include "operator/api/yaml.h"
#include "operator/local/server/object_server.h"
#include "operator/local/store/store_client.h"
#include "operator/reconcile/objects/names.h"
#include "tests/support/temp_folder.h"

namespace janus::cli {
namespace {

namespace fs = std::filesystem;

// A service of this user: a socket with its objects, and the link to it in its state folder.
class Served {
 public:
  Served(const TempFolder& folder, const control::Timeline& timeline, const std::string& name)
      : store_({}, timeline), user_(store_, "test") {
    const std::string socket = folder.path() + "/" + name + ".api";
    server_ = *control::ObjectServer::Create(store_, socket);
    const std::string state = folder.path() + "/state/janus/" + name;
    fs::create_directories(state);
    fs::create_symlink(socket, state + "/" + kApiLink);
    const control::Node object = *control::ParseYaml(
        "{apiVersion: serving.janus.dev/v1alpha1, kind: MoEService, metadata: {name: " + name +
            ", namespace: default}, spec: {model: {source: {type: HostPath, hostPath: {path: "
            "/m}}}, "
            "roles: {attention: {replicas: 1}, experts: {replicas: 1}}}}",
        "test");
    const auto made = user_.Create(control::kMoEServices, object, {}, {});
    EXPECT_TRUE(made.ok()) << made.status().message();
  }
  // Leaves the files as after a kill.
  void Kill() { server_.reset(); }

 private:
  control::LocalStore store_;
  control::StoreClient user_;
  std::unique_ptr<control::ObjectServer> server_;
};

class RunningServicesTest : public testing::Test {
 protected:
  Result<RunningService> Find(const std::string& name) {
    return FindRunningService(environment_, timeline_, name);
  }

  TempFolder folder_;
  control::SystemTimeline timeline_;
  control::Environment environment_{"", "", folder_.path() + "/state"};
};

TEST_F(RunningServicesTest, NoneRuns) {
  EXPECT_EQ(Find("").status(), NotFound("no service runs on this machine; start one with janusctl "
                                        "serve, or use kubectl for a cluster"));
  // The folder of a run that has ended.
  fs::create_directories(folder_.path() + "/state/janus/old");
  EXPECT_EQ(Find("old").status().code(), StatusCode::kNotFound);
}

TEST_F(RunningServicesTest, TheOnlyOneNeedsNoName) {
  const Served demo(folder_, timeline_, "demo");
  const Result<RunningService> found = Find("");
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ(found->key.ToString(), "default/demo");
  EXPECT_TRUE(
      found->api->Get(control::kMoEServices, found->key, control::Subresource::kNone, {}).ok());
  EXPECT_EQ(Find("other").status(), NotFound("no service 'other' runs here; running: demo"));
}

TEST_F(RunningServicesTest, OfSeveralOneIsNamed) {
  const Served demo(folder_, timeline_, "demo");
  Served chat(folder_, timeline_, "chat");
  EXPECT_EQ(Find("").status(),
            InvalidArgument("several services run here; give the name of one: chat, demo"));
  EXPECT_EQ(Find("chat")->key.name, "chat");
  chat.Kill();
  EXPECT_EQ(Find("")->key.name, "demo");
  EXPECT_EQ(FindRunningServices(environment_, timeline_).size(), 1u);
}

}  // namespace
}  // namespace janus::cli
