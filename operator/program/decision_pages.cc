#include "operator/program/decision_pages.h"

#include <string>
#include <utility>

#include "operator/page/page.h"
#include "operator/records/service_page.h"

namespace janus::control {

bool IsThisMachine(std::string_view host) {
  const size_t colon = host.rfind(':');
  const size_t bracket = host.rfind(']');
  const bool has_port =
      colon != std::string_view::npos && (bracket == std::string_view::npos || colon > bracket);
  if (has_port) host = host.substr(0, colon);
  return host == "localhost" || host == "127.0.0.1" || host == "[::1]";
}

PageServer::OtherPages DecisionPages(const RecordBook& records, const Clock& clock) {
  return [&records, &clock](const std::string& path, const std::string& host) {
    if (!IsThisMachine(host)) {
      return Page{421, "open this page as http://127.0.0.1:PORT/\n"};
    }
    if (path == "/") return Page{200, std::string(DecisionsPage()), "text/html; charset=utf-8"};
    RecordsAnswer answer = AnswerRecords(records, path, clock.WallNow());
    return Page{answer.status, std::move(answer.body), answer.content_type};
  };
}

}  // namespace janus::control
