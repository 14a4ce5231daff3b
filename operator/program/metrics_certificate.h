#pragma once

#include <memory>
#include <optional>
#include <string>

#include "common/log.h"
#include "operator/kube/timeline.h"
#include "rpc/page_server.h"

namespace janus::control {

// The certificate of the metrics port: tls.crt and tls.key of a folder, such as a mounted Secret,
// read again for each connection. Without a folder: one of our own, which no reader can verify,
// made anew every 30 days. Confined to the thread of its PageServer.
class MetricsCertificate {
 public:
  // `folder`: empty: none. `timeline` outlives this.
  MetricsCertificate(std::string folder, const Timeline& timeline, Logger log)
      : folder_(std::move(folder)), timeline_(timeline), log_(log) {}

  // The same pointer as before while nothing changes. If the files cannot be read or do not match,
  // the last good pair; null: none.
  std::shared_ptr<const PageCertificate> Now();

 private:
  Status Read();
  Status Make();

  const std::string folder_;
  const Timeline& timeline_;
  const Logger log_;
  std::shared_ptr<const PageCertificate> now_;
  std::optional<WallTime> made_;  // when we made our own
};

}  // namespace janus::control
