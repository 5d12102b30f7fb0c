"""A process that answers as its question says, for `Worker`: `python -m tests.pipeline.echo`."""

import os
import sys
import time

import orjson

for line in sys.stdin.buffer:
    asked = orjson.loads(line)
    if asked.get("sleep"):
        time.sleep(asked["sleep"])
    if asked.get("end"):
        os._exit(3)
    sys.stderr.write(f"{asked}\n")
    sys.stdout.buffer.write(orjson.dumps({"said": asked.get("say"), "pid": os.getpid()}) + b"\n")
    sys.stdout.buffer.flush()
