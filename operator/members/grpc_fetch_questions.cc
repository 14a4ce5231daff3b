#include "operator/members/grpc_fetch_questions.h"

#include <chrono>
#include <utility>

#include "operator/members/grpc_question.h"
#include "proto/fetch.grpc.pb.h"

namespace janus::control {
namespace {

constexpr std::chrono::seconds kAnswer{5};

using Question =
    GrpcQuestion<FetchQuestion, v1::Fetch, v1::LookRequest, v1::FetchProgress, FetchProgress>;

}  // namespace

std::unique_ptr<FetchQuestion> GrpcFetchQuestions::Ask(const std::string& address, Wake wake) {
  return std::make_unique<Question>(
      address, nullptr, v1::LookRequest(), kAnswer, std::move(wake),
      [](auto& stub, auto... call) { stub.Look(std::move(call)...); });
}

}  // namespace janus::control
