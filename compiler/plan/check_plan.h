/// Whether a plan can run: what a plan edited by hand is held to when it is loaded.
#pragma once

#include <string>

#include "compiler/plan/plan.h"

namespace tpc {

/// Throws UserError with the places in `file` (of the form that write_plan gives) when one of these does not hold:
///   tensors   sizes positive, sharding legal on the mesh and in canonical form, parameters know how they start;
///   steps     known arity and attributes, result types as the op infers them, operand and result shardings as the op's
///             rule allows (so no Partial reaches an op that is not linear, an output or an update); moves change
///             exactly their axes, in the way of their kind. Every rank runs the one list of steps and every collective
///             is made by whole groups of the mesh, so the ranks of a group issue the same collectives in the same
///             order.
///   order     tensors are written once and before they are read; inputs, parameters and states only by an update,
///   once,
///             and never read afterwards; outputs are replicated f32 scalars that a step makes, one of them "loss";
///   proof     its price is what the collectives cost, its bound no more; options name the plan's mesh;
///   buffers   offsets aligned to 64 bytes, inside the arena, large enough for the fullest rank; no step overwrites
///   what
///             a later one reads, except where the op may work in place or only changes the shape.
void check_plan(const Plan& plan, const std::string& file);

}  // namespace tpc
