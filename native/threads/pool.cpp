#include "threads/pool.hpp"

#include <sched.h>

#include <map>
#include <stdexcept>
#include <system_error>
#include <utility>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace ga {
namespace {

// Some 200 microseconds: longer than the gap between passes of a decoding loop. (Waking a worker that sleeps
// takes 30, in every pass of a drafter.) With more workers than processors, who spins keeps another from
// working.
constexpr int kSpins = 16000;

void pause() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// The floating-point control word of the current thread, set to the defaults while this object lives.
class PlainFloats {
 public:
#if defined(__x86_64__)
  PlainFloats() : saved_(_mm_getcsr()) { _mm_setcsr(0x1f80); }
  ~PlainFloats() { _mm_setcsr(saved_); }

 private:
  const unsigned saved_;
#elif defined(__aarch64__)
  PlainFloats() {
    asm volatile("mrs %0, fpcr" : "=r"(saved_));
    asm volatile("msr fpcr, %0" ::"r"(std::uint64_t{0}));
  }
  ~PlainFloats() { asm volatile("msr fpcr, %0" ::"r"(saved_)); }

 private:
  std::uint64_t saved_;
#endif
};

// How many processors this process may use.
int num_processors() {
#if defined(__linux__)
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) return CPU_COUNT(&allowed);
#endif
  return static_cast<int>(std::thread::hardware_concurrency());
}

}  // namespace

std::shared_ptr<Pool> Pool::shared(int threads) {
  static std::mutex mutex;
  static std::map<std::pair<int, int>, std::weak_ptr<Pool>> pools;
  if (threads < 1) throw std::invalid_argument("pool: at least one thread is needed");
  const int spins = threads <= num_processors() ? kSpins : 0;
  const std::lock_guard lock(mutex);
  std::weak_ptr<Pool>& known = pools[{threads, spins}];
  std::shared_ptr<Pool> pool = known.lock();
  if (pool == nullptr) known = pool = std::shared_ptr<Pool>(new Pool(threads, spins));
  return pool;
}

Pool::Pool(int threads, int spins) : size_(threads), spins_(spins) { start(); }

void Pool::start() {
  try {
    for (int worker = 1; worker < size_; ++worker) threads_.emplace_back([this, worker] { serve(worker); });
  } catch (const std::system_error&) {
    size_ = 1 + static_cast<int>(threads_.size());  // a limit of the system; fewer workers do the same work
  }
}

Pool::~Pool() {
  stop_.store(true);
  round_.fetch_add(1);
  round_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Pool::after_fork_in_child() {
  // The handles stay where they are: there is no thread that could be joined or detached.
  new std::vector<std::thread>(std::move(threads_));
  threads_.clear();
  round_.store(0);
  mutex_.unlock();
}

void Pool::serve(int worker) {
  std::uint32_t seen = 0;
  while (true) {
    for (int i = 0; i < spins_ && round_.load(std::memory_order_acquire) == seen; ++i) pause();
    round_.wait(seen, std::memory_order_acquire);
    ++seen;
    if (stop_.load()) return;
    {
      const PlainFloats guard;
      (*job_)(worker);
    }
    barrier();
  }
}

void Pool::run(const std::function<void(int)>& job) {
  const std::lock_guard lock(mutex_);
  if (threads_.empty()) start();
  const PlainFloats guard;
  job_ = &job;
  if (size_ > 1) {
    round_.fetch_add(1, std::memory_order_release);
    round_.notify_all();
  }
  job(0);
  barrier();
}

void Pool::barrier() {
  if (size_ == 1) return;
  const std::uint32_t phase = phase_.load(std::memory_order_acquire);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) == size_ - 1) {
    arrived_.store(0, std::memory_order_relaxed);
    phase_.store(phase + 1, std::memory_order_release);
    return;
  }
  for (int spins = 0; phase_.load(std::memory_order_acquire) == phase; ++spins) {
    if (spins < spins_)
      pause();
    else
      sched_yield();
  }
}

}  // namespace ga
