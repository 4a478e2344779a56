"""What a log holds, before anything is fitted: its columns, its flaws, and what can be learned."""
