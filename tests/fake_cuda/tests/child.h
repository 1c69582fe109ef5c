/// Code that ends its process, run in a child.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace fake_cuda::testing {

struct Ended {
  std::string said;  ///< on standard error
  int exit_code = 0;
  int signal = 0;
};

/// Runs in a child with a machine of its own, made from the environment as `settings` ("NAME=value") change it. It ends
/// well when `run` returns, then as processes do, leaks looked for.
Ended in_child(const std::vector<std::string>& settings, const std::function<void()>& run);

/// A child that is not waited for.
class Child {
 public:
  Child(const std::vector<std::string>& settings, const std::function<void()>& run);
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  void kill();
  Ended wait();

 private:
  int process_ = 0;
  int pipe_ = 0;
};

/// Sets variables for the time it lives, with a new machine before and after.
class Environment {
 public:
  explicit Environment(const std::vector<std::string>& settings);
  ~Environment();
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  std::vector<std::string> names_;
};

}  // namespace fake_cuda::testing
