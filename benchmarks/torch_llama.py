"""The Llama of models/llama3_405b.json in PyTorch, in any size: grouped heads, rotary positions, gated MLP."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def turns(seq, head_dim, theta):
    """cos and sin of every position's angles, [seq, head_dim / 2]."""
    frequencies = theta ** (-torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim)
    angles = torch.outer(torch.arange(seq, dtype=torch.float64), frequencies)
    return angles.cos().float(), angles.sin().float()


def rope(x, cos, sin):
    """x [batch, heads, seq, head_dim]; halves turn against each other, in float."""
    a, b = x.float().chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1).to(x.dtype)


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = c["heads"], c["kv_heads"], c["hidden"] // c["heads"]
        self.norm1, self.norm2 = nn.RMSNorm(c["hidden"]), nn.RMSNorm(c["hidden"])
        self.q = nn.Linear(c["hidden"], self.heads * self.head_dim, bias=False)
        self.k = nn.Linear(c["hidden"], self.kv_heads * self.head_dim, bias=False)
        self.v = nn.Linear(c["hidden"], self.kv_heads * self.head_dim, bias=False)
        self.o = nn.Linear(self.heads * self.head_dim, c["hidden"], bias=False)
        self.gate = nn.Linear(c["hidden"], c["ffn"], bias=False)
        self.up = nn.Linear(c["hidden"], c["ffn"], bias=False)
        self.down = nn.Linear(c["ffn"], c["hidden"], bias=False)

    def forward(self, x, cos, sin):
        b, s, _ = x.shape
        y = self.norm1(x)
        q = rope(self.q(y).view(b, s, self.heads, -1).transpose(1, 2), cos, sin)
        k = rope(self.k(y).view(b, s, self.kv_heads, -1).transpose(1, 2), cos, sin)
        v = self.v(y).view(b, s, self.kv_heads, -1).transpose(1, 2)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.heads != self.kv_heads)
        x = x + self.o(a.transpose(1, 2).reshape(b, s, -1))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.embed = nn.Embedding(c["vocab"], c["hidden"])
        self.blocks = nn.ModuleList(Block(c) for _ in range(c["layers"]))
        self.norm = nn.RMSNorm(c["hidden"])
        self.head = nn.Linear(c["hidden"], c["vocab"], bias=False)
        cos, sin = turns(c["seq"], c["hidden"] // c["heads"], c["theta"])
        # Kept in float when the parameters become bf16.
        self.turns = (cos, sin)

    def to_device(self, device):
        self.turns = tuple(t.to(device) for t in self.turns)
        return self.to(device)

    def forward(self, tokens, targets):
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x, *self.turns)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1).float(), targets.flatten())
