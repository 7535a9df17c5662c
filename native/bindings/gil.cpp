#include "bindings/gil.hpp"

#include <atomic>
#include <chrono>
#include <thread>

namespace nb = nanobind;

namespace {

std::atomic<bool> ending{false};
std::thread::id last_thread;  // the one that ends the process

// The number of threads that are about to take the lock, or have just taken it.
struct Returning : ga::ForkAware {
  std::atomic<int> count{0};
  void after_fork_in_child() override { count.store(0); }
};
Returning& returning() {
  static Returning* const made = new Returning;  // threads outlive static objects
  return *made;
}

// The last call that Python makes of this module, while other threads can still take the lock.
void end() {
  last_thread = std::this_thread::get_id();
  ending.store(true);
  const nb::gil_scoped_release release;
  while (returning().count.load() > 0) std::this_thread::yield();
}

}  // namespace

WithoutGil::~WithoutGil() {
  // Either `end` sees that this thread is returning, or this thread sees that the process is ending.
  returning().count.fetch_add(1);
  if (ending.load() && std::this_thread::get_id() != last_thread) {
    returning().count.fetch_sub(1);
    if (held_ != nullptr && held_->owns_lock()) held_->unlock();
    while (true) std::this_thread::sleep_for(std::chrono::hours(1));
  }
  PyEval_RestoreThread(state_);
  returning().count.fetch_sub(1);
}

void watch_exit() { nb::module_::import_("atexit").attr("register")(nb::cpp_function(&end)); }
