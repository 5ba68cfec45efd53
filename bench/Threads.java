import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/** Threads that meet, hand things on and make garbage: the condition variables of a JVM. */
public class Threads {
    static final int MEMBERS = 4;
    static final int ROUNDS = 2000;

    static void meet(CyclicBarrier barrier) throws Exception {
        List<byte[]> kept = new ArrayList<>();
        for (int round = 0; round < ROUNDS; round++) {
            barrier.await();
            kept.add(new byte[20_000]);
            if (kept.size() > 1000) {
                kept.clear();
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        CyclicBarrier barrier = new CyclicBarrier(MEMBERS);
        BlockingQueue<Integer> queue = new ArrayBlockingQueue<>(16);
        ExecutorService all = Executors.newFixedThreadPool(MEMBERS + 2);
        List<Future<?>> ends = new ArrayList<>();
        for (int member = 0; member < MEMBERS; member++) {
            ends.add(all.submit(() -> { meet(barrier); return null; }));
        }
        ends.add(all.submit(() -> { for (int i = 0; i < ROUNDS; i++) queue.put(i); return null; }));
        ends.add(all.submit(() -> { for (int i = 0; i < ROUNDS; i++) queue.take(); return null; }));
        for (Future<?> end : ends) {
            end.get();
        }
        all.shutdown();
        System.gc();
    }
}
