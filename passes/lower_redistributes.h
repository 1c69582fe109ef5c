/// lower-redistributes: each redistribute becomes the cheapest sequence of collectives and local moves.
///
///   %b @ [R] = redistribute %a         (a @ [P(sum)])   ->   %b @ [R] = all_reduce %a {axes=[0], op="sum"}
///   %b @ [R, S(0)] = redistribute %a   (a @ [P, P])     ->   reduce_scatter over axis 1, then all_reduce over axis 0
///
/// Needs reconciled, gives collective. The path is ConversionGraph::path(); equal conversions are looked up once. Holds
/// a strategy that searched to the price that it promised.
#pragma once

#include "passes/pass.h"

namespace tpc {

Graph lower_redistributes(Graph graph, const PassContext& context);

}  // namespace tpc
