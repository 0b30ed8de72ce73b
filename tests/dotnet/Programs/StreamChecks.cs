// Profiles over streams of the program's own, while the collector runs all the time.
//
// A stream that works, one that gets stuck in Write, one that throws: what is promised of a Stop's time, of what is
// counted, and that nobody but the profiler waits.
using System.Diagnostics;
using EdgeProf;

internal sealed class StreamChecks(string directory, Action<bool, string> check)
{
    public void Run()
    {
        using var ending = new CancellationTokenSource();
        var churn = new Thread(() => Churn(ending.Token)) { IsBackground = true };
        churn.Start();
        Works();
        Slow();
        Stuck();
        Throws();
        ending.Cancel();
        check(churn.Join(TimeSpan.FromMinutes(1)), "the collector was never kept waiting");
    }

    /// <summary>Collections, each of which has to stop all threads that run managed code.</summary>
    private static void Churn(CancellationToken ending)
    {
        while (!ending.IsCancellationRequested)
        {
            GC.KeepAlive(new byte[100_000]);
            GC.Collect(0);
        }
    }

    private static ProfilerOptions Over(ProfileTransport transport) => new()
    {
        Service = "streams",
        Level = ProfileLevel.High,
        Interval = TimeSpan.FromMilliseconds(100),
        Transport = transport,
    };

    private void Works()
    {
        var path = Path.Combine(directory, "stream.profile");
        var collections = GC.CollectionCount(0);
        using (var transport = new StreamTransport(() => File.Open(path, FileMode.Append)))
        {
            Profiler.Start(Over(transport));
            Work.For(500);
            check(Profiler.Stop(TimeSpan.FromSeconds(20)), "all is delivered to a stream");
        }
        var stats = Profiler.GetStats();
        check(stats.Delivered > 2 && stats.Delivered == stats.Messages, $"{stats.Delivered} of {stats.Messages} messages");
        check(new FileInfo(path).Length == stats.DeliveredBytes + 4 * stats.Delivered, "the stream has them, framed");
        check(GC.CollectionCount(0) > collections, "there were collections meanwhile");
    }

    /// <summary>A Stop without a limit waits.</summary>
    private void Slow()
    {
        Profiler.Start(Over(new SlowTransport()));
        Work.For(300);
        check(Profiler.Stop(Timeout.InfiniteTimeSpan), "a Stop without a limit waits for a slow transport");
    }

    private sealed class SlowTransport : ProfileTransport
    {
        public override SendResult Send(ReadOnlySpan<byte> message, in ProfileMessage about)
        {
            Thread.Sleep(200);
            return SendResult.Delivered;
        }
    }

    /// <summary>Stop leaves at its time; what was stuck disturbs nobody, not even the next run.</summary>
    private void Stuck()
    {
        using var stream = new StuckStream();
        Profiler.Start(Over(new StreamTransport(stream)));
        while (!stream.Entered.Wait(0))
            Work.For(50);
        var collections = GC.CollectionCount(0);
        Work.For(300);
        check(GC.CollectionCount(0) > collections, "collections go on while the stream is stuck");
        var watch = Stopwatch.StartNew();
        check(!StopWhileAsked(TimeSpan.FromMilliseconds(500)), "not all was delivered to a stream that is stuck");
        check(watch.Elapsed < TimeSpan.FromSeconds(8), $"Stop with 500 ms took {watch.ElapsedMilliseconds} ms, the stream is stuck for ever");
        check(Profiler.GetStats().Losses.Any(loss => loss.Reason == "stopped"), "what was left is counted as lost");

        var path = Path.Combine(directory, "second.profile");
        using var second = new StreamTransport(() => File.Open(path, FileMode.Append));
        Profiler.Start(Over(second));
        stream.Release.Set(); // what it says now is about a run that is over
        Work.For(300);
        check(Profiler.Stop(TimeSpan.FromSeconds(20)), "the next run has a stream of its own");
        check(new FileInfo(path).Length == Profiler.GetStats().DeliveredBytes + 4 * Profiler.GetStats().Delivered, "and nothing else in it");
    }

    /// <summary>Another thread asks again and again whether the profiler runs. It does not wait for Stop: questions of the
    /// second half of Stop's time have their answers before its end.</summary>
    private bool StopWhileAsked(TimeSpan timeout)
    {
        var begun = 0L;
        var stopped = false;
        var answers = 0;
        var asker = new Thread(() =>
        {
            for (; !Volatile.Read(ref stopped); Thread.Sleep(5))
            {
                var at = Volatile.Read(ref begun);
                var counts = at != 0 && Stopwatch.GetElapsedTime(at) > timeout / 2;
                _ = Profiler.IsRunning;
                if (counts && !Volatile.Read(ref stopped))
                    answers++;
            }
        });
        asker.Start();
        Volatile.Write(ref begun, Stopwatch.GetTimestamp());
        var delivered = Profiler.Stop(timeout);
        Volatile.Write(ref stopped, true);
        asker.Join();
        check(answers > 0, $"IsRunning has answered {answers} times in the second half of it");
        return delivered;
    }

    private void Throws()
    {
        var path = Path.Combine(directory, "third.profile");
        var opened = 0;
        using var transport = new StreamTransport(() => opened++ == 0 ? throw new IOException("not yet") : File.Open(path, FileMode.Append));
        Profiler.Start(Over(transport));
        Work.For(300);
        check(Profiler.Stop(TimeSpan.FromSeconds(20)), "after a stream that throws all is delivered to the next");
        var stats = Profiler.GetStats();
        check(stats.DeliveryFailures == 1 && opened == 2, $"{stats.DeliveryFailures} failure, {opened} streams");
        check(new FileInfo(path).Length == stats.DeliveredBytes + 4 * stats.Delivered, "nothing is missing");
    }
}

/// <summary>Its first Write does not return until it is released.</summary>
internal sealed class StuckStream : MemoryStream
{
    public ManualResetEventSlim Entered { get; } = new();
    public ManualResetEventSlim Release { get; } = new();

    public override void Write(ReadOnlySpan<byte> buffer)
    {
        Entered.Set();
        Release.Wait();
        base.Write(buffer);
    }
}
