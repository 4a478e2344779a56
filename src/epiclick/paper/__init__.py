"""The reproduction of the paper: its experiments, claims, figures and report."""
