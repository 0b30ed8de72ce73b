namespace Async;

/// <summary>Allocations, exceptions, waits, locks and work under chains that are complete before the first continuation runs: a profile has
/// each of them under its parents.</summary>
internal static class Profiles
{
    public const int Rounds = 40, Each = 5, Bytes = 700_000; // more than the distance between samples: each is one

    private sealed class HandException : Exception;

    private static byte[]? sink;
    private static readonly object Held = new();

    private static async Task<int> Hand(Task gate)
    {
        await gate;
        for (var i = 0; i < Each; i++)
        {
            sink = new byte[Bytes];
            try
            {
                throw new HandException();
            }
            catch (HandException)
            {
                sink = null;
            }
        }
        Thread.Sleep(10);
        _ = Monitor.TryEnter(Held, 20); // longer than a collection: else it may be over before it waits
        var end = Environment.TickCount64 + 8;
        while (Environment.TickCount64 < end)
            Compute();
        return 1;
    }

    private static int sum;

    private static void Compute()
    {
        for (var i = 0; i < 2000; i++)
            sum = sum * 31 + i;
    }

    private static async ValueTask<int> Helper(Task gate)
    {
        var all = await Task.WhenAll(Hand(gate), Hand(gate)).ConfigureAwait(false);
        return all.Length;
    }

    private static async Task<string> Boss(Task gate) => (await Helper(gate)).ToString();

    /// <summary>Work that nobody waits for.</summary>
    private static async void Alone(Task gate, TaskCompletionSource done)
    {
        await gate;
        for (var i = 0; i < Each; i++)
            sink = new byte[Bytes];
        done.SetResult();
    }

    private static void Hold(EventWaitHandle held, EventWaitHandle release)
    {
        lock (Held)
        {
            held.Set();
            release.WaitOne();
        }
    }

    public static void Run()
    {
        using var held = new ManualResetEvent(false);
        using var release = new ManualResetEvent(false);
        var holder = new Thread(() => Hold(held, release));
        holder.Start();
        held.WaitOne();
        for (var i = 0; i < Rounds; i++)
        {
            var gate = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
            var done = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
            var boss = Boss(gate.Task);
            Alone(gate.Task, done);
            gate.SetResult();
            boss.Wait();
            done.Task.Wait();
        }
        release.Set();
        holder.Join();
    }
}
