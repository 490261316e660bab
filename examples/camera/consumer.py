"""A consumer of server.cpp: claims each frame and looks at it, where it lies on the GPU."""

import subprocess
import sys

import gpulend

with subprocess.Popen(
    sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
) as camera:
    for line in camera.stdout:
        with gpulend.claim(bytes.fromhex(line)) as frame:
            assert frame.readonly
            print(frame.device, frame.shape, "light", frame.to_host().mean())
        camera.stdin.write("seen\n")
        camera.stdin.flush()
sys.exit(camera.returncode)
