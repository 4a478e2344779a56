"""From logs and feature files to counts: the only folder that touches raw data."""
