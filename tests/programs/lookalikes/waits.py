# What Python has for threads that wait for each other, used for other things than barriers.
#
# waits.py KIND [rounds]
#
# lock       two threads in turn, by two locks
# condition  three threads in turn, by a condition
# queue      one makes what another takes
# semaphore  one place for three threads
# pool       an executor that gets one task after the other
# event      one thread sets what another waits for, and back
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from queue import Queue

ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 2000


def work(by):
    return sum(range(by * 100))


def in_threads(count, act):
    threads = [threading.Thread(target=act, args=(me,)) for me in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def lock():
    mine = [threading.Lock(), threading.Lock()]
    mine[1].acquire()

    def act(me):
        for _ in range(ROUNDS):
            mine[me].acquire()
            work(50)
            mine[1 - me].release()

    in_threads(2, act)


def condition():
    changed = threading.Condition()
    turn = [0]

    def act(me):
        for _ in range(ROUNDS):
            with changed:
                changed.wait_for(lambda: turn[0] == me)
                work(20)
                turn[0] = (me + 1) % 3
                changed.notify_all()

    in_threads(3, act)


def queue():
    made = Queue(1)

    def act(me):
        for piece in range(ROUNDS):
            work(50)
            if me == 0:
                made.put(piece)
            else:
                made.get()

    in_threads(2, act)


def semaphore():
    places = threading.Semaphore(1)

    def act(me):
        for _ in range(ROUNDS):
            with places:
                work(20)
            work(me)

    in_threads(3, act)


def pool():
    with ThreadPoolExecutor(2) as workers:
        for _ in range(ROUNDS):
            workers.submit(work, 50).result()


def event():
    there, back = threading.Event(), threading.Event()

    def act(me):
        waited, told = (there, back) if me else (back, there)
        for _ in range(ROUNDS):
            if me == 0:
                work(20)
                told.set()
            waited.wait()
            waited.clear()
            if me == 1:
                work(20)
                told.set()

    in_threads(2, act)


{
    "lock": lock,
    "condition": condition,
    "queue": queue,
    "semaphore": semaphore,
    "pool": pool,
    "event": event,
}[sys.argv[1]]()
