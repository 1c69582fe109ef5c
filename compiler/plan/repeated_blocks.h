/// Blocks of layers that differ by their number only ("block0" to "block125"), told once.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tpc {

/// The block of a layer: "block3" of "block3.fc1"; a layer outside every numbered block is its own ("embed").
std::string block_of(std::string_view layer);

/// The layer's name inside its block: "fc1" of "block3.fc1".
std::string name_in_block(std::string_view layer);

/// `text` as it reads in any block: in "block3", "block3.fc1" becomes "fc1", "block2.x" becomes "block{i-1}.x".
std::string relative_to_block(std::string_view text, std::string_view block);

/// A tensor's name without the number by which a pass told it from others of its node: "ln1.layer_norm_grad" of
/// "ln1.layer_norm_grad~56". The number counts through the whole model.
std::string_view without_number(std::string_view tensor);

/// Neighbours in a list of blocks with equal content and consecutive numbers.
struct BlockRun {
  size_t first = 0;
  size_t count = 1;
};

/// `contents[i]` says all that must be equal for block `names[i]` to be told together with its neighbours.
std::vector<BlockRun> find_runs(const std::vector<std::string>& names, const std::vector<std::string>& contents);

/// "block0..125 (x126)", or the name of a run of one.
std::string run_name(const std::vector<std::string>& names, const BlockRun& run);

}  // namespace tpc
