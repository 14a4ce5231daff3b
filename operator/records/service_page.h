#pragma once

#include <string>
#include <string_view>

#include "common/clock.h"
#include "operator/records/record_book.h"

namespace janus::control {

// Records over HTTP, read only: for the page, janusctl explain, top, place and simulate.
//
//   /v1/services                          {"services": [{"namespace", "name"}]}
//   /v1/services/<namespace>/<name>       one JSON object: targets, counts, series, decisions,
//                                         the hold that forbids to decide now (null: none does),
//                                         model error, placement, as operator/page reads it
//   .../<name>/since/<time>               the same with the points and decisions after that time,
//                                         so that a page that polls reads the rest once
//   .../<name>/worlds                     lines that can be replayed (record_lines.h)
//   /v1/steps, /v1/steps/<namespace>/<name>
//                                         the services with a recorded step, and how it went
//                                         (step_page.h), in the lowest pool that has one; decisions
//                                         need not be made for them
//   /v1/steps/<namespace>/<name>/pools/<pool>
//                                         the same of that pool
//   .../<name>/routing                    CSV of sampled routing, for janusctl place: a row per
//                                         token, a column layer<i> with its experts. Layers are
//                                         sampled apart, so a row has a token of each
//
// Times are seconds since 1970, latencies seconds, errors a v1 Status.
struct RecordsAnswer {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
};

// `path`: without a query. 404: no such path, no records of that service, or a time that is no
// number.
RecordsAnswer AnswerRecords(const RecordBook& book, std::string_view path, WallTime now);

}  // namespace janus::control
