using System.Diagnostics;
using System.Net.Sockets;
using EdgeProf;

/// <summary>
/// Starts and stops the profiler while threads wait, lock, allocate, throw, receive and use CPU time. Every thread counts
/// what it did, so a thread that hangs or a wait that returns early is seen as well as a crash.
/// </summary>
internal sealed class Storm(string directory, int stops)
{
    private const int ThreadsOfAKind = 6;
    private readonly object shared = new();
    private volatile bool over;
    private int errors;

    public int Run()
    {
        var threads = new List<Thread>();
        var counts = new long[6];
        for (var i = 0; i < ThreadsOfAKind; i++)
            foreach (var (kind, step) in new Action<int>[] { Wait, Lock, Allocate, Throw, Receive, Burn }.Index())
                threads.Add(Begin(step, i, () => Interlocked.Increment(ref counts[kind])));
        for (var round = 0; round < stops && errors == 0; round++)
            Round(round);
        over = true;
        foreach (var thread in threads)
            if (!thread.Join(TimeSpan.FromSeconds(30)))
                Fail("a thread hangs");
        foreach (var count in counts)
            if (count == 0)
                Fail("a kind of thread did nothing");
        Console.WriteLine($"storm: {stops} stops, {threads.Count} threads, {string.Join(" ", counts)} rounds, {errors} errors");
        return errors == 0 ? 0 : 1;
    }

    private void Round(int round)
    {
        var path = Path.Combine(directory, "storm.profile");
        if (round % 100 == 0)
            File.Delete(path);
        Profiler.Start(new ProfilerOptions
        {
            Service = "storm",
            Level = ProfileLevel.High,
            Endpoint = $"file://{path}",
            Interval = TimeSpan.FromMilliseconds(100),
        });
        Thread.Sleep(round % 4);
        if (!Profiler.Stop(TimeSpan.FromSeconds(20)))
            Fail($"stop {round} did not deliver");
        if (round % 1000 == 999)
            Console.WriteLine($"storm: {round + 1} stops");
    }

    private Thread Begin(Action<int> step, int number, Action count)
    {
        var thread = new Thread(() =>
        {
            while (!over)
            {
                step(number);
                count();
            }
        });
        thread.Start();
        return thread;
    }

    private void Fail(string why)
    {
        Interlocked.Increment(ref errors);
        Console.WriteLine($"storm: {why}");
    }

    private static void Wait(int number)
    {
        using var never = new ManualResetEventSlim();
        if (number % 2 == 0)
            never.Wait(3);
        else
            Thread.Sleep(3);
    }

    private void Lock(int number)
    {
        lock (shared)
            Thread.SpinWait(200 * (number + 1));
        Thread.Sleep(1);
    }

    private static void Allocate(int number)
    {
        for (var i = 0; i < 100; i++)
            GC.KeepAlive(new byte[1000 * (number + 1)]);
        Thread.Sleep(1);
    }

    private void Throw(int number)
    {
        try
        {
            Thrower(number + 4);
            Fail("no exception");
        }
        catch (InvalidOperationException)
        {
            Thread.Sleep(1);
        }
    }

    private static void Thrower(int depth)
    {
        if (depth == 0)
            throw new InvalidOperationException();
        Thrower(depth - 1);
        GC.KeepAlive(depth);
    }

    /// <summary>A receive with a timeout: signals to a sleeping thread would make it hang or end early.</summary>
    private void Receive(int number)
    {
        using var socket = new Socket(AddressFamily.InterNetwork, SocketType.Dgram, ProtocolType.Udp);
        socket.Bind(new System.Net.IPEndPoint(System.Net.IPAddress.Loopback, 0));
        socket.ReceiveTimeout = 3 + number;
        var started = Stopwatch.GetTimestamp();
        try
        {
            socket.Receive(new byte[10]);
            Fail("bytes from nowhere");
        }
        catch (SocketException e) when (e.SocketErrorCode == SocketError.TimedOut)
        {
            if (Stopwatch.GetElapsedTime(started) < TimeSpan.FromMilliseconds(2))
                Fail("a receive ended early");
        }
    }

    private static void Burn(int number)
    {
        double sum = 0;
        for (var i = 1; i < 3000 * (number + 1); i++)
            sum += Math.Sqrt(i);
        GC.KeepAlive(sum);
        Thread.Sleep(2);
    }
}
