/// How parameters are updated, as the model file says.
#pragma once

#include <string>

namespace tpc {

struct OptimizerSettings {
  std::string type = "adamw";  ///< "adamw" or "sgd"
  double lr = 3e-4;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.01;
  double momentum = 0.0;   ///< sgd only
  double clip_norm = 0.0;  ///< largest global gradient norm; 0: no clipping
  std::string pointer;     ///< JSON pointer of "optimizer" in the model file
  bool operator==(const OptimizerSettings&) const = default;
};

}  // namespace tpc
