// Volumes whose unit depended on the collective, and tables that did not say what they counted.
#include <doctest/doctest.h>

#include <cmath>
#include <sstream>

#include "compiler/plan/report.h"
#include "runtime/cpu/cpu_backend.h"
#include "runtime/trainer.h"
#include "tests/faults/every_rank.h"
#include "tests/faults/fault_model.h"

namespace tpc::testing {

TEST_CASE("B086: bytes by collective are those of the formulas, of the report and of the run") {
  FaultModel model = shipped("tiny_gpt", {{"seq", 8}, {"hidden", 16}, {"head_dim", 2}, {"ffn", 24}, {"vocab", 32}});
  for (const MeshCase& mesh : {on("tp=2"), on("tp=4", true), on("dp=2,tp=2", false, 2), searched_on("tp=4")}) {
    CAPTURE(mesh.name);
    Plan plan = plan_of(model, mesh);
    Traffic reported;
    for (const CollectiveRow& row : make_report(plan).collectives) {
      // S is the whole tensor over the group: 2 (n - 1) / n S for an all_reduce, (n - 1) / n S for its halves.
      auto n = static_cast<double>(row.group_size), whole = static_cast<double>(row.elements) * 4;
      if (row.kind == OpKind::kAllReduce) CHECK(row.ring_bytes == doctest::Approx(2 * whole * (n - 1) / n));
      if (row.kind == OpKind::kAllGather) CHECK(row.ring_bytes == doctest::Approx(whole * (n - 1) / n));
      if (row.kind == OpKind::kReduceScatter) CHECK(row.ring_bytes == doctest::Approx(whole * (n - 1) / n));
      if (row.received_bytes_min == row.received_bytes_max)
        CHECK(static_cast<double>(row.received_bytes_max) == doctest::Approx(row.ring_bytes));
      // Together the ranks receive n times the ring's figure, however unevenly.
      reported[{row.kind, row.phase}] +=
          static_cast<int64_t>(std::lround(row.ring_bytes * static_cast<double>(plan.mesh.world_size())));
    }
    Trainer trainer(plan, make_cpu_backend, {.threads_per_rank = 1});
    trainer.train_step(fixed_batch(plan));
    CHECK(trainer.counted() == trainer.predicted());
    CHECK(trainer.counted() == reported);
  }
}

TEST_CASE("B087: every line of the table has kind, axis, dtype, elements and bytes, and the lines add up") {
  FaultModel model = shipped("tiny_gpt", {{"seq", 8}, {"hidden", 16}, {"head_dim", 2}, {"ffn", 24}, {"vocab", 32}});
  Report report = make_report(plan_of(model, on("dp=2,tp=2", true)));
  std::istringstream csv(report_csv(report));
  std::string header, line;
  std::getline(csv, header);
  for (const char* column : {"kind", "axis", "dtype", "elements", "received_bytes"}) {
    CHECK(header.find(column) != std::string::npos);
  }
  size_t lines = 0;
  while (std::getline(csv, line)) {
    CHECK(line.find("f32") != std::string::npos);
    ++lines;
  }
  CHECK(lines == report.collectives.size());
  double volume = 0;
  int64_t bytes = 0;
  for (const CollectiveRow& row : report.collectives) {
    volume += row.volume_elements;
    bytes += row.received_bytes_max;
  }
  CHECK(report.step.volume_elements == doctest::Approx(volume));
  CHECK(report.step.received_bytes <= bytes);
  for (const std::vector<VolumeTotal>& totals :
       {report.by_layer, report.by_block, report.by_phase, report.by_axis, report.by_kind}) {
    double sum = 0;
    int64_t collectives = 0;
    for (const VolumeTotal& total : totals) {
      sum += total.volume_elements;
      collectives += total.collectives;
    }
    CHECK(sum == doctest::Approx(volume));
    CHECK(collectives == static_cast<int64_t>(lines));
  }
}

}  // namespace tpc::testing
