"""Source that each rule must find, and source that looks like it and must be left alone."""

import lint_samples_of_programs as programs

HEAD = "import numpy as np\nimport torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"

FOUND = {
    "WB001": [
        "y = x.norm(-1)",
        "y = torch.norm(x, -1)",
        "y = torch.linalg.norm(x, -1)",
        "y = torch.linalg.vector_norm(x, -2)",
        "y = np.linalg.norm(x, -1)",
        "y = (a - b).norm(-1).mean()",
        "y = x.norm(-1, keepdim=True)",
        "y = x[0].flatten(1).norm(-1)",
        "from torch.linalg import norm as size\ny = size(x, -1)",
        "import torch as th\ny = th.norm(x, -1)",
        "import jax.numpy as jnp\ny = jnp.linalg.norm(x, -1)",
        "from jax import numpy as jnp\ny = jnp.linalg.norm(x - y, -2).mean()",
        "import jax\ny = jax.numpy.linalg.norm(x, -1)",
        "from jax.numpy.linalg import norm\ny = norm(x, -1)",
    ],
    "WB002": [
        "y = F.cosine_similarity(a, b)",
        "y = torch.cosine_similarity(a, b, dim=1)",
        "y = torch.nn.functional.cosine_similarity(a, b, 1)",
        "cos = nn.CosineSimilarity()",
        "cos = torch.nn.CosineSimilarity(dim=0)",
        "from torch.nn.functional import cosine_similarity\ny = cosine_similarity(a, b)",
        "from torch.nn import functional\ny = functional.cosine_similarity(credit, gradient, dim=-1)",
        "def align(embedding_grad, g):\n    return F.cosine_similarity(embedding_grad, g)",
        "import optax\ny = optax.cosine_similarity(a, b, epsilon=1e-8)",
        "import optax\ny = optax.losses.cosine_similarity(credit, gradient, 1e-6)",
        "import jax.numpy as jnp\ny = jnp.vdot(a, b) / (jnp.linalg.norm(a) * jnp.linalg.norm(b) + 1e-8)",
        "import jax.numpy as jnp\ny = (a @ b) / jnp.maximum(jnp.linalg.norm(a) * jnp.linalg.norm(b), 1e-8)",
        "import jax.numpy as jnp\ndef cosine(a, b):\n    n = jnp.linalg.norm(a)\n    m = jnp.linalg.norm(b)\n"
        "    return jnp.sum(a * b) / (n * m + 1e-12)",
        "import jax.numpy as jnp\ny = (a @ b) / ((jnp.linalg.norm(a) + 1e-8) * (jnp.linalg.norm(b) + 1e-8))",
        "import jax.numpy as jnp\ny = (a @ b) / (jnp.maximum(jnp.linalg.norm(a), 1e-8) * jnp.linalg.norm(b))",
        "import jax.numpy as jnp\ny = (a @ b) / jnp.clip(jnp.linalg.norm(a) * jnp.linalg.norm(b), min=1e-8)",
        "import jax.numpy as jnp\ndef cosine(a, b):\n    n = jnp.linalg.norm(a) + 1e-8\n"
        "    m = jnp.linalg.norm(b) + 1e-8\n    return jnp.vdot(a, b) / (n * m)",
        "import optax\ny = (a @ b) / (optax.safe_norm(a, 1e-8) * optax.safe_norm(b, 1e-8))",
        "import optax\ny = dot(a, b) / (optax.global_norm(a) * optax.global_norm(b) + 1e-8)",
    ],
    "WB003": [
        "y = x.half().norm()",
        "y = torch.norm(x.half())",
        "y = x.to(torch.float16).flatten().norm()",
        "y = x.to(dtype=torch.half).norm(dim=1)",
        "y = np.linalg.norm(x.astype(np.float16), axis=1)",
        "y = np.linalg.norm(x.astype('float16'))",
        "def f(x):\n    h = x.half()\n    return h.norm()",
        "y = F.cosine_similarity(a.half(), b, eps=0)",
        "import jax.numpy as jnp\ny = jnp.linalg.norm(g.astype(jnp.float16), axis=-1)",
        "import jax.numpy as jnp\ny = jnp.linalg.norm(jnp.float16(g))",
        "import jax.numpy as jnp\ny = jnp.linalg.norm(jnp.asarray(g, dtype=jnp.float16))",
        "import jax, jax.numpy as jnp\ny = jnp.linalg.norm(jax.lax.convert_element_type(g, jnp.float16))",
        "import optax\nimport jax.numpy as jnp\ny = optax.global_norm(g.astype(jnp.float16))",
        "import optax\nimport jax.numpy as jnp\ny = optax.cosine_similarity(a.astype(jnp.float16), b)",
    ],
    "WB004": [
        "def f(h):\n    if h.norm() > 50:\n        raise ValueError('big')",
        "def f(h, t):\n    n = h.norm().item()\n    if n > t:\n        reasons.append('stream exploded')",
        "def f(g):\n    size = torch.linalg.norm(g)\n    vanished = size < 1e-7\n    return vanished",
        "def has_exploded(a, b):\n    return b.norm() / a.norm() > 50",
        "def f(h):\n    return {'exploded': bool(h.norm(dim=1).max() > 50)}",
        "def f(model):\n    n = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n    if n > 1e3:\n"
        "        warnings.warn('unusual')",
        "def f(h):\n    if h.norm() > 50 or h.norm() < 1e-7:\n        return 'diverged'",
    ],
    "WB005": [
        "class N(nn.Module):\n    def __init__(self):\n        self.B = torch.randn(10, 20)",
        "class N(nn.Module):\n    def __init__(self):\n        self.B = [torch.randn(10, d) / d**0.5 for d in ds]",
        "class N(nn.Linear):\n    def reset(self):\n        self.feedback = torch.empty(3, 4).normal_()",
        "class N(torch.nn.Module):\n    def forward(self, x):\n        self.weight_fa = torch.zeros(3)",
        "class A(nn.Module): pass\nclass N(A):\n    def __init__(self):\n        self.m = torch.rand(3).to('cuda')\n"
        "    def backward(self, g):\n        return g @ self.m",
        "class N(nn.Module):\n    def __init__(self):\n        self.p = nn.init.orthogonal_(torch.empty(3, 3))\n"
        "    def train_step(self, x, y):\n        error = y - self(x)\n        return error @ self.p",
        "class N(nn.Module):\n    def __init__(self):\n        self.m = [torch.randn(3, 4) for _ in range(5)]\n"
        "    def credit(self, e):\n        return [torch.matmul(e, m) for m in self.m]",
        "class N(nn.Module):\n    def __init__(self):\n        self.r = torch.randn(3, 4)\n"
        "    def forward(self, x):\n        return Function.apply(x, self.weight, self.r)",
        "class N(nn.Module):\n    def __init__(self):\n        self.p = torch.randn(10, 20)\n"
        "def hook(net, loss_grad):\n    return torch.mm(loss_grad, net.p)",
    ],
    "WB006": [
        "y = np.mean([F.cosine_similarity(a, b, eps=0).mean() for a, b in zip(layers, others)])",
        "y = torch.stack([cosine(g[l], c[l]) for l in range(n_layers)]).mean()",
        "y = sum(cos_sim(a, b) for a, b in zip(net.parameters(), other.parameters())) / n",
        "def f(model):\n    found = []\n    for layer in model.layers:\n"
        "        found.append(cosine_similarity(layer.a, layer.b))\n    return sum(found) / len(found)",
        "def f(model):\n    found = []\n    for block in model.blocks:\n        c = cosine(block.a, block.b)\n"
        "        found.append(c)\n    return torch.stack(found).mean()",
        "deep = [cosine(a[l], g[l]) for l in range(layers + 1)]\ny = sum(deep[1:]) / layers",
        "def f(blocks):\n    c = []\n    for block in blocks:\n        c.append(cosine(block.a, block.b))\n"
        "    return np.mean(c[1:])",
        "y = torch.stack([cosine(a, b) for a, b in layers])[1:].mean()",
    ],
    "WB007": [
        "state = torch.load(path)",
        "state = torch.load(path, map_location='cpu')",
        "from torch import load\nstate = load(path)",
    ],
    "WB008": [
        "y = F.cosine_similarity(g, g, eps=0)",
        "y = torch.cosine_similarity(self.g, self.g, 0, 0)",
        "import optax\ny = optax.cosine_similarity(g, g)",
    ],
    "WB009": [
        "grad[grad.abs() < 1e-8] = 0",
        "grad = torch.where(torch.abs(grad) <= 1e-8, torch.zeros_like(grad), grad)",
        "def alignment(a):\n    a[abs(a) < 1e-10] = 0.0\n    return a",
        "delta = np.where(np.abs(delta) > 1e-9, delta, 0)",
        "grad_bp[grad_bp.abs() <= self.sensitivity] = 0",
        "grad[grad.abs() < EPS] = 0",
        "import jax.numpy as jnp\ngrad = jnp.where(jnp.abs(grad) < 1e-8, 0.0, grad)",
        "import jax.numpy as jnp\ngrad = grad.at[jnp.abs(grad) < 1e-8].set(0)",
    ],
} | programs.FOUND

LEFT_ALONE = {
    "WB001": [
        "y = x.norm(dim=-1)",
        "y = x.norm(2, -1)",
        "y = x.norm()",
        "y = x.norm(p=-1)",
        "y = x.norm(-1, dim=1)",
        "y = x.norm(-1, 1)",
        "y = torch.norm(x, 2, -1)",
        "y = np.linalg.norm(x, axis=-1)",
        "y = np.linalg.norm(x, -np.inf)",
        "y = x.norm(-1.0)",
        "y = torch.norm(x, *rest)",
        "y = self.norm(x)",
        "y = x.normalize(-1)",
        "y = x.norm(-2) ** -2",
        "y = x.norm(-2).pow(-2)",
        "import jax.numpy as jnp\ny = jnp.linalg.norm(x, axis=-1)",
        "import jax.numpy as jnp\ny = jnp.linalg.norm(x, -1, -1)",
        "import jax.numpy as jnp\ny = jnp.linalg.norm(x, ord=-1)",
    ],
    "WB002": [
        "y = F.cosine_similarity(a, b, eps=1e-30)",
        "y = F.cosine_similarity(a, b, 1, 0.0)",
        "cos = nn.CosineSimilarity(0, 1e-20)",
        "y = F.cosine_similarity(a, b, **options)",
        "from sklearn.metrics.pairwise import cosine_similarity\ny = cosine_similarity(a, b)",
        "from mine import F\ny = F.cosine_similarity(a, b)",
        "def contrastive_loss(a, b):\n    return 1 - F.cosine_similarity(a, b)",
        "y = F.cosine_similarity(query_embedding, b)",
        "import optax\ny = optax.cosine_similarity(a, b)",
        "import optax\ny = optax.cosine_similarity(a, b, epsilon=0.0)",
        "import optax\ndef train_loss(a, b):\n    return optax.cosine_similarity(a, b, epsilon=1e-8)",
        "import jax.numpy as jnp\ny = jnp.vdot(a, b) / (jnp.linalg.norm(a) * jnp.linalg.norm(b))",
        "import jax.numpy as jnp\ny = x / (jnp.linalg.norm(x) + 1e-8)",
        "import jax.numpy as jnp\ny = jnp.vdot(features, b) / (jnp.linalg.norm(features) * jnp.linalg.norm(b) + 1e-8)",
        "import jax.numpy as jnp\ny = jnp.vdot(a, b) / (jnp.linalg.norm(a) + jnp.linalg.norm(b))",
        "import jax.numpy as jnp\ny = x / (jnp.maximum(jnp.linalg.norm(x), 1e-8) * scale)",
        "import jax.numpy as jnp\ny = jnp.vdot(a, b) / (n * jnp.linalg.norm(b))",
        "import optax\ny = (a @ b) / (optax.safe_norm(a, 0.0) * optax.safe_norm(b, 0))",
        "import jax.numpy as jnp\ndef cosine_loss(a, b):\n"
        "    return (a @ b) / ((jnp.linalg.norm(a) + 1e-8) * (jnp.linalg.norm(b) + 1e-8))",
    ],
    "WB003": [
        "y = x.norm()",
        "y = x.double().norm()",
        "y = x.bfloat16().norm()",
        "y = x.half().float().norm()",
        "y = x.half().sum()",
        "y = x.to(torch.float32).norm()",
        "def f(x, low):\n    h = x.half()\n    if not low:\n        h = x\n    return h.norm()",
        "y = x.half()",
        "import jax.numpy as jnp\ny = jnp.linalg.norm(jnp.asarray(g, dtype=jnp.float32))",
        "import jax.numpy as jnp\ny = jnp.linalg.norm(jnp.float16(g).astype(jnp.float32))",
        "import jax.numpy as jnp\ny = jnp.sum(jnp.float16(g))",
    ],
    "WB004": [
        "def f(h):\n    assert h.norm() < 50",
        "def f(h):\n    if not h.norm() <= 50:\n        raise ValueError",
        "def f(h):\n    n = h.norm()\n    if not torch.isfinite(n) or n > 50:\n        raise ValueError",
        "def f(h):\n    n = h.norm()\n    if n != n or n > 50:\n        raise ValueError",
        "def f(g, tol):\n    if g.norm() < tol:\n        converged = True",
        "def f(g, limit):\n    n = g.norm()\n    if n > limit:\n        g = g * limit / n",
        "def f(g, tol):\n    while True:\n        if g.norm() < tol:\n            break",
        "def f(x):\n    if x.size(0) > 50:\n        raise ValueError('exploded')",
        "def f(a, b):\n    if a.norm() > b.norm():\n        raise ValueError",
        "def f(h):\n    if h.norm() == 0:\n        raise ValueError",
    ],
    "WB005": [
        "class N(nn.Module):\n    def __init__(self):\n        self.B = nn.Parameter(torch.randn(10, 20))",
        "class N(nn.Module):\n    def __init__(self):\n        self.register_buffer('B', torch.randn(10, 20))",
        "class N(nn.Module):\n    def __init__(self):\n        self.register_buffer('B', None)\n"
        "        self.B = torch.randn(10, 20)",
        "class N(nn.Module):\n    def draw(self):\n        self.register_buffer(f'B_{1}', t)\n"
        "        self.B = torch.randn(2)",
        "class N(nn.Module):\n    def __init__(self):\n        self.scale = torch.zeros(3)",
        "class N(nn.Module):\n    def forward(self, x):\n        self.noise = torch.randn(3)",
        "class N:\n    def __init__(self):\n        self.B = torch.randn(10, 20)",
        "class N(nn.Module):\n    def __init__(self):\n        self.p = torch.rand(1).item()",
        "class N(nn.Module):\n    def __init__(self):\n        B = torch.randn(3)",
        "class N(lightning.LightningModule):\n    def __init__(self):\n"
        "        self.example_input_array = torch.rand(1, 3)",
        "class FeedbackNet(nn.Module):\n    def __init__(self):\n        self.noise = torch.randn(8)\n"
        "    def forward(self, x):\n        return x + self.noise",
        "class N(nn.Module):\n    def __init__(self):\n        self.p = nn.init.orthogonal_(torch.empty(3, 3))",
        "class N(nn.Module):\n    def __init__(self):\n        self.m = torch.rand(3).to('cuda')\n"
        "    def forward(self, x):\n        return x @ self.m",
        "class Gan(pl.LightningModule):\n    def __init__(self):\n        self.validation_z = torch.randn(8, 100)\n"
        "    def on_train_epoch_end(self):\n        return self(self.validation_z)",
        "class N(nn.Module):\n    def __init__(self):\n        self.noise = torch.randn(8)\n"
        "    def training_step(self, batch):\n        return self.loss(batch + self.noise)",
        "class N(nn.Module):\n    def __init__(self):\n        self.freqs = torch.randn(8, 2)\n"
        "    def update(self, x):\n        return torch.matmul(x, self.freqs).sin()",
    ],
    "WB006": [
        "y = np.mean([cosine(a, b) for a, b in zip(batches, others)])",
        "y = [cosine(a, b) for a, b in layers]",
        "def f(layers):\n    c = [cosine(a, b) for a, b in layers]\n    return c, sum(c) / len(c)",
        "def f(layers):\n    c = []\n    for a, b in layers:\n        c.append(cosine(a, b))\n    print(c)\n"
        "    return np.mean(c)",
        "y = np.mean([loss(a, b) for a, b in layers])",
        "for layer in layers:\n    c = []\n    c.append(cosine(layer.a, layer.b))\n"
        "    c.append(cosine(layer.a, layer.d))\n    print(layer, np.mean(c))",
        "deep = [cosine(a, b) for a, b in layers]\nprint(deep[1:], sum(deep[1:]) / len(deep[1:]))",
        "deep = [cosine(a, b) for a, b in layers]\ny, last = np.mean(deep[1:]), deep[-1]",
        "y = np.mean([np.cos(a) for a in layers])",
    ],
    "WB007": [
        "state = torch.load(path, weights_only=True)",
        "state = torch.load(path, weights_only=False)",
        "state = torch.load(path, **options)",
        "state = torch.load(path, pickle_module=dill)",
        "state = json.load(file)",
        "state = torch.hub.load('a', 'b')",
    ],
    "WB008": [
        "y = F.cosine_similarity(a, b, eps=0)",
        "y = F.cosine_similarity(x.unsqueeze(0), x.unsqueeze(1), dim=2, eps=0)",
        "y = F.cosine_similarity(draw(), draw(), eps=0)",
        "import optax\ny = optax.cosine_similarity(a, b)",
    ],
    "WB009": [
        "grad[grad.abs() < 1e-3] = 0",
        "grad[mask] = 0",
        "image[image.abs() < 1e-8] = 0",
        "grad[grad.abs() < 1e-8] = 1",
        "grad[grad < 1e-8] = 0",
        "grad[grad.abs() < threshold] = 0",
        "import jax.numpy as jnp\ngrad = grad.at[jnp.abs(grad) < 1e-8].set(1.0)",
        "import jax.numpy as jnp\ngrad = grad.at[jnp.abs(grad) < 1e-2].set(0)",
        "import jax.numpy as jnp\ngrad = grad.at[0].set(0)",
    ],
} | programs.LEFT_ALONE
