"""Click models on the same pages: ours, plain versions of them, and peers."""
