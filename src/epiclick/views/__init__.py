"""How results look in a terminal, in a notebook and as figures."""
