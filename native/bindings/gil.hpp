// The interpreter's lock (GIL).
#pragma once
#include <nanobind/nanobind.h>

#include <mutex>

#include "threads/fork.hpp"

// Gives up the lock while it lives, and takes it back at its end: not while others may hold a lock that this
// thread wants.
//
// At the end of the process a thread waits there until the process is gone. (Python ends a thread that asks
// for its lock then, with an exception that no destructor may let through, so the process would abort.)
class WithoutGil {
 public:
  // held: a lock that a thread that waits for ever gives back.
  explicit WithoutGil(std::unique_lock<ga::ForkMutex>* held = nullptr)
      : held_(held), state_(PyEval_SaveThread()) {}
  ~WithoutGil();
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  std::unique_lock<ga::ForkMutex>* const held_;
  PyThreadState* const state_;
};

// Lets `WithoutGil` know when the process ends.
void watch_exit();
