#!/bin/bash
# A grid on a Slurm cluster: one Ray worker per node, the grid on the first of them.
#   sbatch examples/cluster/slurm.sh --preset resmlp_d256
# Sent again after a time limit or a failure, it goes on where it was.
#SBATCH --job-name=walkback
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=32
#SBATCH --time=08:00:00
set -euo pipefail

# What to change: the environment with walkback[ray], and a folder that every node sees (or s3://bucket/runs).
source "${WALKBACK_VENV:-$HOME/walkback/.venv}/bin/activate"
RUNS="${WALKBACK_RUNS:-$HOME/walkback/runs}"

export OMP_NUM_THREADS=1 RAY_USAGE_STATS_ENABLED=0
# Who reaches a port of Ray can run code as you. From Ray 2.60 on, a token in ~/.ray keeps others out.
if ray get-auth-token --generate >/dev/null 2>&1; then export RAY_AUTH_MODE=token; fi
nodes=($(scontrol show hostnames "$SLURM_JOB_NODELIST"))
head_node="${nodes[0]}"
head_address="$(srun --nodes=1 --ntasks=1 -w "$head_node" hostname --ip-address | awk '{print $1}')"
port=$((20000 + SLURM_JOB_ID % 10000))

srun --nodes=1 --ntasks=1 --overlap -w "$head_node" \
    ray start --head --node-ip-address="$head_address" --port="$port" \
    --num-cpus="$SLURM_CPUS_ON_NODE" --include-dashboard=false --block &
sleep 15
if [ "${#nodes[@]}" -gt 1 ]; then
    srun --nodes=$((${#nodes[@]} - 1)) --ntasks=$((${#nodes[@]} - 1)) --overlap -x "$head_node" \
        ray start --address="$head_address:$port" --num-cpus="$SLURM_CPUS_ON_NODE" --block &
    sleep 15
fi

srun --nodes=1 --ntasks=1 --overlap -w "$head_node" \
    walkback lab audit "$@" --runs "$RUNS" --ray "$head_address:$port"
