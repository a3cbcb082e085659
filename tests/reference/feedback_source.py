"""Feedback alignment as it is usually written, as source: for tests of what reads source."""

FUNCTION = """
class Feedback(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, W, B):
        ctx.save_for_backward(x, W, B)
        return x @ W.t()

    @staticmethod
    def backward(ctx, grad):
        x, W, B = ctx.saved_tensors
        return grad @ B, grad.t() @ x, None
"""
NETWORK = """
class Layer(nn.Module):
    def forward(self, x):
        return Feedback.apply(x, self.weight, self.B)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Layer() for _ in range(3))

class Twin(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(3))
"""
"""A network of such layers, and its twin with torch's own."""
