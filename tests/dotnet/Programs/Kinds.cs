// Something of every kind that is profiled, each made by a method whose name says which, for a few seconds; started and set up from the
// environment. tests/dotnet/kinds.py looks for the kinds in what arrives.
//
//   Kinds SECONDS
using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.Globalization;
using System.Runtime.CompilerServices;
using System.Threading;
using System.Threading.Tasks;
using EdgeProf;

internal static class KindsProgram
{
    public static int Run(string[] args)
    {
        var seconds = double.Parse(args[0], CultureInfo.InvariantCulture);
        var clock = Stopwatch.StartNew();
        var rival = new Thread(() => Make.HoldLock(clock, seconds)) { Name = "rïval with a long name" };
        rival.Start();
        var pooled = Task.Run(() => Thread.Sleep(TimeSpan.FromSeconds(seconds)));
        var kept = new List<byte[]>();
        var dumped = false;
        while (clock.Elapsed.TotalSeconds < seconds)
        {
            if (!dumped && clock.Elapsed.TotalSeconds > seconds / 2)
                dumped = Profiler.DumpThreads();
            GC.KeepAlive(Make.Cpu());
            Make.Wait();
            Make.Lock();
            Make.Allocation();
            Make.LiveHeap(kept);
            Make.Exception();
            Make.Pause();
        }
        rival.Join();
        pooled.Wait();
        var stopped = Profiler.Stop(TimeSpan.FromSeconds(5));
        GC.KeepAlive(kept);
        return stopped ? 0 : 1;
    }
}

internal sealed class KindException : Exception;

internal static class Make
{
    private static readonly object gate = new();

    [MethodImpl(MethodImplOptions.NoInlining)]
    public static double Cpu()
    {
        double sum = 0;
        for (var i = 1; i < 3_000_000; i++)
            sum += Math.Sqrt(i);
        return sum;
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    public static void Wait() => Thread.Sleep(30);

    [MethodImpl(MethodImplOptions.NoInlining)]
    public static void Lock()
    {
        lock (gate)
            Thread.Sleep(1);
    }

    /// Has the lock nearly always, and leaves it for long enough to lose it.
    public static void HoldLock(Stopwatch clock, double seconds)
    {
        while (clock.Elapsed.TotalSeconds < seconds)
        {
            lock (gate)
                Thread.Sleep(20);
            Thread.Sleep(5);
        }
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    public static void Allocation()
    {
        for (var i = 0; i < 2000; i++)
            GC.KeepAlive(new byte[1000]);
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    public static void LiveHeap(List<byte[]> kept)
    {
        for (var i = 0; i < 20 && kept.Count < 4000; i++)
            kept.Add(new byte[20_000]);
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    public static void Exception()
    {
        try
        {
            throw new KindException();
        }
        catch (KindException)
        {
        }
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    public static void Pause() => GC.Collect(0);
}
