// Two threads of Java that enter two monitors in opposite order.
// build: javac JavaOrder
// outcome: unknown
// must: waits to enter a monitor of Java
// must: prints for which lock each thread of Java waits
// never: something outside
// never: monitor of Java, for a limited time
class JavaOrder {
    static final Object accounts = new Object(), journal = new Object();

    public static void main(String[] arguments) throws Exception {
        Thread auditor = new Thread(() -> enter(journal, accounts), "auditor");
        auditor.start();
        enter(accounts, journal);
        auditor.join();
    }

    static void enter(Object first, Object second) {
        synchronized (first) {
            nap();
            synchronized (second) {
                System.out.println("both");
            }
        }
    }

    static void nap() {
        try {
            Thread.sleep(300);
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }
}
