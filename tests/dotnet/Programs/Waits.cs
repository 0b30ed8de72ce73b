// Contended locks, sleeps, a socket's receives and a deadlock under the profiler, against stopwatches of their own: what
// the profiler says of them is read from its statistics.
using System;
using System.Diagnostics;
using System.Net;
using System.Net.Sockets;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using System.Threading;
using EdgeProf;

internal static unsafe class WaitsProgram
{
    private const int Wait = 2, Lock = 3, Threads = 8, Kinds = 12, CountAt = 6;
    private static readonly object Gate = new();
    private static long lockTicks;
    private static bool failed;

    [DllImport("edgeprof")] private static extern int ep_stats_get(ulong* stats);
    [DllImport("edgeprof")] private static extern int ep_flush();
    [DllImport("edgeprof")] private static extern int ep_kinds_set(uint kinds);

    private static ulong Told(int kind, bool value)
    {
        var stats = stackalloc ulong[256];
        ep_flush();
        Thread.Sleep(300);
        if (ep_stats_get(stats) != 0)
            throw new InvalidOperationException("no profiler runs");
        return stats[CountAt + kind + (value ? Kinds : 0)];
    }

    private static void Check(string figure, double value, string unit, double most)
    {
        Console.WriteLine(FormattableString.Invariant($"figure {figure} {value:F2} {unit}"));
        failed |= !(value <= most);
    }

    private static double OffBy(double told, double truth) => 100 * Math.Abs(told - truth) / truth;

    private static double Nanoseconds(long ticks) => ticks * 1e9 / Stopwatch.Frequency;

    private static void Contend()
    {
        for (int i = 0; i < 250; i++)
        {
            long start = Stopwatch.GetTimestamp();
            lock (Gate)
            {
                Interlocked.Add(ref lockTicks, Stopwatch.GetTimestamp() - start);
                long until = Stopwatch.GetTimestamp() + Stopwatch.Frequency / 1000 * (1 + i % 4);
                while (Stopwatch.GetTimestamp() < until)
                    Thread.Sleep(1);
            }
            Thread.Sleep(2); /* else the thread that has the lock takes it again */
        }
    }

    /// The stopwatch also measures how long a thread spins before it waits, and on a machine that is busy with other things
    /// that may be most of it: a run in which nearly nobody waited says nothing, the best of ten counts.
    private static void Locks()
    {
        double best = double.MaxValue, counts = 0;
        ep_kinds_set(1 << Lock);
        for (int run = 0; run < 10 && best > 5; run++)
        {
            double error = ContendedRun(out double countError);
            if (error >= best)
                continue;
            best = error;
            counts = countError;
        }
        Check("lock_delay_error_pct", best, "%", 5);
        /* Waits at one place within 50 us count as one acquire: how well that fits depends on the machine. */
        Console.WriteLine(FormattableString.Invariant($"figure lock_count_error_pct {counts:F2} %"));
    }

    private static double ContendedRun(out double countError)
    {
        ulong delay = Told(Lock, true), count = Told(Lock, false);
        long contentions = Monitor.LockContentionCount;
        var threads = new Thread[3];
        lockTicks = 0;
        for (int i = 0; i < threads.Length; i++)
            (threads[i] = new Thread(Contend)).Start();
        foreach (var thread in threads)
            thread.Join();
        contentions = Monitor.LockContentionCount - contentions;
        double told = Told(Lock, true) - delay, toldCount = Told(Lock, false) - count;
        Console.WriteLine($"locks: {told / 1e6:F0} ms of {Nanoseconds(lockTicks) / 1e6:F0} ms, {toldCount} of {contentions} contentions");
        countError = OffBy(toldCount, contentions);
        return OffBy(told, Nanoseconds(lockTicks));
    }

    /// Such sockets never wait, and are not looked at; the next ones get their descriptors, and wait.
    private static void UseWithoutWaiting()
    {
        using var listener = new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
        using var client = new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
        listener.Bind(new IPEndPoint(IPAddress.Loopback, 0));
        listener.Listen(1);
        var accepted = listener.AcceptAsync();
        client.ConnectAsync(listener.LocalEndPoint!).Wait();
        using var server = accepted.Result;
        var received = client.ReceiveAsync(new byte[16]);
        failed |= server.SendAsync(new byte[16]).Result != 16 || received.Result == 0;
    }

    private static long Receives()
    {
        UseWithoutWaiting();
        using var listener = new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
        using var client = new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
        listener.Bind(new IPEndPoint(IPAddress.Loopback, 0));
        listener.Listen(1);
        client.Connect(listener.LocalEndPoint!);
        using var server = listener.Accept();
        client.ReceiveTimeout = 50;
        var buffer = new byte[16];
        long start = Stopwatch.GetTimestamp();
        for (int i = 0; i < 30; i++)
        {
            try { client.Receive(buffer); failed = true; }
            catch (SocketException) { }
        }
        return Stopwatch.GetTimestamp() - start;
    }

    private static void Waits()
    {
        ep_kinds_set(1 << Wait);
        ulong before = Told(Wait, true);
        long start = Stopwatch.GetTimestamp(), truth = 0;
        for (int i = 0; i < 400; i++)
            Thread.Sleep(1 + i % 5);
        truth += Stopwatch.GetTimestamp() - start + Receives();
        double own = 0.3e9; /* the sleep in Told() */
        double told = Told(Wait, true) - before - own;
        Console.WriteLine($"waits: {told / 1e6:F0} ms of {Nanoseconds(truth) / 1e6:F0} ms");
        Check("managed_wait_error_pct", OffBy(told, Nanoseconds(truth)), "%", 2);
    }

    private static readonly object One = new(), Other = new();
    private static readonly Barrier Met = new(2);

    private static readonly long[] StuckSince = new long[2];

    private static void Stuck(int thread) => Volatile.Write(ref StuckSince[thread], Stopwatch.GetTimestamp());

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static void TakesOneThenOther()
    {
        lock (One)
        {
            Met.SignalAndWait();
            Stuck(0);
            lock (Other) { }
        }
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static void TakesOtherThenOne()
    {
        lock (Other)
        {
            Met.SignalAndWait();
            Stuck(1);
            lock (One) { }
        }
    }

    /// Both threads wait for ever: for locks, and in the dump that is asked for then.
    private static void Deadlock()
    {
        ep_kinds_set(1 << Lock);
        ulong before = Told(Lock, true), count = Told(Lock, false);
        new Thread(TakesOneThenOther) { IsBackground = true, Name = "one-other" }.Start();
        new Thread(TakesOtherThenOne) { IsBackground = true, Name = "other-one" }.Start();
        while (Volatile.Read(ref StuckSince[0]) == 0 || Volatile.Read(ref StuckSince[1]) == 0)
            Thread.Sleep(10);
        Thread.Sleep(2000);
        double truth = Nanoseconds(2 * Stopwatch.GetTimestamp() - StuckSince[0] - StuckSince[1]) / 1e6;
        double told = (Told(Lock, true) - before) / 1e6;
        ulong stuck = Told(Lock, false) - count;
        Console.WriteLine($"deadlock: {told:F0} ms told of {truth:F0} ms of two threads, {stuck} contentions");
        failed |= stuck != 2;
        failed |= told < 0.9 * truth; /* a thread may spin before it waits */
        failed |= !Profiler.DumpThreads();
        for (int i = 0; i < 100 && Told(Threads, true) == 0; i++) { }
        Console.WriteLine($"threads: {Told(Threads, true)}");
    }

    /// Profiles go to the file that is named.
    public static int Run(string[] arguments)
    {
        Profiler.Start(new ProfilerOptions { Service = "waits", Endpoint = "file://" + arguments[0], AllEvents = true });
        Locks();
        Waits();
        Deadlock();
        failed |= !Profiler.Stop(TimeSpan.FromSeconds(5));
        Console.WriteLine(failed ? "FAILED" : "ok");
        return failed ? 1 : 0;
    }
}
