"""The ptxas that Triton calls where the GPU is simulated.

Its "cubin" is the PTX as text, which the simulated GPU loads as it would load a cubin.
"""

from __future__ import annotations

import os

from gpulend import _native, _programs

# Triton reads the release: it decides which version of PTX is written. The rest tells Triton's
# cache that cubins of this program are no others.
VERSION = f"""ptxas: gpulend {_native.__version__}, in the place of NVIDIA (R) Ptx assembler
Cuda compilation tools, release 12.8, V12.8.0"""

# A shell starts in a millisecond, and Triton calls this for every kernel.
SCRIPT = f"""#!/bin/sh
source= output=elf.o
while [ $# -gt 0 ]; do
    case "$1" in
    --version | -V)
        cat <<'VERSION'
{VERSION}
VERSION
        exit 0 ;;
    -o | --output-file) output=$2; shift ;;
    --output-file=*) output=${{1#*=}} ;;
    -*) ;;
    *.ptx) source=$1 ;;
    esac
    shift
done
if [ -z "$source" ]; then
    echo "ptxas (gpulend): no source; name a .ptx file" >&2
    exit 1
fi
exec cp -- "$source" "$output"
"""


def install() -> str:
    """Return the path of a program `ptxas` that packs PTX for the simulated GPU."""
    return os.path.join(_programs.put("ptxas", SCRIPT), "ptxas")
