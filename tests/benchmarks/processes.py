"""What processes have used of the machine."""

import contextlib

import psutil


def cpu(*processes: psutil.Process) -> float:
    """Return the seconds of CPU that processes have used; of one that is gone none."""
    spent = 0.0
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            spent += times.user + times.system
    return spent


def cpu_of_all(process: psutil.Process) -> float:
    """Return the seconds of CPU that a server and its processes have used, those that have ended too."""
    living = cpu(*process.children())
    times = process.cpu_times()
    return living + float(times.user + times.system + times.children_user + times.children_system)
