#include "operator/kube/reflector.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "common/check.h"
#include "operator/kube/retry.h"

namespace janus::control {
namespace {

// A watch that the server ends sooner is not what it was asked for.
constexpr Seconds kShortWatch{1};

// An answer that has more bytes than are taken.
bool IsTooLong(const ApiError& error) {
  return error.code == StatusCode::kResourceExhausted && error.http_status == 0;
}

// Whether the same call may work later. Else what came, or what was asked for, is the trouble.
bool MayCallAgain(const ApiError& error) {
  switch (error.code) {
    case StatusCode::kUnavailable:
    case StatusCode::kDeadlineExceeded:
    case StatusCode::kCancelled:
    case StatusCode::kPermissionDenied:
    case StatusCode::kFailedPrecondition:
      return true;
    case StatusCode::kResourceExhausted:
      return !IsTooLong(error);
    default:
      return false;
  }
}

MonotonicTime Add(MonotonicTime time, Seconds by) {
  return time + std::chrono::duration_cast<MonotonicTime::duration>(by);
}

}  // namespace

Reflector::Reflector(ObjectApi& api, Resource resource, ReflectorOptions options,
                     ObjectStore& store, Deliver deliver, const Timeline& timeline)
    : api_(api),
      resource_(std::move(resource)),
      options_(std::move(options)),
      keep_(options_.keep ? std::optional(options_.keep->With("metadata.resourceVersion"))
                          : std::nullopt),
      store_(store),
      deliver_(std::move(deliver)),
      timeline_(timeline),
      random_(std::random_device()()),
      page_size_(options_.page_size) {
  JANUS_CHECK(options_.page_size >= 1 && options_.max_fruitless_watches >= 1 &&
                  options_.first_pause > Seconds(0) &&
                  options_.longest_pause >= options_.first_pause,
              options_.page_size, options_.max_fruitless_watches, options_.first_pause.count(),
              options_.longest_pause.count());
}

bool Reflector::HasSynced() const {
  const MutexLock lock(mu_);
  return statistics_.lists > 0;
}

ReflectorStatistics Reflector::statistics() const {
  const MutexLock lock(mu_);
  return statistics_;
}

void Reflector::Run(const std::stop_token& stop) {
  Next next = Next::kList;
  while (!stop.stop_requested()) next = next == Next::kList ? List(stop) : Watch(stop);
}

void Reflector::Count(FunctionRef<void(ReflectorStatistics&)> change) {
  const MutexLock lock(mu_);
  const auto told_before = statistics_.told_at;
  change(statistics_);
  if (options_.metrics == nullptr) return;
  const bool is_told = statistics_.told_at != told_before;
  options_.metrics->Publish(statistics_,
                            is_told ? std::optional(timeline_.WallNow()) : std::nullopt);
}

void Reflector::DeliverDelta(const Delta& delta) {
  Count([](ReflectorStatistics& counts) { ++counts.deltas; });
  if (deliver_) deliver_(delta);
}

void Reflector::Failed(Status error) {
  Count([&](ReflectorStatistics& counts) {
    ++counts.failures;
    counts.last_error = std::move(error);
  });
}

// `error`: null where the server gave none.
void Reflector::Pause(const ApiError* error, const std::stop_token& stop) {
  ++failures_;
  Seconds pause = BackoffPause(options_.first_pause, options_.longest_pause, failures_, random_);
  if (error != nullptr) pause = std::max(pause, error->retry_after.value_or(Seconds(0)));
  timeline_.WaitUntil(Add(timeline_.Now(), pause), stop);
}

// One list from its first page on.
Reflector::Next Reflector::List(const std::stop_token& stop) {
  const auto deliver = [this](const Delta& delta) { DeliverDelta(delta); };
  std::optional<std::string> first_version;
  ListOptions options;
  options.selection = options_.selection;
  options.limit = page_size_;
  if (keep_) options.keep = &*keep_;
  Count([](ReflectorStatistics& counts) { counts.relists += counts.lists > 0 ? 1 : 0; });
  for (bool has_more = true; has_more;) {
    if (stop.stop_requested()) return Next::kList;
    ApiResult<ObjectList> page = api_.List(resource_, options, {options_.page_timeout, stop});
    if (stop.stop_requested()) return Next::kList;
    if (!page.ok()) {
      Failed(page.status());
      Pause(&page.error(), stop);
      if (IsTooLong(page.error())) {
        page_size_ = std::max<int64_t>(1, page_size_ / 2);
        options.limit = page_size_;
      } else if (!MayCallAgain(page.error())) {
        return Next::kList;  // a token that was refused once is refused again
      }
      continue;
    }
    if (!first_version) {
      first_version = page->resource_version;
      store_.BeginList();
    }
    options.continue_token = std::move(page->continue_token);
    has_more = !options.continue_token.empty();
    store_.TakePage(std::move(page->items), deliver);
    Count([](ReflectorStatistics& counts) {
      ++counts.pages;
      counts.last_error = OkStatus();
    });
  }
  store_.EndList(deliver);
  // All pages should be of one version. If they are not, the first one's is where nothing is
  // missed.
  version_ = *std::move(first_version);
  fruitless_ = 0;
  has_told_since_list_ = false;
  Count([this](ReflectorStatistics& counts) {
    ++counts.lists;
    counts.resource_version = version_;
    counts.told_at = timeline_.Now();
  });
  return Next::kWatch;
}

ObjectStore::Verdict Reflector::TakeEvent(WatchEvent event) {
  const bool is_bookmark = event.type == WatchEventType::kBookmark;
  std::string version(ResourceVersionOf(event.object));
  const ObjectStore::Verdict verdict =
      store_.TakeEvent(std::move(event), [this](const Delta& delta) { DeliverDelta(delta); });
  if (verdict == ObjectStore::Verdict::kListAgain) return verdict;
  if (!version.empty()) version_ = std::move(version);
  failures_ = 0;
  fruitless_ = 0;
  has_told_since_list_ = true;
  const bool is_unchanged = !is_bookmark && verdict == ObjectStore::Verdict::kNothingNew;
  Count([&](ReflectorStatistics& counts) {
    ++counts.events;
    counts.bookmarks += is_bookmark ? 1 : 0;
    counts.unchanged += is_unchanged ? 1 : 0;
    counts.last_error = OkStatus();
    counts.resource_version = version_;
    counts.told_at = timeline_.Now();
  });
  return verdict;
}

// One watch from version_ on.
Reflector::Next Reflector::Watch(const std::stop_token& stop) {
  WatchOptions options;
  options.selection = options_.selection;
  options.resource_version = version_;
  if (keep_) options.keep = &*keep_;
  options.timeout = options_.watch_timeout * std::uniform_real_distribution<double>(1, 2)(random_);
  Count([](ReflectorStatistics& counts) { ++counts.watches; });
  const MonotonicTime began = timeline_.Now();
  bool has_told = false;
  bool is_contradiction = false;
  const ApiResult<WatchEnd> end = api_.Watch(
      resource_, options,
      [&](WatchEvent event) {
        is_contradiction = TakeEvent(std::move(event)) == ObjectStore::Verdict::kListAgain;
        has_told = has_told || !is_contradiction;
        return !is_contradiction && !stop.stop_requested();
      },
      stop);
  if (stop.stop_requested()) return Next::kWatch;
  if (is_contradiction) {
    const ApiError lost = LocalError(OutOfRange("the watch of " + resource_.ToString() +
                                                " deleted an object it had not told of"));
    return AfterError(lost, has_told, stop);
  }
  if (!end.ok()) return AfterError(end.error(), has_told, stop);
  if (timeline_.Now() - began >= kShortWatch) {
    failures_ = 0;
    fruitless_ = 0;
    return Next::kWatch;
  }
  Failed(Unavailable("the server ended the watch of " + resource_.ToString() + " at once"));
  if (!has_told) return AfterFruitlessWatch(nullptr, stop);
  Pause(nullptr, stop);
  return Next::kWatch;
}

Reflector::Next Reflector::AfterError(const ApiError& error, bool has_told,
                                      const std::stop_token& stop) {
  Failed(error.ToStatus());
  if (error.code == StatusCode::kOutOfRange) {
    if (!has_told_since_list_) Pause(&error, stop);  // lists and watches that disagree
    return Next::kList;
  }
  if (!MayCallAgain(error)) {
    Pause(&error, stop);
    return Next::kList;
  }
  // No answer, or one that asks for patience, says nothing of the version.
  const bool is_answer = error.http_status != 0 && error.code != StatusCode::kResourceExhausted;
  if (is_answer && !has_told) return AfterFruitlessWatch(&error, stop);
  Pause(&error, stop);
  return Next::kWatch;
}

Reflector::Next Reflector::AfterFruitlessWatch(const ApiError* error, const std::stop_token& stop) {
  Pause(error, stop);
  return ++fruitless_ < options_.max_fruitless_watches ? Next::kWatch : Next::kList;
}

}  // namespace janus::control
