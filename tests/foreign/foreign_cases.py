"""Every case, in the order of the table."""

import models_feedback
import models_language
import models_special
import models_streams

CASES = [*models_feedback.CASES, *models_streams.CASES, *models_special.CASES, *models_language.CASES]
