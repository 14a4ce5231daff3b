#include "operator/kube/event_book.h"

#include <algorithm>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "common/check.h"
#include "common/fingerprint.h"
#include "common/utf8.h"
#include "operator/api/rfc3339.h"
#include "operator/kube/retry.h"

namespace janus::control {
namespace {

// Limits of the API server.
constexpr size_t kMaxNote = 1024;
constexpr size_t kMaxWord = 128;
constexpr size_t kMaxName = 253;

MonotonicTime Add(MonotonicTime time, Seconds by) {
  return time + std::chrono::duration_cast<MonotonicTime::duration>(by);
}

// Notes contain foreign text; invalid UTF-8 would make the server refuse the Event.
std::string Note(std::string text) {
  if (text.size() > kMaxNote) {
    constexpr std::string_view kCut = "...";
    size_t end = kMaxNote - kCut.size();
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
    text.replace(end, std::string::npos, kCut);
  }
  for (size_t from = 0;;) {
    const size_t broken = FindBrokenUtf8(std::string_view(text).substr(from));
    if (broken == std::string_view::npos) return text;
    text[from + broken] = '?';
    from += broken + 1;
  }
}

bool MayTryAgain(const ApiError& error) {
  switch (error.code) {
    case StatusCode::kUnavailable:
    case StatusCode::kDeadlineExceeded:
    case StatusCode::kResourceExhausted:
    case StatusCode::kAborted:
    case StatusCode::kDataLoss:
      return true;
    default:
      return false;
  }
}

Fingerprint& MixAll(Fingerprint& hash, std::initializer_list<std::string_view> texts) {
  for (const std::string_view text : texts) hash.Mix(uint64_t{text.size()}).Mix(text);
  return hash;
}

Fingerprint HashOf(const ObjectReference& object) {
  Fingerprint hash;
  return MixAll(
      hash, {object.api_version, object.kind, object.key.namespace_, object.key.name, object.uid});
}

const char* TypeOf(const Happening& happening) {
  return happening.type == EventType::kNormal ? "Normal" : "Warning";
}

Fingerprint HashOf(const Happening& happening) {
  Fingerprint hash = HashOf(happening.regarding);
  return MixAll(hash, {TypeOf(happening), happening.reason, happening.action, happening.note});
}

Node SeriesOf(int64_t count, WallTime last) {
  Node out = Node::Map();
  out.Add("count", Node::Integer(count));
  out.Add("lastObservedTime", Node::String(FormatMicroTime(last)));
  return out;
}

}  // namespace

ObjectReference ReferenceTo(const Node& object) {
  return {std::string(TextAt(object, {"apiVersion"})), std::string(TextAt(object, {"kind"})),
          KeyOf(object), std::string(UidOf(object))};
}

EventBook::EventBook(EventBookOptions options, MonotonicTime now)
    : options_(std::move(options)),
      random_(RandomOf(options_.seed)),
      limit_(options_.per_second, options_.burst, now),
      turn_(limit_.Take(now)) {
  JANUS_CHECK(!options_.controller.empty() && !options_.instance.empty() &&
                  options_.instance.size() <= kMaxWord && options_.capacity >= 1 &&
                  options_.max_attempts >= 1,
              options_.controller, options_.instance, options_.capacity, options_.max_attempts);
}

bool EventBook::HasEnded(const Series& series, MonotonicTime now) const {
  return series.IsWritten() && now > Add(series.last_at, options_.series_end);
}

// True if there is room for one more series.
bool EventBook::MakeRoom() {
  if (series_.size() < options_.capacity) return true;
  auto oldest = series_.end();
  for (auto it = series_.begin(); it != series_.end(); ++it) {
    if (!it->second.IsWritten()) continue;
    if (oldest == series_.end() || it->second.last_at < oldest->second.last_at) oldest = it;
  }
  if (oldest == series_.end()) return false;
  series_.erase(oldest);
  return true;
}

bool EventBook::IsWithinLimit(const ObjectReference& object, MonotonicTime now) {
  const uint64_t hash = HashOf(object).value();
  auto found = limits_.find(hash);
  if (found == limits_.end()) {
    if (limits_.size() >= options_.capacity) {
      limits_.erase(std::min_element(limits_.begin(), limits_.end(), [](auto& a, auto& b) {
        return a.second.last_used < b.second.last_used;
      }));
    }
    const RateLimit fresh(options_.object_per_second, options_.object_burst, now);
    found = limits_.try_emplace(hash, ObjectLimit{fresh, now}).first;
  }
  found->second.last_used = now;
  return found->second.limit.TryTake(now);
}

ObjectKey EventBook::NameOf(const Happening& happening, WallTime first) const {
  Fingerprint hash = HashOf(happening);
  MixAll(hash, {options_.controller, options_.instance, FormatMicroTime(first)});
  const std::string suffix = "." + hash.Hex();
  std::string name = happening.regarding.key.name.substr(0, kMaxName - suffix.size());
  while (!name.empty() && (name.back() == '.' || name.back() == '-')) name.pop_back();
  // Events about cluster-scoped objects go to "default".
  const bool has_namespace = !happening.regarding.key.namespace_.empty();
  return {has_namespace ? happening.regarding.key.namespace_ : "default", name + suffix};
}

void EventBook::Record(Happening happening, MonotonicTime now, WallTime wall) {
  JANUS_CHECK(!happening.reason.empty() && happening.reason.size() <= kMaxWord &&
                  !happening.action.empty() && happening.action.size() <= kMaxWord,
              happening.reason, happening.action);
  happening.note = Note(std::move(happening.note));
  ++statistics_.recorded;
  const uint64_t hash = HashOf(happening).value();
  const auto found = series_.find(hash);
  if (found != series_.end()) {
    Series& series = found->second;
    if (!HasEnded(series, now)) {
      ++statistics_.repeats;
      ++series.count;
      series.last = wall;
      series.last_at = now;
      if (series.IsWritten()) {
        series.happening = std::make_unique<Happening>(std::move(happening));
        series.due = std::max(now, Add(series.written_at, options_.series_period));
      }
      return;
    }
    series_.erase(found);
  }
  if (!IsWithinLimit(happening.regarding, now)) {
    ++statistics_.dropped_limited;
    return;
  }
  if (!MakeRoom()) {
    ++statistics_.dropped_full;
    return;
  }
  Series series;
  series.happening = std::make_unique<Happening>(std::move(happening));
  series.first = wall;
  series.last = wall;
  series.last_at = now;
  series.due = now;
  series_.emplace(hash, std::move(series));
}

// The series that is due first; end: none.
EventBook::SeriesMap::iterator EventBook::NextDue() {
  auto next = series_.end();
  for (auto it = series_.begin(); it != series_.end(); ++it) {
    if (!it->second.due) continue;
    if (next == series_.end() || *it->second.due < *next->second.due) next = it;
  }
  return next;
}

Node EventBook::EventOf(const ObjectKey& event, const Series& series) const {
  const Happening& happening = *series.happening;
  Node out = Node::Map();
  out.Add("apiVersion", Node::String(EventResource().ApiVersion()));
  out.Add("kind", Node::String(EventResource().kind));
  SetAt(out, {"metadata", "name"}, Node::String(event.name));
  SetAt(out, {"metadata", "namespace"}, Node::String(event.namespace_));
  out.Add("eventTime", Node::String(FormatMicroTime(series.first)));
  out.Add("reportingController", Node::String(options_.controller));
  out.Add("reportingInstance", Node::String(options_.instance));
  out.Add("type", Node::String(TypeOf(happening)));
  out.Add("reason", Node::String(happening.reason));
  out.Add("action", Node::String(happening.action));
  out.Add("note", Node::String(happening.note));
  Node& regarding = out.Add("regarding", Node::Map());
  for (const auto& [name, value] : {std::pair{"apiVersion", &happening.regarding.api_version},
                                    {"kind", &happening.regarding.kind},
                                    {"namespace", &happening.regarding.key.namespace_},
                                    {"name", &happening.regarding.key.name},
                                    {"uid", &happening.regarding.uid}}) {
    if (!value->empty()) regarding.Add(name, Node::String(*value));
  }
  if (series.count > 1) out.Add("series", SeriesOf(series.count, series.last));
  return out;
}

std::optional<EventBook::Write> EventBook::TakeWrite(MonotonicTime now) {
  if (now < turn_) return std::nullopt;
  std::erase_if(series_, [&](const auto& entry) { return HasEnded(entry.second, now); });
  const auto next = NextDue();
  if (next == series_.end() || *next->second.due > now) return std::nullopt;
  turn_ = limit_.Take(now);
  Series& series = next->second;
  series.due.reset();
  series.is_writing = true;
  Write write;
  write.series = next->first;
  write.event = NameOf(*series.happening, series.first);
  write.is_create = series.written == 0;
  write.count = series.count;
  if (write.is_create) {
    write.body = EventOf(write.event, series);
  } else {
    write.body = Node::Map();
    write.body.Add("series", SeriesOf(series.count, series.last));
  }
  return write;
}

void EventBook::Finish(const Write& write, const ApiError* error, MonotonicTime now) {
  const auto found = series_.find(write.series);
  JANUS_CHECK(found != series_.end() && found->second.is_writing, write.event.ToString());
  Series& series = found->second;
  series.is_writing = false;
  // Our Event, by (2): an earlier create succeeded, but its reply was lost. It counted at least
  // one.
  const bool is_there =
      error != nullptr && write.is_create && error->code == StatusCode::kAlreadyExists;
  if (error == nullptr || is_there) {
    statistics_.last_error = OkStatus();
    ++(write.is_create ? statistics_.created : statistics_.patched);
    series.attempts = 0;
    series.written = is_there ? 1 : write.count;
    series.written_at = now;
    if (series.count > series.written) {
      series.due = Add(now, options_.series_period);
    } else {
      series.happening.reset();
    }
    return;
  }
  statistics_.last_error = error->ToStatus();
  if (error->code == StatusCode::kCancelled) {
    series.due = now;
  } else if (!write.is_create && error->code == StatusCode::kNotFound) {
    // The server removes Events after a while (an hour by default).
    series.written = 0;
    series.due = now;
  } else if (MayTryAgain(*error) && ++series.attempts < options_.max_attempts) {
    const Seconds pause =
        BackoffPause(options_.first_pause, options_.longest_pause, series.attempts, random_);
    series.due = Add(now, std::max(pause, error->retry_after.value_or(Seconds(0))));
  } else {
    ++statistics_.dropped_failed;
    series_.erase(found);
  }
}

void EventBook::Hasten(MonotonicTime now) {
  for (auto& [happening, series] : series_) {
    if (series.due) series.due = std::min(*series.due, now);
  }
}

std::optional<MonotonicTime> EventBook::NextDeadline() const {
  std::optional<MonotonicTime> earliest;
  for (const auto& [happening, series] : series_) {
    if (series.due && (!earliest || *series.due < *earliest)) earliest = series.due;
  }
  if (!earliest) return std::nullopt;
  return std::max(*earliest, turn_);
}

size_t EventBook::depth() const {
  return static_cast<size_t>(std::count_if(
      series_.begin(), series_.end(), [](const auto& entry) { return !entry.second.IsWritten(); }));
}

const Resource& EventResource() {
  static const Resource kEvents{"events.k8s.io", "v1", "events", "Event", true};
  return kEvents;
}

}  // namespace janus::control
