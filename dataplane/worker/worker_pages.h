#pragma once

#include <functional>
#include <string>

#include "common/exposition/metrics_text.h"
#include "rpc/page_server.h"

namespace janus::dataplane {

// GET /metrics for a scraper, and a kubelet's probes (api.md, ports): /startup, /ready and /live.
// /startup and /ready succeed once the server runs, because a worker's readiness depends on no
// peer. `text` is called for every scrape, and `live` for every /live, which only needs `live` to
// return.
inline PageServer::Pages WorkerPages(std::function<std::string()> text,
                                     std::function<void()> live) {
  const auto ok = [] { return Page{200, "ok\n"}; };
  return {{"/metrics",
           [text = std::move(text)] {
             return Page{200, text(), kPrometheusContentType};
           }},
          {"/startup", ok},
          {"/ready", ok},
          {"/live", [live = std::move(live), ok] {
             live();
             return ok();
           }}};
}

}  // namespace janus::dataplane
