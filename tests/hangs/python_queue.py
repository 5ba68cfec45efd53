# A worker does not say that a job is done.
# build: python3
# outcome: hung
# must: no thread of the process is left that could wake it
# never: no circle of waits
# never: not known
import queue
import threading
jobs = queue.Queue()
def work():
    while True:
        jobs.get()
for _ in range(2):
    threading.Thread(target=work, daemon=True).start()
jobs.put(1)
jobs.join()
