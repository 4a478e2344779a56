"""Campaign part: the library in Python with threads, forked and spawned processes.

Each case is an interpreter of its own: the process that runs campaigns must not have threads.
"""

import json
import subprocess
import sys

from torture.campaign import Case, Result

SHARED = """
import json, multiprocessing, os, sys, threading
from concurrent.futures import ThreadPoolExecutor
import epiclick as ec

FOLDER, SEED = sys.argv[1], int(sys.argv[2])
LOG, FEATURES = f"{FOLDER}/world/clicks.parquet", f"{FOLDER}/world/features.parquet"

def read(_=0):
    counts = ec.read_log(LOG if _ % 2 else f"{FOLDER}/log.csv")
    return [counts.total_displays, counts.total_clicks, len(counts)]

def fit(_=0):
    counts = ec.read_log(LOG, features=FEATURES)
    model = ec.EpistemicPBM(epochs=2, hidden=(4,), seed=SEED)
    return model.fit(counts, progress=False).position_bias()["mean"].tolist()

def relevance(_=0):
    return ec.load(f"{FOLDER}/net").relevance(FEATURES)["mean"].tolist()

def compare(_=0):
    rankings = {name: f"{FOLDER}/{name}.csv" for name in ("new", "live")}
    result = ec.compare(ec.load(f"{FOLDER}/net"), rankings, FEATURES, samples=200)
    return json.loads(json.dumps(result.to_dict(), default=str))

USES = {"read": read, "fit": fit, "relevance": relevance, "compare": compare}

def forked(use):
    read_end, write_end = os.pipe()
    process = os.fork()
    if not process:
        try:
            answer = json.dumps(["answer", use()])
        except ec.InputError as error:
            answer = json.dumps(["refused", str(error)])
        except BaseException as error:
            answer = json.dumps(["failed", repr(error)])
        os.write(write_end, answer.encode())
        os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as file:
        text = file.read()
    os.waitpid(process, 0)
    return json.loads(text)
"""

KINDS = {
    "threads": """
alone = USES[USE]()
with ThreadPoolExecutor(4) as pool:
    found = list(pool.map(USES[USE], [0, 1, 2, 3]))
assert all(each == alone for each in found), (alone, found)
""",
    "different uses in threads": """
alone = {name: use() for name, use in USES.items()}
with ThreadPoolExecutor(4) as pool:
    futures = {name: pool.submit(use) for name, use in USES.items()}
    found = {name: future.result() for name, future in futures.items()}
assert found == alone, USE
""",
    "first use in threads": """
with ThreadPoolExecutor(4) as pool:
    found = list(pool.map(USES[USE], [0, 1, 2, 3]))
assert all(each == USES[USE]() for each in found), found
""",
    "fork after use": """
alone = USES[USE]()
kind, answer = forked(USES[USE])
assert (kind, answer) == ("answer", alone), (kind, answer, alone)
""",
    "fork after threads": """
with ThreadPoolExecutor(4) as pool:
    alone = list(pool.map(USES[USE], [0, 1, 2, 3]))[0]
    kind, answer = forked(USES[USE])
assert (kind, answer) == ("answer", alone), (kind, answer, alone)
""",
    "fork after jax": """
exact = lambda: ec.EpistemicPBM("exact", epochs=1, hidden=(4,), samples=2).fit(
    ec.read_log(LOG, features=FEATURES), progress=False).position_bias()["mean"].tolist()
exact()
kind, answer = forked(exact)
assert kind == "refused" and "spawn" in answer, (kind, answer)
alone = USES[USE]()
kind, answer = forked(USES[USE])
assert (kind, answer) == ("answer", alone), (kind, answer, alone)
""",
    "spawned processes": """
alone = USES[USE]()
with multiprocessing.get_context("spawn").Pool(2) as pool:
    found = pool.map(USES[USE], [0, 1])
assert all(each == alone for each in found), (alone, found)
""",
    "forked pool": """
alone = USES[USE]()
with multiprocessing.get_context("fork").Pool(2) as pool:
    found = pool.map_async(USES[USE], [0, 1]).get(90)
assert all(each == alone for each in found), (alone, found)
""",
}
USES = ("read", "fit", "relevance", "compare")
WAYS = [(kind, use) for kind in KINDS for use in USES]
SECONDS = 240


def in_python(case: Case, turn: int) -> Result:
    """One way of using the library; the answers are those of one thread and one process."""
    kind, use = WAYS[turn % len(WAYS)]
    script = case.folder / "script.py"
    body = "".join(f"    {line}\n" for line in KINDS[kind].strip().splitlines())
    script.write_text(
        f"{SHARED}\nUSE = {use!r}\nif __name__ == '__main__':\n{body}    print('done')\n"
    )
    command = [sys.executable, "-W", "error::RuntimeWarning", script, case.stock / "in", "3"]
    try:
        done = subprocess.run(
            [*map(str, command)],
            cwd=case.folder,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Result(f"Python: {use}", kind, "failed", f"no end after {SECONDS} s")
    if done.returncode or done.stdout.splitlines()[-1:] != ["done"]:
        return Result(f"Python: {use}", kind, "failed", json.dumps(done.stderr[-700:]))
    return Result(f"Python: {use}", kind, "accepted")
