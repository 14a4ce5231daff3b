#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "operator/planner/model_questions.h"

namespace janus::control {

// Questions that are answered when the test says.
class ScriptedQuestions final : public ModelQuestions {
 public:
  struct Asked {
    std::string uid;
    std::string address;
    Wake wake;
    std::optional<Result<ModelReport>> result = std::nullopt;
    bool is_cancelled = false;
  };

  std::unique_ptr<ModelQuestion> Ask(const std::string& uid, const std::string& address,
                                     Wake wake) override {
    asked.push_back({uid, address, std::move(wake)});
    return std::make_unique<Question>(asked.back());
  }
  void Answer(Result<ModelReport> result) {
    asked.back().result = std::move(result);
    asked.back().wake();
  }
  std::string last() const { return asked.empty() ? "" : asked.back().address; }

  std::deque<Asked> asked;  // an element stays where it is

 private:
  class Question final : public ModelQuestion {
   public:
    explicit Question(Asked& asked) : asked_(asked) {}
    ~Question() override { asked_.is_cancelled = !asked_.result; }
    bool done() const override { return asked_.result.has_value(); }
    Result<ModelReport> result() const override { return *asked_.result; }

   private:
    Asked& asked_;
  };
};

}  // namespace janus::control
