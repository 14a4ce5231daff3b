#include "operator/program/services.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <utility>

#include "operator/kube/client.h"
#include "operator/program/options.h"
#include "operator/reconcile/names.h"

namespace janus::control {

ApiResult<std::vector<std::string>> ServicesIn(ObjectApi& api, const std::string& ns) {
  std::vector<std::string> out;
  ListOptions options;
  options.selection.namespace_ = ns;
  do {
    ApiResult<ObjectList> page = api.List(kMoEServices, options, {});
    if (!page.ok()) {
      if (page.error().code == StatusCode::kNotFound) return std::vector<std::string>();
      return std::move(page).error();
    }
    for (const Node& one : page->items) {
      const ObjectKey key = KeyOf(one);
      out.push_back(key.namespace_ + "/" + key.name);
    }
    options.continue_token = page->continue_token;
  } while (!options.continue_token.empty());
  return out;
}

int RunServices(int argc, const char* const* argv) {
  OperatorOptions options;
  CLI::App app{"Prints the MoEServices that there are; ends with 1 while there are any.",
               "janus-operator services"};
  app.add_option("--namespace", options.ns, "of this namespace alone (all)");
  app.add_option("--kubeconfig", options.kubeconfig,
                 "file that says where the API server is; else the pod's service account")
      ->envname("KUBECONFIG");
  app.add_option("--context", options.context, "of the kubeconfig (its current-context)");
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
  const ApiResult<std::vector<std::string>> there = ServicesIn(client, options.ns);
  if (!there.ok()) return fail(there.error().message);
  for (const std::string& one : *there) std::printf("%s\n", one.c_str());
  if (there->empty()) return 0;
  std::fprintf(stderr,
               "janus-operator services: %zu MoEService(s) would be kept by nobody; delete them "
               "first\n",
               there->size());
  return 1;
}

}  // namespace janus::control
