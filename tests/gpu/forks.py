"""Programs in processes of their own, and forks beside threads that work."""

from __future__ import annotations

import os
import textwrap

from .resources import REAL, python

CHOOSE = "" if REAL else "gpulend.simulate(devices=2)"
# Each fork catches the threads somewhere else; `make test-long` has many more.
FORKS = int(os.environ.get("GPULEND_TEST_FORKS", "15"))
FORKING = """
    import gc, os, signal, threading, time
    lease = gpulend.full(1000, 3, "int32")
    host = gpulend.full(1000, 3, "int32").to_host()
    streams = [gpulend.Stream() for _ in range(100)]  # a long list under the lock
    {prepare}
    gpulend.synchronize()
    stopped, failures = [], []
    def busy():
        try:
            while not stopped:
                work()
        except BaseException as error:
            failures.append(repr(error))
    def work():
        {work}
    def refused(call):
        try:
            call()
        except gpulend.NoDeviceError as error:
            return error.code == 914
        return False
    def child():
        assert refused(lambda: lease.used_on(1)), "used_on"
        assert refused(lambda: lease.used_on(streams[5])), "used_on a stream"
        assert refused(lambda: lease.to_host()), "to_host"
        assert refused(lambda: gpulend.zeros(3)), "zeros"
        for call in (
            lambda: lease.used_on(99),
            lambda: gpulend.borrow(lease, streams[3]),
            lambda: gpulend.borrow(lease),
            lambda: gpulend.describe(lease),
            lambda: gpulend.ledger(),
            lambda: lease.__dlpack__(stream=1, dl_device=(2, 0)),
            lambda: lease.__cuda_array_interface__,
            lambda: lease[5:].release(),
            {calls}
        ):
            try:
                call()
            except (gpulend.Error, KeyError, AttributeError):
                pass
        assert gpulend.borrow(host).lend("numpy").sum() == 3000
        gc.collect()
    threads = [threading.Thread(target=busy, daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    failed = []
    for number in range({forks}):
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                child()
                code = 0
            except BaseException as error:
                os.write(2, repr(error).encode())
            os._exit(code)
        end = time.monotonic() + 5
        while True:
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                break
            if time.monotonic() > end:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                status = "hangs"
                break
            time.sleep(0.0005)
        if status:
            failed.append((number, status))
        if len(failed) > 2:
            break
    stopped.append(1)
    for thread in threads:
        thread.join()
    assert lease.to_host().tolist() == [3] * 1000
    print(failed, failures)
"""


def forking(work: str, prepare: str = "", calls: str = "") -> str:
    """Fork again and again beside threads that work; return what went wrong."""
    program = textwrap.dedent(FORKING).format(work=work, prepare=prepare, calls=calls, forks=FORKS)
    return run(program).strip().splitlines()[-1]


def run(program: str, **variables: str) -> str:
    """Run a program after gpulend was imported and a driver chosen."""
    return python(f"import gpulend\n{CHOOSE}\n" + textwrap.dedent(program), **variables)
