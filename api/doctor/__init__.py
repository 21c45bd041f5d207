"""What `turnstile doctor` does: asks a server for what capture needs, with tiny real requests."""

from turnstile.doctor.examination import examine
from turnstile.doctor.report import Check, Report

__all__ = ["Check", "Report", "examine"]
