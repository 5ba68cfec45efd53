# A lock of Python that is taken twice.
# build: python3
# outcome: hung
# must: no thread of the process is left that could wake it
# must: waits for a lock of Python (0x
# must: prints the functions of Python that each thread is in
# never: waits for the semaphore
# never: no circle of waits
# never: not known
import threading
lock = threading.Lock()
def add():
    with lock:
        pass
with lock:
    add()
