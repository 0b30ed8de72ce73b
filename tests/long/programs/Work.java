import java.util.*;
import java.util.concurrent.*;
import java.util.stream.*;

/** Threads, collections of garbage, exceptions, faults that the virtual machine handles, a child process. */
public class Work {
    static int depth(int n) {
        return n == 0 ? 0 : 1 + depth(n - 1);
    }

    static long garbage(int seed) {
        long sum = 0;
        for (int i = 0; i < 400_000; i++) {
            sum += new StringBuilder().append(seed).append(i).toString().hashCode();
        }
        return sum;
    }

    static int faults() {
        int caught = 0;
        for (int i = 0; i < 20_000; i++) {
            try {
                String none = i % 2 == 0 ? null : "text";
                caught += none.length() - 4;
            } catch (NullPointerException e) {
                caught++;
            }
        }
        return caught;
    }

    static int overflows() {
        try {
            return depth(Integer.MAX_VALUE);
        } catch (StackOverflowError e) {
            return -1;
        }
    }

    public static void main(String[] arguments) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(4);
        List<Future<Long>> sums = new ArrayList<>();
        for (int i = 0; i < 12; i++) {
            final int seed = i;
            sums.add(pool.submit(() -> garbage(seed)));
        }
        long total = 0;
        for (Future<Long> sum : sums) {
            total += sum.get();
        }
        pool.shutdown();
        System.out.println("total " + total + ", faults " + faults() + ", overflow " + overflows());
        System.out.println("primes " + IntStream.range(2, 300_000).parallel().filter(n -> IntStream.rangeClosed(2, (int) Math.sqrt(n)).noneMatch(d -> n % d == 0)).count());
        Process child = new ProcessBuilder("echo", "child").redirectErrorStream(true).start();
        System.out.println(new String(child.getInputStream().readAllBytes()).trim() + " " + child.waitFor());
        System.gc();
        System.exit(7);
    }
}
