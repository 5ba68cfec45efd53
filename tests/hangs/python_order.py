# Two locks of Python that two threads take in opposite order.
# build: python3
# outcome: hung
# must: waits for a lock of Python (0x
# must: no thread of the process is left that could wake it
# must: prints the functions of Python that each thread is in
# never: waits for the semaphore
# never: no circle of waits
# never: not known
import threading
import time
first, second = threading.Lock(), threading.Lock()
def move(source, to):
    with source:
        time.sleep(0.1)
        with to:
            pass
threads = [
    threading.Thread(target=move, args=locks) for locks in [(first, second), (second, first)]
]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
