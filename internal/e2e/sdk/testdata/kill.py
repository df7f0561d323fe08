"""Runs a program and kills it after a number of executed lines: kill.py LINES PROGRAM ARGUMENTS."""

import os
import runpy
import signal
import sys

left = int(sys.argv[1])
program = os.path.abspath(sys.argv[2])
sys.argv = sys.argv[2:]


def trace(frame, event, argument):
    global left
    if frame.f_code.co_filename != program:
        return None
    if event == "line":
        left -= 1
        if left < 0:  # the line before this one was executed
            os.kill(os.getpid(), signal.SIGKILL)
    return trace


sys.settrace(trace)
runpy.run_path(program, run_name="__main__")
