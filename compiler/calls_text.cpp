#include "compiler/calls_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "compiler/core/check.h"
#include "compiler/plan/model_words.h"
#include "compiler/plan/repeated_blocks.h"
#include "compiler/plan/text_table.h"

namespace tpc {
namespace {

/// Groups longer than this are told by their ends.
constexpr size_t kMaxListed = 8;

/// A call as it stands in the table; `content` is what is the same in every block of layers.
struct CallRow {
  std::vector<std::string> cells;
  std::string content;
};

/// Neighbouring units of one block of layers.
struct CallBlock {
  std::string name;
  int segment = 0;
  bool is_single_layer = true;
  std::vector<CallRow> rows;

  std::string content() const {
    std::string text = fmt::format("{}\n", segment);
    for (const CallRow& row : rows) text += row.content + "\n";
    return text;
  }
};

std::string place_text(const CallTensor& tensor) {
  switch (tensor.place) {
    case CallPlace::kArena:
      return fmt::format("arena+{:#x}", tensor.offset);
    case CallPlace::kWorkspace:
      return fmt::format("work+{:#x}", tensor.offset);
    case CallPlace::kContext:
      return "device";
    case CallPlace::kCounter:
      return fmt::format("numbers+{:#x}", tensor.offset);
    case CallPlace::kHost:
      return "host";
  }
  TPC_UNREACHABLE("place {}", static_cast<int>(tensor.place));
}

class RowWriter {
 public:
  RowWriter(const DeviceUnit& unit, const DeviceCall& call, std::string_view block, bool with_places)
      : unit_(unit), call_(call), block_(block), with_places_(with_places) {}

  std::vector<std::string> cells() const {
    std::string steps = unit_.first < 0                ? ""
                        : unit_.end == unit_.first + 1 ? fmt::format("{}", unit_.first)
                                                       : fmt::format("{}..{}", unit_.first, unit_.end - 1);
    bool is_compute = call_.queue == DeviceQueueKind::kCompute;
    return {with_places_ ? steps : "", is_compute ? "compute" : "comm", call_.name, arguments(), tensors()};
  }

 private:
  std::string arguments() const {
    switch (call_.kind) {
      case DeviceCallKind::kRecord:
      case DeviceCallKind::kWait:
        return with_places_ ? fmt::format("event {}", call_.event) : "event";
      case DeviceCallKind::kMatmul:
        return matmul_text();
      case DeviceCallKind::kKernel:
        return kernel_text();
      case DeviceCallKind::kCopy:
      case DeviceCallKind::kFill:
        return bytes_text(call_.bytes);
      case DeviceCallKind::kCollective:
        return nccl_text();
    }
    TPC_UNREACHABLE("call {}", static_cast<int>(call_.kind));
  }

  std::string matmul_text() const {
    const Matmul& matmul = *call_.matmul;
    std::string text = fmt::format("m {} n {} k {}", matmul.m, matmul.n, matmul.k);
    if (matmul.batch > 1) text += fmt::format(" batch {}", matmul.batch);
    text += fmt::format(" {}", to_string(matmul.a.dtype));
    if (matmul.d.dtype != matmul.a.dtype) text += fmt::format(" to {}", to_string(matmul.d.dtype));
    text += fmt::format(" {}{}", matmul.a.is_transposed ? 'T' : 'N', matmul.b.is_transposed ? 'T' : 'N');
    if (matmul.epilogue != MatmulEpilogue::kNone) text += fmt::format(" {}", to_string(matmul.epilogue));
    return text;
  }

  std::string kernel_text() const {
    std::string text = call_.num_steps > 1 ? fmt::format("{} tensors", call_.num_steps) : "";
    if (call_.launches > 1) text += fmt::format("{}{} launches", text.empty() ? "" : ", ", call_.launches);
    return text;
  }

  std::string nccl_text() const {
    const NcclCall& nccl = *call_.nccl;
    if (nccl.count == 0) return "";
    std::string text = fmt::format("{} {}", grouped(nccl.count), to_string(nccl.dtype));
    bool reduces = nccl.kind == CollectiveCallKind::kAllReduce || nccl.kind == CollectiveCallKind::kReduceScatter;
    if (reduces) text += fmt::format(" {}", to_string(nccl.reduce));
    if (nccl.peer >= 0) {
      return text + fmt::format(" {} rank {}", nccl.kind == CollectiveCallKind::kSend ? "to" : "from", nccl.peer);
    }
    const std::vector<int64_t>& ranks = nccl.ranks;
    if (ranks.size() > kMaxListed) {
      return text + fmt::format(", ranks {}, {}, ... {} ({} ranks)", ranks[0], ranks[1], ranks.back(), ranks.size());
    }
    return text + fmt::format(", ranks {}", fmt::join(ranks, ", "));
  }

  /// "to <- from, from".
  std::string tensors() const {
    if (call_.num_steps > 1) return group_text();
    std::string text = list(call_.writes);
    if (call_.reads.empty()) return text + (call_.kind == DeviceCallKind::kFill ? " <- 0" : "");
    return text + (text.empty() ? "<- " : " <- ") + list(call_.reads);
  }

  /// Kernels of many small tensors: what they write, by its ends.
  std::string group_text() const {
    int64_t bytes = 0;
    for (const CallTensor& tensor : call_.writes)
      bytes += num_elements(tensor.type->shape) * byte_size(tensor.type->dtype);
    return fmt::format("{} written: {} ... {}", bytes_text(bytes), tensor_text(call_.writes.front()),
                       tensor_text(call_.writes.back()));
  }

  std::string list(const std::vector<CallTensor>& tensors) const {
    std::vector<std::string> texts;
    for (const CallTensor& tensor : tensors) texts.push_back(tensor_text(tensor));
    return fmt::format("{}", fmt::join(texts, ", "));
  }

  std::string tensor_text(const CallTensor& tensor) const {
    std::vector<std::string> parts;
    if (!tensor.role.empty()) parts.push_back(tensor.role);
    if (!tensor.name.empty()) parts.push_back(name_text(tensor.name));
    if (tensor.type) parts.push_back(to_string(*tensor.type));
    if (std::string layout = layout_text(tensor.role); !layout.empty()) parts.push_back(layout);
    if (with_places_) parts.push_back(place_text(tensor));
    return fmt::format("{}", fmt::join(parts, " "));
  }

  /// Passes number what they add through the whole model.
  std::string name_text(const std::string& name) const {
    return relative_to_block(with_places_ ? std::string_view(name) : without_number(name), block_);
  }

  std::string layout_text(const std::string& role) const {
    if (!call_.matmul || role == "bias") return "";
    const Matmul& matmul = *call_.matmul;
    if (role == "aux") return fmt::format("ld {}", matmul.aux_ld);
    const BlasMatrix& matrix = role == "a" ? matmul.a : role == "b" ? matmul.b : matmul.d;
    std::string text = fmt::format("ld {}", matrix.ld);
    return matmul.batch > 1 ? text + fmt::format(" stride {}", matrix.batch_stride) : text;
  }

  const DeviceUnit& unit_;
  const DeviceCall& call_;
  std::string_view block_;
  bool with_places_;
};

std::vector<CallBlock> blocks_of(const DeviceCalls& calls, const CallsFilter& filter) {
  std::vector<CallBlock> blocks;
  for (const DeviceUnit& unit : calls.units) {
    if (!filter(unit)) continue;
    std::string name = block_of(unit.layer);
    if (blocks.empty() || blocks.back().name != name || blocks.back().segment != unit.segment) {
      blocks.push_back({name, unit.segment, true, {}});
    }
    CallBlock& block = blocks.back();
    block.is_single_layer = block.is_single_layer && name == unit.layer;
    for (const DeviceCall& call : unit.calls) {
      block.rows.push_back({RowWriter(unit, call, name, true).cells(),
                            fmt::format("{}", fmt::join(RowWriter(unit, call, name, false).cells(), "|"))});
    }
  }
  return blocks;
}

std::string segment_title(int segment) {
  if (segment < 0) return "Before the step";
  return segment == 0 ? "Up to where weights change: the first graph" : "Where weights change: the second graph";
}

std::string table_text(const DeviceCalls& calls, const CallsFilter& filter, bool all_blocks) {
  std::vector<CallBlock> blocks = blocks_of(calls, filter);
  std::vector<std::string> names;
  std::vector<std::string> contents;
  for (const CallBlock& block : blocks) {
    names.push_back(block.name);
    // Every block its own run when all are wanted.
    contents.push_back(all_blocks ? fmt::format("{}", names.size()) : block.content());
  }
  TextTable table("rllll");
  table.add_row({"step", "stream", "call", "", "writes <- reads"});
  int segment = -2;
  for (const BlockRun& run : find_runs(names, contents)) {
    const CallBlock& shown = blocks[run.first];
    if (shown.segment != segment) table.add_line(segment_title(shown.segment));
    segment = shown.segment;
    std::string of = run.count > 1 ? fmt::format(", as {}", shown.name) : "";
    if (!shown.is_single_layer) table.add_line("  " + run_name(names, run) + of);
    for (const CallRow& row : shown.rows) table.add_row(row.cells);
  }
  return table.text();
}

std::string totals_text(const DeviceCalls& calls) {
  const CallTotals& totals = calls.totals;
  TextTable table("lrl");
  auto add = [&](const char* what, int64_t count, std::string more) {
    table.add_row({what, grouped(count), std::move(more)});
  };
  add("kernels", totals.kernels, "");
  add("products", totals.matmuls, fmt::format("{}FLOP", count_text(totals.matmul_flops)));
  add("NCCL calls", totals.collective_calls, fmt::format("{} received", bytes_text(totals.received_bytes)));
  add("copies", totals.copies, "");
  add("fills", totals.fills, "");
  add("events", totals.records, fmt::format("{} waits", grouped(totals.waits)));
  return "In a step\n" + table.text(2) +
         fmt::format("Working memory beside the arena of {}: {} of the compute stream, {} of communication\n",
                     bytes_text(calls.arena_bytes), bytes_text(calls.workspace.compute),
                     bytes_text(calls.workspace.communication));
}

}  // namespace

std::string calls_text(const Plan& plan, const DeviceCalls& calls, const CallsFilter& filter, bool all_blocks) {
  int64_t world = plan.mesh.world_size();
  std::string on = world == 1 ? "" : fmt::format(" on {}", user_mesh(plan.mesh));
  return fmt::format(
             "{}{}: calls of rank {} of {} in a training step on --device cuda, in the order of issue\n"
             "A tensor is told by name, its part here, and where that lies: arena+ is the offset in the rank's arena, "
             "work+ in\n"
             "the working memory of the stream. Names in a numbered block of layers are told without it.\n\n",
             plan.model_name, on, calls.rank, grouped(world)) +
         table_text(calls, filter, all_blocks) + "\n" + totals_text(calls);
}

}  // namespace tpc
