"""Direct random target projection: the target, not the error, reaches every site by a fixed random matrix."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from walkback.lab import FactoredCredit, LocalMethod, vector_size


class DRTP(LocalMethod):
    """a_l = B_lᵀ y with the one-hot target y and B_l ~ N(0, 1/d), shape (classes, d) (Frenkel et al. 2021)."""

    def draw(self, generator):
        """One matrix for each site, kept in a buffer so that it is saved with the run."""
        classes = self.model.data.classes
        for site, shape in enumerate(self.model.site_shapes):
            size = vector_size(shape)
            self.register_buffer(f"feedback_{site}", torch.randn(classes, size, generator=generator) / size**0.5)

    def redraw(self, generator):
        """The same rule with other matrices: the null of its alignment."""
        return self._fresh(generator)

    def credits_at(self, trace, sites):
        """B_lᵀ y in the shape of each site, as the product that it is."""
        targets = F.one_hot(trace.targets, self.model.data.classes).to(trace.logits.dtype)
        shapes = self.model.site_shapes
        return [FactoredCredit(targets, self.get_buffer(f"feedback_{site}"), shapes[site]) for site in sites], None
