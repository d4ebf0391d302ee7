"""A Slurm of one node on the loopback, made of Debian's daemons and gone with the test."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

DAEMONS = ("munged", "slurmctld", "slurmd")

# Two cores more than the smallest machine has: jobs of one core run side by side all the same.
CONF = """
ClusterName=metastable
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
SlurmctldPort={first}
SlurmdPort={second}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/builtin
SchedulerParameters=sched_min_interval=100000
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
ReturnToService=2
KillWait=2
SlurmdParameters=config_overrides
NodeName={host} NodeAddr=127.0.0.1 CPUs=4 RealMemory=8000 State=UNKNOWN
PartitionName=main Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


def missing() -> str | None:
    """Why Slurm cannot be started here, or None."""
    absent = [name for name in (*DAEMONS, "sbatch") if find(name) is None]
    if absent:
        return f"{', '.join(absent)} not installed: make slurm (apt-get install slurm-wlm munge)"
    return None if os.geteuid() == 0 else "the daemons of Slurm are started by root only"


def find(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


@contextlib.contextmanager
def running(folder: Path):
    """Start munge and Slurm in `folder`; the environment that its commands need."""
    host = socket.gethostname().split(".")[0]
    for name in ("state", "spool"):
        (folder / name).mkdir(parents=True)
    folder.chmod(0o755)  # munge asks that others cannot write where its socket is
    key = folder / "munge.key"
    key.write_bytes(os.urandom(256))
    key.chmod(0o600)
    first, second = free_port(), free_port()
    conf = folder / "slurm.conf"
    conf.write_text(CONF.format(host=host, folder=folder, first=first, second=second))
    environment = os.environ | {"SLURM_CONF": str(conf)}
    munge = [f"--{what}={folder}/munge.{what.split('-')[0]}" for what in ("key-file", "pid-file")]
    munge += [f"--socket={folder}/munge.sock", f"--seed-file={folder}/munge.seed"]
    munge += [f"--log-file={folder}/munge.log", "--foreground", "--force"]
    commands = (["munged", *munge], ["slurmctld", "-D"], ["slurmd", "-D"])
    with contextlib.ExitStack() as stack:
        for name, *words in commands:
            log = stack.enter_context(open(folder / f"{name}.out", "wb"))
            program = find(name)
            assert program is not None
            daemon = subprocess.Popen(
                [program, *words], env=environment, stdout=log, stderr=log, start_new_session=True
            )
            stack.callback(end, daemon)
            if name == "munged":
                until((folder / "munge.sock").exists)
        stack.callback(command, environment, "scancel", "--user=root", "--signal=KILL", "--full")
        until(lambda: "idle" in command(environment, "sinfo", "--noheader", "--format=%t"))
        yield environment


def command(environment: dict, *words: str) -> str:
    """What a command of Slurm prints; a minute at most."""
    done = subprocess.run(
        words, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    return done.stdout


def end(process: subprocess.Popen) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def until(condition, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.1)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
