"""The report page about a model, and figures of calibration."""
