// Calls that a signal could break, under load: receives with a timeout, on sockets that get nothing and on sockets that get
// something late, sleeps, waits with a timeout, and files. What comes out of each goes to standard output and must not depend on
// whether, or how closely, somebody profiles; what the profiler has seen goes to standard error.
using System;
using System.Diagnostics;
using System.IO;
using System.Linq;
using System.Net;
using System.Net.Sockets;
using System.Security.Cryptography;
using System.Threading;
using EdgeProf;

internal static class WorkloadProgram
{
    private const int Rounds = 30, TimeoutMs = 50;
    private static volatile bool stopping;

    /// Threads that use the CPU all the time: their timers' signals must hit nobody else.
    private static void Burn()
    {
        double sum = 0;
        while (!stopping)
            for (int i = 1; i < 10_000; i++)
                sum += Math.Sqrt(i);
        GC.KeepAlive(sum);
    }

    private static (Socket, Socket) Pair()
    {
        using var listener = new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
        listener.Bind(new IPEndPoint(IPAddress.Loopback, 0));
        listener.Listen(1);
        var client = new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
        client.Connect(listener.LocalEndPoint!);
        return (client, listener.Accept());
    }

    /// Nothing ever comes. Some CPU time between the calls, so that ticks come close to them.
    private static string Timeouts()
    {
        var (client, server) = Pair();
        client.ReceiveTimeout = TimeoutMs;
        int timeouts = 0, early = 0;
        for (int i = 0; i < Rounds; i++)
        {
            Spin();
            long start = Stopwatch.GetTimestamp();
            try { client.Receive(new byte[16]); }
            catch (SocketException e) when (e.SocketErrorCode is SocketError.TimedOut or SocketError.WouldBlock) { timeouts++; }
            early += Stopwatch.GetElapsedTime(start).TotalMilliseconds < TimeoutMs - 5 ? 1 : 0;
        }
        GC.KeepAlive(server);
        return $"{timeouts} timeouts, {early} early";
    }

    /// Every answer comes before the timeout; sender and receiver change places.
    private static string Echo()
    {
        var (client, server) = Pair();
        client.ReceiveTimeout = 20_000;
        var echo = new Thread(() =>
        {
            var bytes = new byte[4096];
            for (int n; (n = server.Receive(bytes)) > 0;)
                server.Send(bytes, n, SocketFlags.None);
        }) { IsBackground = true };
        echo.Start();
        using var hash = IncrementalHash.CreateHash(HashAlgorithmName.SHA256);
        var random = new Random(1);
        var message = new byte[4096];
        for (int i = 0; i < 30 * Rounds; i++)
        {
            int size = random.Next(1, message.Length);
            random.NextBytes(message.AsSpan(0, size));
            client.Send(message, size, SocketFlags.None);
            for (int got = 0; got < size;)
                got += client.Receive(message, got, size - got, SocketFlags.None);
            hash.AppendData(message, 0, size);
        }
        client.Shutdown(SocketShutdown.Both);
        return Convert.ToHexString(hash.GetHashAndReset());
    }

    private static string Sleeps()
    {
        using var never = new SemaphoreSlim(0);
        object gate = new();
        int early = 0, signalled = 0;
        for (int i = 0; i < 2 * Rounds; i++)
        {
            long start = Stopwatch.GetTimestamp();
            Thread.Sleep(5);
            signalled += never.Wait(5) ? 1 : 0;
            lock (gate)
                signalled += Monitor.Wait(gate, 5) ? 1 : 0;
            early += Stopwatch.GetElapsedTime(start).TotalMilliseconds < 13 ? 1 : 0;
        }
        return $"{signalled} signalled, {early} early";
    }

    private static string Files()
    {
        string path = Path.GetTempFileName();
        try
        {
            var random = new Random(2);
            using (var file = new FileStream(path, FileMode.Create, FileAccess.ReadWrite, FileShare.None, 1))
            {
                var bytes = new byte[8192];
                for (int i = 0; i < 20 * Rounds; i++)
                {
                    random.NextBytes(bytes);
                    file.Write(bytes, 0, random.Next(1, bytes.Length));
                    if (i % 100 == 0)
                        file.Flush(true);
                }
            }
            return Convert.ToHexString(SHA256.HashData(File.ReadAllBytes(path)));
        }
        finally
        {
            File.Delete(path);
        }
    }

    private static void Spin()
    {
        long until = Stopwatch.GetTimestamp() + Stopwatch.Frequency / 500;
        while (Stopwatch.GetTimestamp() < until)
            Thread.SpinWait(10);
    }

    public static int Run()
    {
        var parts = new (string Name, Func<string> Run, string Result)[]
            { ("timeouts", Timeouts, ""), ("echo", Echo, ""), ("sleeps", Sleeps, ""), ("files", Files, "") };
        var burners = Enumerable.Range(0, 1).Select(_ => new Thread(Burn)).ToArray();
        var threads = Enumerable.Range(0, parts.Length).Select(i => new Thread(() => parts[i].Result = parts[i].Run())).ToArray();
        foreach (var thread in burners.Concat(threads))
            thread.Start();
        for (int i = 0; i < threads.Length; i++)
        {
            if (!threads[i].Join(100_000))
            {
                Console.WriteLine($"{parts[i].Name}: hangs");
                Console.Out.Flush();
                Environment.FailFast(parts[i].Name + " hangs");
            }
            Console.WriteLine($"{parts[i].Name}: {parts[i].Result}");
        }
        stopping = true;
        foreach (var thread in burners)
            thread.Join();
        Console.Error.WriteLine($"samples {Profiler.GetStats().Samples}");
        return 0;
    }
}
