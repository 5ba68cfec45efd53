// A barrier of Java for four threads, of which there are three.
// build: javac JavaParties
// outcome: unknown
// must: prints for which lock each thread of Java waits
// never: something outside
// never: for ever
import java.util.concurrent.CyclicBarrier;

class JavaParties {
    public static void main(String[] arguments) {
        CyclicBarrier line = new CyclicBarrier(4);
        for (int worker = 0; worker < 3; worker++) {
            new Thread(() -> {
                try {
                    line.await();
                } catch (Exception e) {
                    throw new IllegalStateException(e);
                }
            }, "worker-" + worker).start();
        }
    }
}
