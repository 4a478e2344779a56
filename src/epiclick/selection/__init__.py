"""Which click model fits a log: several are fitted, and scored on the same held-out pages."""
