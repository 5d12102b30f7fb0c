"""The fault that ENGINE_FAULT asks for, in a process of a test."""

from engine import fault
from engine.config.settings import FAULT_VARIABLE, environment
from engine.errors import UsageError


def arm_as_asked() -> None:
    """Arm the point that ENGINE_FAULT names, none where it is not set; UsageError where it cannot be read."""
    if specification := environment(FAULT_VARIABLE):
        try:
            fault.arm(specification)
        except ValueError as error:
            raise UsageError(str(error)) from error
