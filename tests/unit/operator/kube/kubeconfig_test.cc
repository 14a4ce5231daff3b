#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "common/base64.h"
#include "operator/kube/cluster_config.h"
#include "operator/kube/object.h"
#include "operator/kube/server_url.h"
#include "tests/support/contains.h"
#include "tests/support/temp_folder.h"

namespace janus::control {
namespace {

// A kubeconfig with one context; the texts are the bodies of its cluster and user.
std::string Config(const std::string& cluster, const std::string& user) {
  return "apiVersion: v1\nkind: Config\ncurrent-context: prod\n"
         "contexts:\n- {name: prod, context: {cluster: c, user: u, namespace: ours}}\n"
         "- {name: lost, context: {cluster: none, user: u}}\n"
         "clusters:\n- {name: c, cluster: {" +
         cluster + "}}\nusers:\n- {name: u, user: {" + user + "}}\n";
}
const std::string kServer = "server: 'https://api.test:6443'";

Status Refusal(const std::string& text, const std::string& context = "") {
  return ParseKubeconfig(text, "/etc/kube/config", context).status();
}

TEST(Kubeconfig, ReadsCertificatesTokensAndPlaces) {
  const std::string pem = "-----BEGIN CERTIFICATE-----\n";
  const Result<ClusterConfig> read = ParseKubeconfig(
      Config("server: 'https://[fd00::1]:6443/k8s/', tls-server-name: api.test, "
             "certificate-authority: pki/ca.crt",
             "client-certificate-data: " + EncodeBase64(pem) + ", client-key: /pki/key"),
      "/etc/kube/config", "");
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(read->host, "fd00::1");
  EXPECT_EQ(read->port, 6443);
  EXPECT_EQ(read->path_prefix, "/k8s");
  EXPECT_EQ(read->tls_server_name, "api.test");
  EXPECT_EQ(read->ca.file, "/etc/kube/pki/ca.crt");  // relative to the kubeconfig
  EXPECT_EQ(read->client_certificate.text, pem);
  EXPECT_EQ(read->client_key.file, "/pki/key");
  EXPECT_EQ(read->namespace_, "ours");
  EXPECT_EQ(read->origin, "/etc/kube/config, context 'prod'");
}

TEST(Kubeconfig, ATokenFileGoesBeforeAToken) {
  const Result<ClusterConfig> read =
      ParseKubeconfig(Config(kServer, "token: abc, tokenFile: token"), "/etc/kube/config", "");
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(read->token, (TextSource{"", "/etc/kube/token"}));
}

TEST(Kubeconfig, ReadsAPlugin) {
  const Result<ClusterConfig> read = ParseKubeconfig(
      Config(
          kServer,
          "exec: {apiVersion: client.authentication.k8s.io/v1, command: ./login, args: [get, -v], "
          "env: [{name: A, value: b}], installHint: install it, provideClusterInfo: true, "
          "interactiveMode: IfAvailable}"),
      "/etc/kube/config", "");
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(*read->exec, (ExecPlugin{"client.authentication.k8s.io/v1",
                                     "/etc/kube/login",
                                     {"get", "-v"},
                                     {{"A", "b"}},
                                     "install it",
                                     true}));
}

TEST(Kubeconfig, ErrorsNameFileContextAndField) {
  const std::string user = "token: abc";
  EXPECT_EQ(Refusal(Config(kServer, user), "dev").message(),
            "/etc/kube/config: contexts: no context 'dev'; there are 'prod', 'lost'");
  EXPECT_EQ(Refusal(Config(kServer, user), "lost").message(),
            "/etc/kube/config: contexts[lost].cluster: no cluster 'none'; there are 'c'");
  EXPECT_TRUE(Contains(Refusal("apiVersion: v1\n").message(),
                       "current-context: is not set, and no context was asked for"));
  EXPECT_TRUE(Contains(Refusal(Config("server: ''", user)).message(),
                       "clusters[c].cluster.server: is required"));
  EXPECT_TRUE(Contains(Refusal(Config("server: 'ftp://x'", user)).message(),
                       "clusters[c].cluster.server: 'ftp://x' is neither https nor http"));
  EXPECT_TRUE(
      Contains(Refusal(Config(kServer + ", certificate-authority-data: '!'", user)).message(),
               "clusters[c].cluster.certificate-authority-data: is not base64"));
  EXPECT_TRUE(
      Contains(Refusal(Config(kServer + ", certificate-authority-data: YQ==", user)).message(),
               "certificate-authority-data: holds no PEM"));
  EXPECT_TRUE(Contains(Refusal(Config(kServer, "client-certificate: a")).message(),
                       "users[u].user.client-key: is missing"));
  EXPECT_TRUE(Contains(Refusal(Config(kServer, "exec: {apiVersion: v9, command: x}")).message(),
                       "users[u].user.exec.apiVersion: is 'v9'"));
}

TEST(Kubeconfig, APluginsArgumentsAreListsOfStrings) {
  const auto refusal = [](const std::string& field) {
    return Refusal(Config(kServer,
                          "exec: {apiVersion: client.authentication.k8s.io/v1, command: login, " +
                              field + "}"))
        .message();
  };
  const std::string at = "users[u].user.exec.";
  EXPECT_TRUE(Contains(refusal("args: get"), at + "args: must be a list of strings, is a string"));
  EXPECT_TRUE(Contains(refusal("args: {a: b}"), at + "args: must be a list of strings"));
  EXPECT_TRUE(Contains(refusal("args: [get, 1]"), at + "args[1]: must be a string, is an integer"));
  EXPECT_TRUE(Contains(refusal("env: {A: b}"), at + "env: must be a list of {name, value}"));
  EXPECT_TRUE(Contains(refusal("env: [{value: b}]"), at + "env[0].name: is required"));
  EXPECT_TRUE(Contains(refusal("env: [{name: A, value: 1}]"),
                       at + "env[0].value: must be a string, is an integer"));
}

// A list of files. The first names a context; the others contain the rest.
class KubeconfigListTest : public testing::Test {
 protected:
  KubeconfigListTest() {
    for (const char* const one : {"first", "second"}) {
      std::filesystem::create_directory(folder_.path() + "/" + one);
    }
    first_ =
        Write("first/config", "clusters:\n- {name: c, cluster: {" + kServer +
                                  ", certificate-authority: ca.crt}}\n"
                                  "contexts:\n- {name: prod, context: {cluster: c, user: u}}\n");
    second_ = Write("second/config",
                    "current-context: prod\n"
                    "clusters:\n- {name: c, cluster: {server: 'https://other', "
                    "tls-server-name: other}}\n- {name: d, cluster: {server: 'https://d'}}\n"
                    "contexts:\n- {name: prod, context: {cluster: d, user: none}}\n"
                    "users:\n- {name: u, user: {tokenFile: token}}\n");
  }
  std::string Write(const std::string& name, const std::string& text) {
    folder_.Write(name, text);
    return folder_.path() + "/" + name;
  }

  TempFolder folder_;
  std::string first_;
  std::string second_;
};

TEST_F(KubeconfigListTest, TheFirstFileThatSetsAValueWins) {
  const Result<ClusterConfig> read = LoadKubeconfig(first_ + "::/no/such/file:" + second_, "");
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(read->host, "api.test");
  EXPECT_EQ(read->tls_server_name, "");  // no field of the second file's cluster 'c'
  // Each path is relative to its own file's folder.
  EXPECT_EQ(read->ca.file, folder_.path() + "/first/ca.crt");
  EXPECT_EQ(read->token.file, folder_.path() + "/second/token");
  EXPECT_EQ(read->origin, first_ + ", context 'prod'");
  // In reverse order there is no user 'none'.
  EXPECT_EQ(LoadKubeconfig(second_ + ":" + first_, "").status().message(),
            second_ + ": contexts[prod].user: no user 'none'; there are 'u'");
}

TEST_F(KubeconfigListTest, TheFirstCurrentContextWins) {
  const std::string third = Write("third", "current-context: dev\n");
  EXPECT_EQ(
      LoadKubeconfig(third + ":" + first_ + ":" + second_, "").status().message(),
      third + ":" + first_ + ":" + second_ + ": contexts: no context 'dev'; there are 'prod'");
  EXPECT_TRUE(LoadKubeconfig(first_ + ":" + second_ + ":" + third, "").ok());
}

TEST_F(KubeconfigListTest, SaysWhenNoneIsThereAndWhichIsNoKubeconfig) {
  const Status none = LoadKubeconfig("/no/such/file:/nor/this", "").status();
  EXPECT_EQ(none.code(), StatusCode::kNotFound);
  EXPECT_EQ(LoadKubeconfig(":", "").status().code(), StatusCode::kNotFound);
  const std::string broken = Write("broken", "{");
  EXPECT_TRUE(Contains(LoadKubeconfig(first_ + ":" + broken, "").status().message(), broken));
}

TEST(Kubeconfig, WhatIsNotSupportedIsRefusedByName) {
  for (const std::string user :
       {"username: a", "password: b", "auth-provider: {name: x}", "as: root"}) {
    const std::string field = user.substr(0, user.find(':'));
    EXPECT_TRUE(Contains(Refusal(Config(kServer, user)).message(),
                         "users[u].user." + field + ": is not supported"));
  }
  EXPECT_TRUE(Contains(Refusal(Config(kServer + ", proxy-url: 'http://p'", "")).message(),
                       "proxy-url: is not supported"));
  EXPECT_TRUE(Contains(
      Refusal(Config(kServer + ", insecure-skip-tls-verify: true, certificate-authority: a", ""))
          .message(),
      "insecure-skip-tls-verify: is true and a certificate-authority is given"));
}

TEST(Kubeconfig, WhatIsLeftEmptyIsNotAskedFor) {
  const Status taken = Refusal(Config(kServer + ", proxy-url: ''",
                                      "token: a, username: '', password: , as: '', as-groups: []"));
  EXPECT_TRUE(taken.ok()) << taken.ToString();
}

TEST(Kubeconfig, ReadsWhatAClusterHasForPlugins) {
  const auto config = [](const std::string& extensions) {
    return ParseKubeconfig(Config(kServer + ", extensions: " + extensions, ""), "config", "");
  };
  const Result<ClusterConfig> told = config(
      "[{name: other, extension: 1},"
      " {name: client.authentication.k8s.io/exec, extension: {audience: ours}}]");
  ASSERT_TRUE(told.ok()) << told.status().ToString();
  EXPECT_EQ(TextAt(told->plugin_config, {"audience"}), "ours");
  EXPECT_TRUE(config("[{name: other, extension: 1}]")->plugin_config == Node());
  EXPECT_TRUE(Contains(config("1").status().message(),
                       "clusters[c].cluster.extensions: must be a list of {name, extension}"));
}

TEST(ServerUrl, TakesWhatKubeconfigsHold) {
  const auto check = [](std::string_view text, bool tls, const std::string& host, int port,
                        const std::string& prefix) {
    const Result<ServerUrl> url = ParseServerUrl(text);
    ASSERT_TRUE(url.ok()) << text;
    EXPECT_EQ(url->use_tls, tls) << text;
    EXPECT_EQ(url->host, host) << text;
    EXPECT_EQ(url->port, port) << text;
    EXPECT_EQ(url->path_prefix, prefix) << text;
  };
  check("https://10.0.0.1", true, "10.0.0.1", 443, "");
  check("http://localhost:8080/", false, "localhost", 8080, "");
  check("api.test:6443", true, "api.test", 6443, "");
  check("https://[::1]/a/b", true, "::1", 443, "/a/b");
  for (const std::string_view bad :
       {"", "https://", "https://:1", "https://a:0", "https://a:65536", "https://a:1x",
        "https://a:", "https://[::1", "https://u@a", "https://a?b"}) {
    EXPECT_FALSE(ParseServerUrl(bad).ok()) << bad;
  }
}

TEST(InCluster, ReadsTheServiceAccountsFolder) {
  const TempFolder folder;
  folder.Write("token", "abc\n");
  folder.Write("ca.crt", "pem");
  folder.Write("namespace", "ours\n");
  const Result<ClusterConfig> read = InClusterConfig(folder.path(), "10.96.0.1", "443");
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(read->host, "10.96.0.1");
  EXPECT_EQ(read->port, 443);
  EXPECT_EQ(read->namespace_, "ours");
  EXPECT_EQ(read->token.file, folder.path() + "/token");
  EXPECT_EQ(read->ca.file, folder.path() + "/ca.crt");
}

TEST(InCluster, SaysWhatIsMissing) {
  const TempFolder folder;
  EXPECT_TRUE(Contains(InClusterConfig(folder.path(), "", "").status().message(), "not in a pod"));
  EXPECT_TRUE(Contains(InClusterConfig(folder.path(), "10.96.0.1", "443").status().message(),
                       "automountServiceAccountToken"));
  EXPECT_TRUE(Contains(InClusterConfig(folder.path(), "10.96.0.1", "70000").status().message(),
                       "KUBERNETES_SERVICE_PORT is '70000'"));
}

}  // namespace
}  // namespace janus::control
