// What Java has for threads that wait for each other, used for other things than barriers.
//
// Waits KIND [rounds]
//
// park        two threads in turn, by LockSupport
// monitor     two threads in turn, by wait and notify
// synchronous a SynchronousQueue between two threads
// lock        a ReentrantLock that is always wanted
// pool        an executor that gets one task after the other

import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.locks.LockSupport;
import java.util.concurrent.locks.ReentrantLock;

class Waits {
    static volatile double sink;
    static volatile int turn;

    static void work(int by) {
        double sum = 0;
        for (int i = 0; i < by * 1000; i++)
            sum += i * 0.5;
        sink = sum;
    }

    interface Act {
        void act(int me) throws Exception;
    }

    static Thread[] inThreads(int count, Act act) throws Exception {
        Thread[] threads = new Thread[count];
        for (int i = 0; i < count; i++) {
            int me = i;
            threads[i] = new Thread(() -> {
                try {
                    act.act(me);
                } catch (Exception error) {
                    throw new RuntimeException(error);
                }
            });
        }
        for (Thread thread : threads)
            thread.start();
        return threads;
    }

    static void park(int rounds) throws Exception {
        Thread[][] all = new Thread[1][];
        Act act = me -> {
            while (all[0] == null)
                Thread.sleep(1);
            for (int i = 0; i < rounds; i++) {
                while (turn != me)
                    LockSupport.park();
                work(50);
                turn = 1 - me;
                LockSupport.unpark(all[0][1 - me]);
            }
        };
        Thread[] threads = inThreads(2, act);
        all[0] = threads;
        for (Thread thread : threads)
            thread.join();
    }

    static void monitor(int rounds) throws Exception {
        Object monitor = new Object();
        for (Thread thread : inThreads(2, me -> {
            for (int i = 0; i < rounds; i++) {
                synchronized (monitor) {
                    while (turn != me)
                        monitor.wait();
                    work(50);
                    turn = 1 - me;
                    monitor.notifyAll();
                }
            }
        }))
            thread.join();
    }

    static void synchronous(int rounds) throws Exception {
        SynchronousQueue<Integer> queue = new SynchronousQueue<>();
        for (Thread thread : inThreads(2, me -> {
            for (int i = 0; i < rounds; i++) {
                work(50 * ((i + me) % 3));
                if (me == 0)
                    queue.put(i);
                else
                    queue.take();
            }
        }))
            thread.join();
    }

    static void lock(int rounds) throws Exception {
        ReentrantLock held = new ReentrantLock();
        for (Thread thread : inThreads(3, me -> {
            for (int i = 0; i < rounds; i++) {
                held.lock();
                work(50);
                held.unlock();
                work(5 * me);
            }
        }))
            thread.join();
    }

    static void pool(int rounds) throws Exception {
        ExecutorService workers = Executors.newFixedThreadPool(2);
        for (int i = 0; i < rounds; i++)
            workers.submit(() -> work(50)).get();
        workers.shutdown();
    }

    public static void main(String[] arguments) throws Exception {
        int rounds = arguments.length > 1 ? Integer.parseInt(arguments[1]) : 3000;
        switch (arguments[0]) {
            case "park" -> park(rounds);
            case "monitor" -> monitor(rounds);
            case "synchronous" -> synchronous(rounds);
            case "lock" -> lock(rounds);
            case "pool" -> pool(rounds);
            default -> System.exit(2);
        }
    }
}
