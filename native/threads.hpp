// A few workers that run one job together. The caller is worker 0.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace ga {

class Pool {
 public:
  explicit Pool(int threads);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  int size() const { return size_; }

  // Runs job(worker) on every worker and returns when all are done. Each worker starts with the same
  // floating-point settings (round to nearest, denormals kept): other libraries change them per thread.
  void run(const std::function<void(int)>& job);

  // Inside a job: waits until every worker has come here.
  void barrier();

 private:
  void serve(int worker);

  const int size_;
  const std::function<void(int)>* job_ = nullptr;
  alignas(64) std::atomic<std::uint32_t> round_{0};    // counts jobs; workers wait for it to change
  alignas(64) std::atomic<int> arrived_{0};
  alignas(64) std::atomic<std::uint32_t> phase_{0};    // counts barriers
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

// Hands out [0, total) in chunks to whoever asks; small chunks, so that a stolen core does not stall the rest.
class Claims {
 public:
  Claims(std::atomic<int>& next, int total, int chunk) : next_(next), total_(total), chunk_(chunk) {}
  bool take(int& begin, int& end) {
    begin = next_.fetch_add(chunk_, std::memory_order_relaxed);
    end = begin + chunk_ < total_ ? begin + chunk_ : total_;
    return begin < total_;
  }

 private:
  std::atomic<int>& next_;
  const int total_, chunk_;
};

}  // namespace ga
