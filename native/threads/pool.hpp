// A few workers that run one job together. The caller is worker 0.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "threads/fork.hpp"

namespace ga {

class Pool : ForkAware {
 public:
  // The pool of so many threads: one for all who ask in this process, so that models that are loaded side by
  // side do not take processors from each other; it ends with the last who holds it. In the child of a fork
  // it starts new threads at its first job.
  static std::shared_ptr<Pool> shared(int threads);
  ~Pool() override;

  int size() const { return size_; }

  // Runs job(worker) on every worker and returns when all are done; one job at a time, whoever asks. Each
  // worker starts with the same floating-point settings (round to nearest, denormals kept): other libraries
  // change them per thread.
  void run(const std::function<void(int)>& job);

  // As `run`, of a job that any number of workers can do. Where other processes take the processors, workers
  // wait for one that does not run; then the job goes on with fewer of them, and so do the next ones.
  void run_claimed(const std::function<void(int)>& job);

  // Inside a job: waits until all active workers have come here. False = the job goes on without this one.
  bool barrier(int worker);

  // Inside a job: the workers that do it, [0, active()). Fewer after some barriers of `run_claimed`.
  int active() const { return active_.load(std::memory_order_relaxed); }

 private:
  Pool(int threads, int spins);
  void start();
  void serve(int worker);
  void run_on(int workers, const std::function<void(int)>& job);
  void judge_anew();
  std::chrono::nanoseconds waited() const {
    return std::chrono::nanoseconds(waited_ns_.load(std::memory_order_relaxed));
  }
  bool stalled() const;
  void learn();
  // A fork waits for the running job, so that the child finds everything between two jobs.
  void before_fork() override { mutex_.lock(); }
  void after_fork_in_parent() override { mutex_.unlock(); }
  void after_fork_in_child() override;

  int size_;          // all workers, the caller included: fewer than asked for if the system allows no more
  const int spins_;   // how often a worker looks again before it gives up its processor
  std::mutex mutex_;  // of the running job
  const std::function<void(int)>* job_ = nullptr;
  struct alignas(64) Seat {               // of a worker
    std::atomic<std::uint32_t> round{0};  // counts its jobs; the worker waits for it to change
    bool left = false;  // the job goes on without it; set before the barrier at which it learns that opens
  };
  std::vector<Seat> seats_;
  std::atomic<int> active_;
  alignas(64) std::atomic<int> arrived_{0};
  alignas(64) std::atomic<std::uint32_t> phase_{0};  // counts barriers
  std::atomic<bool> stop_{false};

  // Of `run_claimed`.
  using Clock = std::chrono::steady_clock;
  Clock::time_point started_;                 // the running job, or its last loss of a worker
  std::atomic<std::int64_t> waited_ns_{0};    // by its workers since then, without spinning
  bool may_lose_ = false, has_lost_ = false;  // workers: the running job
  bool suspect_ = false;                      // the last job was stalled, or this one has a worker more
  int allowed_;                               // workers of the next job
  int pause_, jobs_left_ = 0;                 // jobs until one more is tried
  std::vector<std::thread> threads_;          // the workers but the caller; none yet in the child of a fork
};

// Hands out [0, total) one by one, to any thread.
class Claims {
 public:
  Claims(std::atomic<int>& next, int total) : next_(next), total_(total) {}
  bool take(int& item) { return (item = next_.fetch_add(1, std::memory_order_relaxed)) < total_; }

 private:
  std::atomic<int>& next_;
  const int total_;
};

// One counter per worker, each on its own cache line.
struct alignas(64) Counter {
  std::atomic<int> next{0};
};

// Hands out [0, total): to each worker its own range first, then what is left of the others'.
class OwnRange {
 public:
  OwnRange(int total, int workers, Counter* counters, int worker)
      : total_(total), workers_(workers), counters_(counters), victim_(worker) {}
  bool take(int& item) {
    for (; tried_ < workers_; ++tried_, victim_ = (victim_ + 1) % workers_) {
      item = victim_ * total_ / workers_ + counters_[victim_].next.fetch_add(1, std::memory_order_relaxed);
      if (item < (victim_ + 1) * total_ / workers_) return true;
    }
    return false;
  }

 private:
  const int total_, workers_;
  Counter* counters_;
  int victim_, tried_ = 0;
};

// Hands out the items of a list per worker: first one's own, then what is left of the others'. So each worker
// keeps to its own part of memory, and a stolen core does not stall the rest.
template <class Item>
class OwnFirst {
 public:
  OwnFirst(const std::vector<std::vector<Item>>& lists, Counter* counters, int worker)
      : lists_(lists), counters_(counters), own_(worker % lists.size()), victim_(own_) {}
  const Item* take() {
    const int workers = static_cast<int>(lists_.size());
    for (; tried_ < workers; victim_ = (own_ + ++tried_) % workers) {
      const auto& list = lists_[victim_];
      const int item = counters_[victim_].next.fetch_add(1, std::memory_order_relaxed);
      if (item < static_cast<int>(list.size())) return &list[item];
    }
    return nullptr;
  }

 private:
  const std::vector<std::vector<Item>>& lists_;
  Counter* counters_;
  const int own_;
  int victim_, tried_ = 0;
};

}  // namespace ga
