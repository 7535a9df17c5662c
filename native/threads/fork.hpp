// What a fork leaves broken in the child, where only the thread that forked exists: other threads are gone,
// and a lock that one of them held stays locked.
#pragma once
#include <mutex>

namespace ga {

// Is told of every fork of this process.
class ForkAware {
 public:
  ForkAware();
  ForkAware(const ForkAware&) = delete;
  ForkAware& operator=(const ForkAware&) = delete;
  virtual ~ForkAware();
  virtual void before_fork() {}
  virtual void after_fork_in_parent() {}
  virtual void after_fork_in_child() = 0;
};

// A mutex that is free in the child, even if another thread held it. What it guards must be usable then.
class ForkMutex : ForkAware {
 public:
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  void after_fork_in_child() override { new (&mutex_) std::mutex; }
  std::mutex mutex_;
};

}  // namespace ga
