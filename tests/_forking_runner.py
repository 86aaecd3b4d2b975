"""Run scripts with PyTorch, which takes seconds to import, imported once.

Reads paths of scripts, a line each. For each, a child that has PyTorch already runs the script, and
a line of JSON says how it exited and what it printed.
"""

import io
import json
import os
import runpy
import sys
import tempfile
import traceback
from contextlib import redirect_stderr, redirect_stdout

import torch
import torch._dynamo  # which the first optimizer would import


def run_in_child(path: str) -> tuple[int, str, str]:
    """The exit status of a script, and its output and errors."""
    with tempfile.TemporaryFile("w+", encoding="utf-8") as file:
        child = os.fork()
        if child == 0:
            out, err, code = io.StringIO(), io.StringIO(), 0
            with redirect_stdout(out), redirect_stderr(err):
                try:
                    sys.argv = [path]
                    runpy.run_path(path, run_name="__main__")
                except BaseException:
                    traceback.print_exc()
                    code = 1
            json.dump([code, out.getvalue(), err.getvalue()], file)
            file.flush()
            os._exit(0)
        os.waitpid(child, 0)
        file.seek(0)
        code, out_text, err_text = json.load(file)
        return code, out_text, err_text


if __name__ == "__main__":
    torch.set_num_threads(1)  # threads do not survive a fork
    for line in sys.stdin:
        print(json.dumps(run_in_child(line.strip())), flush=True)
