#include "threads/pool.hpp"

#include <sched.h>

#include <algorithm>
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
// At a barrier, some 20 to 60 microseconds: the others are about to come, or do not run at all.
constexpr int kBarrierSpins = 2000;
// A job is stalled if waiting takes this share of its time, and not only a moment. One stalled job is chance;
// after a second one, or after so long, it goes on with one worker less. One more is tried after 8 to 64
// jobs.
constexpr int kStalledShare = 3;
constexpr std::chrono::nanoseconds kMoment{500'000}, kLong{10'000'000};
constexpr int kFirstPause = 8, kMostPause = 64;

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

Pool::Pool(int threads, int spins)
    : size_(threads),
      spins_(spins),
      seats_(threads),
      active_(threads),
      allowed_(threads),
      pause_(kFirstPause) {
  start();
}

void Pool::start() {
  try {
    for (int worker = 1; worker < size_; ++worker) threads_.emplace_back([this, worker] { serve(worker); });
  } catch (const std::system_error&) {
    size_ = 1 + static_cast<int>(threads_.size());  // a limit of the system; fewer workers do the same work
  }
  allowed_ = std::min(allowed_, size_);
}

Pool::~Pool() {
  stop_.store(true);
  for (Seat& seat : seats_) {
    seat.round.fetch_add(1);
    seat.round.notify_all();
  }
  for (std::thread& thread : threads_) thread.join();
}

void Pool::after_fork_in_child() {
  // The handles stay where they are: there is no thread that could be joined or detached.
  new std::vector<std::thread>(std::move(threads_));
  threads_.clear();
  for (Seat& seat : seats_) seat.round.store(0);
  mutex_.unlock();
}

void Pool::serve(int worker) {
  std::uint32_t seen = 0;
  Seat& seat = seats_[worker];
  while (true) {
    for (int i = 0; i < spins_ && seat.round.load(std::memory_order_acquire) == seen; ++i) pause();
    seat.round.wait(seen, std::memory_order_acquire);
    ++seen;
    if (stop_.load()) return;
    {
      const PlainFloats guard;
      seat.left = false;
      (*job_)(worker);
    }
    if (!seat.left) barrier(worker);
  }
}

void Pool::run(const std::function<void(int)>& job) {
  const std::lock_guard lock(mutex_);
  may_lose_ = false;
  run_on(size_, job);
}

void Pool::run_claimed(const std::function<void(int)>& job) {
  const std::lock_guard lock(mutex_);
  if (allowed_ < size_ && --jobs_left_ <= 0) {
    ++allowed_;
    suspect_ = true;
  }
  may_lose_ = true;
  has_lost_ = false;
  judge_anew();
  run_on(allowed_, job);
  learn();
}

void Pool::run_on(int workers, const std::function<void(int)>& job) {
  if (threads_.empty()) start();
  workers = std::min(workers, size_);
  const PlainFloats guard;
  job_ = &job;
  active_.store(workers, std::memory_order_relaxed);
  for (int worker = 1; worker < workers; ++worker) {
    seats_[worker].round.fetch_add(1, std::memory_order_release);
    seats_[worker].round.notify_all();
  }
  job(0);
  barrier(0);
}

void Pool::judge_anew() {
  waited_ns_.store(0, std::memory_order_relaxed);
  started_ = Clock::now();
}

// Whether the workers of the running job wait for each other for a large part of its time.
bool Pool::stalled() const {
  return waited() > kMoment && waited() * kStalledShare > Clock::now() - started_;
}

// How many workers the next jobs begin with.
void Pool::learn() {
  if (has_lost_) {
    pause_ = std::min(2 * pause_, kMostPause);
    jobs_left_ = pause_;
    allowed_ = active();
    suspect_ = false;
    return;
  }
  suspect_ = stalled();
  if (suspect_) return;
  if (allowed_ == size_)
    pause_ = kFirstPause;
  else if (jobs_left_ <= 0)
    jobs_left_ = pause_;
}

bool Pool::barrier(int worker) {
  const int active = active_.load(std::memory_order_relaxed);
  if (active == 1) return true;
  const std::uint32_t phase = phase_.load(std::memory_order_acquire);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) == active - 1) {
    arrived_.store(0, std::memory_order_relaxed);
    if (may_lose_ && stalled() && (suspect_ || waited() > kLong)) {
      has_lost_ = true;
      seats_[active - 1].left = true;
      active_.store(active - 1, std::memory_order_relaxed);
      judge_anew();
    }
    phase_.store(phase + 1, std::memory_order_release);
  } else {
    const auto open = [&] { return phase_.load(std::memory_order_acquire) != phase; };
    const int spins = std::min(spins_, kBarrierSpins);
    for (int i = 0; i < spins && !open(); ++i) pause();
    if (!open()) {
      const Clock::time_point since = Clock::now();
      while (!open()) sched_yield();
      const std::chrono::nanoseconds more = Clock::now() - since;
      waited_ns_.fetch_add(more.count(), std::memory_order_relaxed);
    }
  }
  return !seats_[worker].left;
}

}  // namespace ga
