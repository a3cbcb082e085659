"""A slow, obvious twin of the measurement: one sample at a time, ordinary autograd, plain loops in fp64.

It shares no code with walkback. Whoever doubts a figure of a report can read here what it should be.
"""

import copy
import itertools
from collections import Counter
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F

GROUP = 128
"""Samples in a group for (c), and the batch size that the published gradient norms are for."""


@dataclass
class Figures:
    residual_norms: list
    bp_grad_norms: list
    error_size: float
    scale_free_gradients: list
    site_stabilities: list | None
    drift_shares: list
    alignment: list | None


def measure(model, samples, taps, loss=None, tokens="flatten", sequence_first=False, credit=None):
    """Every figure of the protocol for (inputs, target) samples with a batch axis of 1.

    `taps` names the sites in the order in which the network reaches them: ("input" or "output", module
    name), the n-th mention of a pair being the n-th time that it happens.
    """
    model = copy.deepcopy(model).eval()
    for parameter in model.parameters():
        parameter.requires_grad_(True)
    loss = loss or cross_entropy
    hidden_norms, grad_norms, directions, error_norms, scale_free, cosines = [], [], [], [], [], []
    for inputs, target in samples:
        sites, logits = run(model, inputs, taps)
        value = loss(logits, target)
        *grads, error = torch.autograd.grad(value.sum(), [*sites, logits])
        sites = [array(site, sequence_first) for site in sites]
        grads = [array(grad, sequence_first) for grad in grads]
        hidden_norms.append([norm(site, tokens) for site in sites])
        grad_norms.append([norm(grad, tokens) for grad in grads])
        directions.append([direction(grad, tokens) for grad in grads])
        error_norms.append(float(np.sqrt((error.detach().double().numpy() ** 2).sum())))
        scale_free.append([h * g / error_norms[-1] for h, g in zip(hidden_norms[-1], grad_norms[-1], strict=True)])
        if credit is not None:
            given = credit([torch.as_tensor(site)[None] for site in sites], logits.detach(), target)
            vectors = [direction(credit_at[0].double().numpy(), tokens) for credit_at in given]
            cosines.append([cosine(a, g) for a, g in zip(vectors, directions[-1], strict=True)])
    count = len(taps)
    return Figures(
        residual_norms=[float(np.median([n[site] for n in hidden_norms])) for site in range(count)],
        bp_grad_norms=[float(np.median([n[site] for n in grad_norms])) / GROUP for site in range(count)],
        error_size=float(np.median(error_norms)),
        scale_free_gradients=[float(np.median([n[site] for n in scale_free])) for site in range(count)],
        site_stabilities=[stability([d[site] for d in directions]) for site in range(count)]
        if len(samples) >= 2 * GROUP
        else None,
        drift_shares=[drift_share([d[site] for d in directions]) for site in range(count)],
        alignment=[float(np.mean([c[site] for c in cosines])) for site in range(count)] if credit else None,
    )


def one_by_one(batches):
    """Batches of (inputs, targets) as samples with a batch axis of 1."""
    samples = []
    for inputs, targets in batches:
        for i in range(len(targets)):
            samples.append((pick(inputs, i), targets[i : i + 1]))
    return samples


def pick(inputs, i):
    if isinstance(inputs, dict):
        return {name: pick(value, i) for name, value in inputs.items()}
    if isinstance(inputs, tuple):
        return tuple(pick(value, i) for value in inputs)
    return inputs[i : i + 1]


def run(model, inputs, taps):
    """(site tensors, logits) of one forward pass, read with plain hooks."""
    happened, handles, times = {}, [], Counter()

    def note(end, name, value):
        happened[end, name, times[end, name]] = first_tensor(value)
        times[end, name] += 1

    for end, name in dict.fromkeys(taps):
        module = model.get_submodule(name)
        if end == "output":
            handles.append(module.register_forward_hook(lambda _m, _a, out, name=name: note("output", name, out)))
        else:
            handles.append(
                module.register_forward_pre_hook(
                    lambda _m, args, kwargs, name=name: note("input", name, [args, kwargs]), with_kwargs=True
                )
            )
    with torch.enable_grad():
        output = call(model, inputs)
    for handle in handles:
        handle.remove()
    seen, sites = Counter(), []
    for tap in taps:
        sites.append(happened[(*tap, seen[tap])])
        seen[tap] += 1
    return sites, output.logits if hasattr(output, "logits") else output


def call(model, inputs):
    if isinstance(inputs, dict):
        return model(**inputs)
    if isinstance(inputs, tuple):
        return model(*inputs)
    return model(inputs.clone().requires_grad_() if inputs.is_floating_point() else inputs)


def first_tensor(value):
    """The residual stream in what a module takes or returns: by name, or the first tensor with a graph."""
    if isinstance(value, torch.Tensor):
        return value if value.requires_grad else None
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (tuple, list)):
        return next((found for item in value if (found := first_tensor(item)) is not None), None)
    return None


def cross_entropy(logits, target):
    if logits.ndim == 3:
        return F.cross_entropy(logits[0], target[0], ignore_index=-100)
    return F.cross_entropy(logits, target)


def array(tensor, sequence_first):
    tensor = tensor.detach().double().numpy()
    return tensor[:, 0] if sequence_first and tensor.ndim == 3 else tensor[0]


def norm(site, tokens):
    if site.ndim == 2 and tokens == "token_norms":
        return float(np.mean([length(token) for token in site]))
    return length(direction(site, tokens))


def direction(site, tokens):
    return site[0] if site.ndim == 2 and tokens == "class_token" else site.ravel()


def length(vector):
    largest = np.abs(vector).max()
    return float(largest * np.sqrt(((vector / largest) ** 2).sum())) if largest > 0 else 0.0


def cosine(left, right):
    return float(np.dot(left / length(left), right / length(right)))


def stability(vectors):
    """The mean cosine over all pairs of means of 128 samples, in order; an incomplete last group is dropped."""
    means = []
    for start in range(0, len(vectors) - GROUP + 1, GROUP):
        mean = np.zeros_like(vectors[0])
        for vector in vectors[start : start + GROUP]:
            mean = mean + vector / GROUP
        means.append(mean)
    return float(np.mean([cosine(a, b) for a, b in itertools.combinations(means, 2)]))


def drift_share(vectors):
    """ρ: the mean of g(x)·g(y) over pairs of distinct samples, over the mean of ‖g(x)‖²."""
    pairs = [float(np.dot(a, b)) for a, b in itertools.combinations(vectors, 2)]
    return float(np.mean(pairs)) / float(np.mean([length(v) ** 2 for v in vectors]))
