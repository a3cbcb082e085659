#!/bin/bash
# Run examples/cluster/slurm.sh on a Slurm cluster of this machine alone: one node on loopback, two tasks.
#   tools/slurm_here.sh [ARGUMENTS OF walkback lab audit]
# It needs Debian's slurm-wlm, a venv with walkback[ray,lab], and the right to start daemons as this user. Everything
# lives in a temporary directory; the daemons end with the script.
set -euo pipefail

root="$(cd "$(dirname "$0")/.." && pwd)"
for program in munged mungekey slurmctld slurmd sbatch; do
    if ! PATH="$PATH:/usr/sbin" command -v "$program" >/dev/null; then
        echo "$program is missing. Install Debian's packages slurm-wlm and munge." >&2
        exit 2
    fi
done
export PATH="$PATH:/usr/sbin"

place="$(mktemp -d)"
host="$(hostname -s)"
started=()
finish() {
    for pid in "${started[@]}"; do kill "$pid" 2>/dev/null || true; done
    sleep 2
    rm -rf "$place"
}
trap finish EXIT
mkdir "$place/spool" "$place/state" "$place/runs" "$place/results"
chmod 755 "$place"

mungekey --create --keyfile "$place/munge.key"
munged --foreground --force --key-file "$place/munge.key" --socket "$place/munge.socket" --pid-file "$place/munged.pid" \
    --log-file "$place/munged.log" --seed-file "$place/munge.seed" >"$place/munged.out" 2>&1 &
started+=($!)

cat >"$place/slurm.conf" <<CONF
ClusterName=here
SlurmctldHost=$host(127.0.0.1)
AuthType=auth/munge
AuthInfo=socket=$place/munge.socket
SlurmUser=$(id -un)
SlurmctldPort=26817
SlurmdPort=26818
StateSaveLocation=$place/state
SlurmdSpoolDir=$place/spool
SlurmctldPidFile=$place/slurmctld.pid
SlurmdPidFile=$place/slurmd.pid
SlurmctldLogFile=$place/slurmctld.log
SlurmdLogFile=$place/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SchedulerType=sched/backfill
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
NodeName=$host NodeAddr=127.0.0.1 CPUs=$(nproc) State=UNKNOWN
PartitionName=all Nodes=$host Default=YES MaxTime=INFINITE State=UP
CONF
export SLURM_CONF="$place/slurm.conf"
slurmctld -D >"$place/slurmctld.out" 2>&1 &
started+=($!)
slurmd -D >"$place/slurmd.out" 2>&1 &
started+=($!)
for _ in $(seq 30); do
    sinfo --noheader --format=%t 2>/dev/null | grep -q idle && break
    sleep 1
done
sinfo

arguments=("$@")
if [ ${#arguments[@]} -eq 0 ]; then
    arguments=(--arch resmlp --data digits --methods bp dfa --seeds 1 2 --epochs 2 --name slurm --results "$place/results")
fi
status=0
WALKBACK_VENV="${WALKBACK_VENV:-$root/.venv}" WALKBACK_RUNS="$place/runs" \
    sbatch --wait --nodes=1 --ntasks-per-node=2 --cpus-per-task=1 --time=00:10:00 --output="$place/job.out" \
    --chdir="$place" "$root/examples/cluster/slurm.sh" "${arguments[@]}" || status=$?
# Without what Ray says of itself, and without the name of a directory that is gone.
grep -vE "INFO|SUCC|^\[[0-9 :,-]+ [IW] " "$place/job.out" | sed "s#$place#PLACE#g"
echo "the job ended with status $status"
# 1 is a verdict: a network that fails among what was judged.
[ "$status" -le 1 ]
