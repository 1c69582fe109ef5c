/// The text of a graph, for people, golden files and tests.
///
///   graph "small_gpt" from "models/small_gpt.json"
///   mesh [dp=2, tp=4]
///   loss %7
///   %2 "block0.fc2.weight" : f32[768, 3072] @ [R, S(1)] = parameter {init="normal", std=0.02} forward "block0.fc2"
///   %5 "block0.fc2" : f32[8, 128, 768] @ [S(0), P(sum)] = contract %4, %2 {einsum="bsf,hf->bsh"}
///       uses [S(0), S(2)] [R, S(1)] forward "block0.fc2" # /layers/1/layers/8       (one line in the real text)
///   output %7 {name="loss"} uses [R, R] forward "loss" # /loss
///
/// `precision "bf16"` stands before the mesh where it is not f32.
/// A line is: results with type, sharding and (once computed) `local` shape, `=`, op, operands, attributes, `uses` with
/// the sharding wanted of each operand, phase and layer, then as needed `of` the value differentiated, `pin` with the
/// user's annotation, `why`, and after # the origin. Empty parts are left out. A value that no node makes stands on a
/// line of its own, without `=`.
#pragma once

#include <string>

#include "compiler/ir/graph.h"

namespace tpc {

/// parse_graph(print(graph)) == graph for every graph whose nodes name existing values, each made at most once. Prints
/// other graphs too, since a broken one is what somebody wants to see. Ends with a newline.
std::string print(const Graph& graph);

/// The node's line without the newline, for messages.
std::string print(const Graph& graph, const Node& node);

}  // namespace tpc
