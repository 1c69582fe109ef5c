// Sizes of a model that were taken from one another instead of from the model.
#include <doctest/doctest.h>

#include "tests/faults/fault_model.h"

namespace tpc::testing {

TEST_CASE("B052: heads need not divide hidden: the size of a head is the model's own") {
  FaultModel model =
      shipped("llama_tiny",
              {{"seq", 6}, {"vocab", 19}, {"ffn", 21}, {"hidden", 14}, {"heads", 4}, {"kv_heads", 2}, {"head_dim", 6}});
  Plan plan = plan_of(model, on("tp=2"));
  CHECK(tensor_named(plan, "block0.q.weight").type.shape == Shape{4, 6, 14});
  CHECK(tensor_named(plan, "block0.o.weight").type.shape == Shape{14, 4, 6});
  for (const MeshCase& mesh : {on("tp=2"), on("tp=3"), on("tp=4", true), searched_on("tp=2")}) {
    CAPTURE(mesh.name);
    CHECK(difference_from_one_rank(model, mesh) == "");
  }
}

}  // namespace tpc::testing
