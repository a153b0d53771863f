"""Runs shell commands on a terminal: terminal.py LINES COMMANDS. At each prompt that ends with a colon
it types the next of LINES, which commas separate. SIGINT is Ctrl-C."""
import os
import pty
import signal
import sys

lines = [line for line in sys.argv[1].split(",") if line]
child, terminal = pty.fork()
if child == 0:
    # Long lines must not be folded.
    os.environ["COLUMNS"] = "200"
    os.execvp("bash", ["bash", "-ec", sys.argv[2]])
signal.signal(signal.SIGINT, lambda *_: os.write(terminal, b"\x03"))
unseen = b""
while True:
    try:
        output = os.read(terminal, 65536)
    except OSError:
        # The terminal's last user has ended.
        break
    if not output:
        break
    sys.stdout.buffer.write(output)
    sys.stdout.buffer.flush()
    unseen += output
    if lines and unseen.rstrip(b" ").endswith(b":"):
        os.write(terminal, lines.pop(0).encode() + b"\n")
        unseen = b""
_, status = os.waitpid(child, 0)
sys.exit(os.waitstatus_to_exitcode(status) % 256)
