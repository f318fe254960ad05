"""The requests of a day, in their order."""

from .intent import Intent
from .report import INTENTS as REPORT_INTENTS
from .sales import INTENTS as SALES_INTENTS
from .training import INTENTS as TRAINING_INTENTS

INTENTS: tuple[Intent, ...] = (*REPORT_INTENTS, *SALES_INTENTS, *TRAINING_INTENTS)
