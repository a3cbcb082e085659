"""Every case, in the order of the table."""

import models_feedback

CASES = [*models_feedback.CASES]
