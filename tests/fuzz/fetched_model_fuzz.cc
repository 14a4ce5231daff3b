// What a Job's container reports, and a checkpoint's index for a role: what is accepted is a
// commit, and names files of the index alone.

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "common/check.h"
#include "dataplane/fetch/wanted_shards.h"
#include "hub/names.h"
#include "hub/selection.h"
#include "operator/reconcile/model/fetched_model.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view json(reinterpret_cast<const char*>(data), size);
  if (const auto report = janus::control::ParseFetchReport(json)) {
    JANUS_CHECK(janus::hub::IsCommit(report->commit), report->commit);
    JANUS_CHECK(report->bytes >= 0, report->bytes);
  }
  janus::ModelDescription model;
  model.family = "mixtral";
  model.layers = 2;
  using janus::dataplane::FetchFor;
  const auto all = janus::hub::ParseShardIndex(json);
  for (const FetchFor reader : {FetchFor::kAttention, FetchFor::kExperts, FetchFor::kAll}) {
    const auto shards = janus::dataplane::ShardsInIndex(json, model, reader);
    if (!shards.ok()) continue;
    JANUS_CHECK(all.ok() && !shards->empty(), size);
    for (const std::string& name : *shards) {
      JANUS_CHECK(std::ranges::find(*all, name) != all->end(), name);
    }
  }
  return 0;
}
