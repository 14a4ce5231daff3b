#pragma once

#include <map>
#include <optional>
#include <string>

#include "common/measured_link.h"
#include "common/mutex.h"
#include "common/topology.h"

namespace janus::dataplane {

// The links to expert nodes that this process has measured, over all its epochs. So a later epoch
// with the same nodes is prepared without measuring. Thread-safe.
class LinkBook {
 public:
  std::optional<MeasuredLink> Find(const std::string& expert_node) const;
  void Put(const std::string& expert_node, const MeasuredLink& link);
  // Forgets nodes without an expert instance in the topology, and all of them if its transport is
  // another than the last one's. It bounds the book.
  void KeepOnly(const Topology& topology);

 private:
  mutable Mutex mu_;
  std::map<std::string, MeasuredLink> links_ JANUS_GUARDED_BY(mu_);
  ExchangeTransport transport_ JANUS_GUARDED_BY(mu_) = ExchangeTransport::kAuto;
};

}  // namespace janus::dataplane
