"""The style sheet of pages, in the light and in the dark."""

STYLE = """
:root { color-scheme: light dark; --text: #1c2430; --soft: #5b6675; --back: #ffffff;
  --card: #f4f6f8; --line: #d9dee4; --yes: #1a7f4b; --no: #b3261e; --open: #8a6d00; }
@media (prefers-color-scheme: dark) { :root { --text: #e4e8ee; --soft: #9aa5b3; --back: #14181d;
  --card: #1d232a; --line: #343c46; --yes: #57c98a; --no: #ff8a80; --open: #e3c04d; } }
body { margin: 0; background: var(--back); color: var(--text);
  font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 1100px; margin: 0 auto; padding: 24px 16px 64px; }
h1 { font-size: 1.7rem; } h2 { margin-top: 2.4rem; border-bottom: 1px solid var(--line); }
h3 { margin: 1.6rem 0 0.5rem; font-size: 1.05rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: 0.88rem; margin: 0.5rem 0; }
th, td { text-align: left; padding: 4px 10px; border-bottom: 1px solid var(--line);
  vertical-align: top; font-variant-numeric: tabular-nums; }
th { color: var(--soft); font-weight: 600; }
tr.beside td { color: var(--soft); }
details { background: var(--card); border-radius: 8px; margin: 6px 0; padding: 8px 12px; }
details p { margin: 0.4rem 0; font-size: 0.92rem; }
details p b { color: var(--soft); font-weight: 600; margin-right: 4px; }
summary { cursor: pointer; }
summary b { margin-right: 6px; }
.mark { display: inline-block; min-width: 7.2em; margin-right: 0.6em; font-weight: 600; }
.yes { color: var(--yes); } .no { color: var(--no); } .open { color: var(--open); }
figure { margin: 1rem 0 2rem; }
figure img { width: 100%; height: auto; background: #ffffff; border-radius: 8px; }
figcaption { color: var(--soft); font-size: 0.9rem; }
@media print { details { break-inside: avoid; } }
""".strip()
