"""One training step in PyTorch, timed: the peer that benchmarks/compare_torch runs beside tprun.

usage: torch_step.py small|mid|gpt2|llama [--threads N] [--tp N] [--compile] [--seconds S] [--batch N] [--seq N]
                     [--device cpu|cuda] [--precision f32|autocast|masters]
Prints one JSON line: {"model", "mode", "ms" (median of all steps), "best_ms", "steps"}.

The models are those of models/small_gpt.json, mid_gpt.json and gpt2_124m.json; llama is four layers of Llama 3 8B. With
--tp the usual hand-written split: column-parallel, then row-parallel with one all-reduce each way, one process a rank
over gloo.

--precision autocast: parameters and optimizer f32, torch.autocast to bf16. masters: parameters and gradients bf16, and
f32 copies of the parameters that the optimizer steps on. tpc's policy lies between: activations bf16 as here, gradients
of parameters f32 as there.
"""
import argparse
import json
import os
import statistics
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
import torch.nn.functional as F

SIZES = {
    "small": dict(vocab=256, hidden=128, heads=8, ffn=512, layers=2, batch=4, seq=32, positions=0, causal=False, bias=False, tied=True),
    "mid": dict(vocab=8192, hidden=512, heads=8, ffn=2048, layers=6, batch=8, seq=128, positions=0, causal=True, bias=True, tied=False),
    "llama": dict(vocab=32000, hidden=4096, heads=32, kv_heads=8, ffn=14336, layers=4, batch=1, seq=8192, theta=500000.0, clip=1.0),
    "gpt2": dict(vocab=50257, hidden=768, heads=12, ffn=3072, layers=12, batch=4, seq=64, positions=1024, causal=True, bias=True, tied=True),
}


class CopyToRanks(torch.autograd.Function):
    """Identity forward, all-reduce backward: the input of a column-parallel layer."""

    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, grad):
        grad = grad.contiguous()
        dist.all_reduce(grad)
        return grad


class SumOverRanks(torch.autograd.Function):
    """All-reduce forward, identity backward: the output of a row-parallel layer."""

    @staticmethod
    def forward(ctx, x):
        x = x.contiguous()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad


class Block(nn.Module):
    def __init__(self, c, tp):
        super().__init__()
        self.tp, self.causal = tp, c["causal"]
        self.heads, self.head_dim = c["heads"] // tp, c["hidden"] // c["heads"]
        local = self.heads * self.head_dim
        self.ln1, self.ln2 = nn.LayerNorm(c["hidden"]), nn.LayerNorm(c["hidden"])
        self.qkv = nn.Linear(c["hidden"], 3 * local, bias=c["bias"])
        self.proj = nn.Linear(local, c["hidden"], bias=False)
        self.fc1 = nn.Linear(c["hidden"], c["ffn"] // tp, bias=c["bias"])
        self.fc2 = nn.Linear(c["ffn"] // tp, c["hidden"], bias=False)
        self.proj_bias = nn.Parameter(torch.zeros(c["hidden"])) if c["bias"] else None
        self.fc2_bias = nn.Parameter(torch.zeros(c["hidden"])) if c["bias"] else None

    def enter(self, x):
        return CopyToRanks.apply(x) if self.tp > 1 else x

    def leave(self, x, bias):
        x = SumOverRanks.apply(x) if self.tp > 1 else x
        return x if bias is None else x + bias

    def forward(self, x):
        b, s, _ = x.shape
        q, k, v = self.qkv(self.enter(self.ln1(x))).view(b, s, 3, self.heads, self.head_dim).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal).transpose(1, 2).reshape(b, s, -1)
        x = x + self.leave(self.proj(a), self.proj_bias)
        return x + self.leave(self.fc2(F.gelu(self.fc1(self.enter(self.ln2(x))))), self.fc2_bias)


class GPT(nn.Module):
    def __init__(self, c, tp):
        super().__init__()
        self.embed = nn.Embedding(c["vocab"], c["hidden"])
        self.positions = nn.Embedding(c["positions"], c["hidden"]) if c["positions"] else None
        self.blocks = nn.ModuleList(Block(c, tp) for _ in range(c["layers"]))
        self.ln = nn.LayerNorm(c["hidden"])
        self.head = nn.Linear(c["hidden"], c["vocab"], bias=False)
        if c["tied"]:
            self.head.weight = self.embed.weight

    def forward(self, tokens, targets):
        x = self.embed(tokens)
        if self.positions is not None:
            x = x + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(self.ln(x)).flatten(0, 1).float(), targets.flatten())


class Masters:
    """f32 copies of bf16 parameters: AdamW steps on them, and they are rounded back."""

    def __init__(self, model, make_optimizer):
        self.parameters = list(model.parameters())
        self.masters = [p.detach().float() for p in self.parameters]
        self.optimizer = make_optimizer(self.masters)

    def step(self):
        for master, p in zip(self.masters, self.parameters):
            master.grad = p.grad.float()
        self.optimizer.step()
        with torch.no_grad():
            torch._foreach_copy_(self.parameters, self.masters)

    def zero_grad(self):
        for p in self.parameters:
            p.grad = None


def make_model(args, c):
    if args.model != "llama":
        return GPT(c, args.tp).to(args.device)
    from torch_llama import Llama

    return Llama(c).to_device(args.device)


def run(rank, args, port):
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    c = dict(SIZES[args.model])
    c["batch"] = args.batch or c["batch"]
    c["seq"] = args.seq or c["seq"]
    if args.tp > 1:
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
        dist.init_process_group("gloo", rank=rank, world_size=args.tp)
    model = make_model(args, c)

    def make_optimizer(parameters):
        return torch.optim.AdamW(parameters, lr=3e-4, fused=True)

    if args.precision == "masters":
        model = model.bfloat16()
        optimizer = Masters(model, make_optimizer)
    else:
        optimizer = make_optimizer(model.parameters())
    step_model = torch.compile(model) if args.compile else model
    tokens = torch.randint(0, c["vocab"], (c["batch"], c["seq"]), device=args.device)
    targets = torch.randint(0, c["vocab"], (c["batch"], c["seq"]), device=args.device)

    def step():
        with torch.autocast(args.device, torch.bfloat16, enabled=args.precision == "autocast"):
            loss = step_model(tokens, targets)
        loss.backward()
        if "clip" in c:
            nn.utils.clip_grad_norm_(model.parameters(), c["clip"])
        optimizer.step()
        optimizer.zero_grad()
        value = loss.item()
        if args.device == "cuda":
            torch.cuda.synchronize()
        return value

    for _ in range(3):
        step()
    times = []
    count = torch.tensor([0])
    if rank == 0:
        begin = time.perf_counter()
        step()
        count[0] = max(5, min(400, int(args.seconds / (time.perf_counter() - begin))))
    else:
        step()
    if args.tp > 1:
        dist.broadcast(count, 0)
    for _ in range(int(count)):
        begin = time.perf_counter()
        step()
        times.append(1000 * (time.perf_counter() - begin))
    if rank == 0:
        mode = "compiled" if args.compile else "eager"
        if args.device == "cuda":
            mode += f", {args.precision}"
        else:
            mode += f", {args.tp} processes (gloo)" if args.tp > 1 else f", {args.threads} thread" + ("s" if args.threads > 1 else "")
        print(json.dumps({"model": args.model, "mode": mode, "ms": statistics.median(times), "best_ms": min(times), "steps": len(times)}))
    if args.tp > 1:
        dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=SIZES)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--tp", type=int, default=1)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--batch", type=int)
    parser.add_argument("--seq", type=int)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--precision", choices=["f32", "autocast", "masters"], default="f32")
    args = parser.parse_args()
    if args.tp > 1 and (args.device == "cuda" or args.model == "llama"):
        parser.error("--tp is for a GPT on the cpu")
    if args.tp == 1:
        run(0, args, 0)
    else:
        mp.spawn(run, args=(args, 20000 + os.getpid() % 20000), nprocs=args.tp)


if __name__ == "__main__":
    main()
