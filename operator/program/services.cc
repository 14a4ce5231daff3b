#include "operator/program/services.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <utility>

#include "operator/kube/client.h"
#include "operator/program/options.h"
#include "operator/reconcile/objects/names.h"

namespace janus::control {

namespace {

// Adds the services of one namespace, or of all.
ApiResult<std::monostate> AddServices(ObjectApi& api, const std::string& ns,
                                      std::vector<std::string>* out) {
  ListOptions options;
  options.selection.namespace_ = ns;
  do {
    ApiResult<ObjectList> page = api.List(kMoEServices, options, {});
    if (!page.ok()) {
      if (page.error().code == StatusCode::kNotFound) return std::monostate();
      return std::move(page).error();
    }
    for (const Node& one : page->items) {
      const ObjectKey key = KeyOf(one);
      out->push_back(key.namespace_ + "/" + key.name);
    }
    options.continue_token = page->continue_token;
  } while (!options.continue_token.empty());
  return std::monostate();
}

}  // namespace

ApiResult<std::vector<std::string>> ServicesIn(ObjectApi& api,
                                               const std::vector<std::string>& namespaces) {
  std::vector<std::string> out;
  for (const std::string& ns : namespaces.empty() ? std::vector<std::string>{""} : namespaces) {
    if (ApiResult<std::monostate> added = AddServices(api, ns, &out); !added.ok()) {
      return std::move(added).error();
    }
  }
  return out;
}

int RunServices(int argc, const char* const* argv) {
  OperatorOptions options;
  CLI::App app{
      "janus-operator services lists all MoEServices. The exit status is 1 if there are any.",
      "janus-operator services"};
  DeclareNamespaces(app, "--namespace", options);
  DeclareKubeconfig(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  const auto fail = [](const std::string& why) {
    std::fprintf(stderr, "janus-operator services: %s\n", why.c_str());
    return 2;
  };
  const Result<ClusterConfig> config = ConfigOf(options);
  if (!config.ok()) return fail(config.status().message());
  const SystemTimeline timeline;
  KubeClient client(*config, {}, timeline);
  const ApiResult<std::vector<std::string>> there = ServicesIn(client, options.namespaces);
  if (!there.ok()) return fail(there.error().message);
  for (const std::string& one : *there) std::printf("%s\n", one.c_str());
  if (there->empty()) return 0;
  std::fprintf(stderr,
               "janus-operator services: %zu MoEService(s) would run without an operator; delete "
               "them first\n",
               there->size());
  return 1;
}

}  // namespace janus::control
