#include "threads/fork.hpp"

#include <pthread.h>

#include <algorithm>
#include <vector>

namespace ga {
namespace {

struct Registry {
  std::mutex mutex;
  std::vector<ForkAware*> all;
};

Registry& registry();

void before() {
  registry().mutex.lock();
  for (ForkAware* each : registry().all) each->before_fork();
}
void in_parent() {
  for (ForkAware* each : registry().all) each->after_fork_in_parent();
  registry().mutex.unlock();
}
void in_child() {
  for (ForkAware* each : registry().all) each->after_fork_in_child();
  registry().mutex.unlock();
}

// Lives until the process ends: objects may end after all static ones.
Registry& registry() {
  static Registry* const made = [] {
    pthread_atfork(before, in_parent, in_child);
    return new Registry;
  }();
  return *made;
}

}  // namespace

ForkAware::ForkAware() {
  Registry& known = registry();
  const std::lock_guard lock(known.mutex);
  known.all.push_back(this);
}

ForkAware::~ForkAware() {
  Registry& known = registry();
  const std::lock_guard lock(known.mutex);
  known.all.erase(std::find(known.all.begin(), known.all.end(), this));
}

}  // namespace ga
