#pragma once

#include <memory>
#include <string>

#include "operator/planner/model_questions.h"

namespace janus::control {

// DescribeModel over gRPC, each question over a connection of its own: a worker is asked once, and
// need not be the one that relays. Thread-safe.
class GrpcModelQuestions final : public ModelQuestions {
 public:
  std::unique_ptr<ModelQuestion> Ask(const std::string& service_uid, const std::string& address,
                                     Wake wake) override;
};

}  // namespace janus::control
