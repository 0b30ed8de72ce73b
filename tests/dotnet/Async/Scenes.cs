using System.Runtime.CompilerServices;

namespace Async;

/// <summary>Async methods that wait for each other in known ways. Each captures when what waits for it has begun to wait:
/// Gate opens later.</summary>
internal static class Scenes
{
    /// <summary>Long enough for the callers to wait, mostly.</summary>
    private static async Task Gate()
    {
        await Task.Yield();
        Thread.SpinWait(50);
        await Task.Yield();
    }

    private static Chain On(Chain? up, [CallerMemberName] string name = "") => new(name, up);

    // ---- await, in each way ----

    private static async Task<int> Leaf(string scene, Chain? up)
    {
        await Gate();
        Truth.Capture(scene, up);
        await Gate().ConfigureAwait(false);
        Truth.Capture(scene, up);
        return 1;
    }

    private static async Task Plain1(Chain? up) => await Leaf("await", On(up));
    private static async Task<string> Plain2(Chain? up)
    {
        await Plain1(On(up));
        Truth.Capture("await, resumed", up);
        return "";
    }
    private static async Task<long> Plain3(Chain? up) => (await Plain2(On(up))).Length;
    private static async Task Plain4(Chain? up)
    {
        await Plain3(On(up));
        await Gate();
        Truth.Capture("await, again", up);
    }

    private static async Task Free1(Chain? up) => await Leaf("ConfigureAwait", On(up)).ConfigureAwait(false);
    private static async Task<Guid> Free2(Chain? up)
    {
        await Free1(On(up)).ConfigureAwait(false);
        return default;
    }

    private static async ValueTask<int> Value1(Chain? up) => await Leaf("ValueTask", On(up));
    private static async ValueTask Value2(Chain? up) => await Value1(On(up)).ConfigureAwait(false);
    private static async ValueTask<decimal> Value3(Chain? up)
    {
        await Value2(On(up));
        Truth.Capture("ValueTask, resumed", up);
        return 1;
    }

    // ---- several ----

    private static async Task All(Chain? up)
    {
        await Task.WhenAll(Leaf("WhenAll", On(up)), Plain2(On(up)), Leaf("WhenAll", On(up)));
        var both = await Task.WhenAll(Leaf("WhenAll<T>", On(up)), Leaf("WhenAll<T>", On(up)));
        await Task.WhenAll(Value3(On(up)).AsTask(), Free2(On(up)));
        Truth.Capture("WhenAll, resumed", both.Length == 2 ? up : null);
    }

    private static async Task Any(Chain? up)
    {
        var never = new TaskCompletionSource<int>();
        await Task.WhenAny(Leaf("WhenAny", On(up)), never.Task);
        Truth.Capture("WhenAny, resumed", up);
    }

    private static async Task Shared(Chain? up)
    {
        var task = Leaf("shared", new("First", On(up)));
        await Task.WhenAll(First(task, On(up)), Second(task));
    }
    private static async Task First(Task<int> task, Chain? up)
    {
        await task;
        Truth.Capture("shared, resumed", up);
    }
    private static async Task Second(Task task) => await task;

    // ---- the same method many times: boxes of one type on one stack ----

    private static async Task<int> Again(int depth, Chain? up)
    {
        if (depth == 0)
            await Leaf("recursion", On(up));
        else
            await Again(depth - 1, On(up));
        Truth.Capture("recursion, resumed", up);
        return depth;
    }

    /// <summary>Children that are not awaited yet are in locals; those are no parents.</summary>
    private static async Task<int> Decoys(int depth, Chain? up)
    {
        await Gate();
        if (depth == 0)
            return 0;
        var a = Decoys(depth - 1, On(up));
        var b = Decoys(depth - 1, On(up));
        Truth.Capture("decoys", up);
        var sum = await a;
        Truth.Capture("decoys", up);
        sum += await b;
        Truth.Capture("decoys", up);
        return sum + 1;
    }

    /// <summary>A method that is awaited, by another one, is in a register of the frame that captures.</summary>
    private static async Task Holds(Chain? up)
    {
        var open = new TaskCompletionSource<int>();
        var held = Watched(open.Task);
        var watcher = Watches(held);
        await Gate();
        Hold(held, "held", up);
        open.SetResult(0);
        await watcher;
    }
    private static async Task<int> Watched(Task<int> open) => await open;
    private static async Task Watches(Task<int> task) => await task;

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static void Hold(Task held, string scene, Chain? up)
    {
        Truth.Capture(scene, up);
        GC.KeepAlive(held);
    }

    /// <summary>The part before the first await runs on the stack of the method that calls.</summary>
    private static async Task Begin(Chain? up)
    {
        await Gate();
        await Began(up);
    }
    private static async Task Began(Chain? up)
    {
        Truth.Capture("not yet awaited", up);
        await Gate();
        Truth.Capture("not yet awaited", On(up, nameof(Begin)));
    }

    // ---- cancellation, exceptions ----

    private static async Task Cancelled(Chain? up)
    {
        using var source = new CancellationTokenSource();
        var waiting = Waiting(source.Token, On(up));
        await Gate();
        source.Cancel();
        try
        {
            await waiting;
        }
        catch (OperationCanceledException)
        {
            Truth.Capture("?cancelled, catch", up);
        }
        Truth.Capture("cancelled, resumed", up);
    }
    private static async Task Waiting(CancellationToken token, Chain? up)
    {
        try
        {
            await Task.Delay(Timeout.Infinite, token);
        }
        finally
        {
            Truth.Capture("?cancelled, finally", up);
        }
    }

    private static async Task Faulty(Chain? up)
    {
        await Gate();
        Truth.Capture("throws", up);
        throw new InvalidOperationException("on purpose");
    }
    private static async Task<int> Passes(Chain? up)
    {
        await Faulty(On(up));
        return 0;
    }
    private static async Task Catches(Chain? up)
    {
        try
        {
            await Passes(On(up));
        }
        catch (InvalidOperationException)
        {
            Truth.Capture("?caught, catch", up);
        }
        Truth.Capture("caught, resumed", up);
        await Leaf("caught, then await", On(up));
    }

    // ---- other continuations ----

    private sealed class Context : SynchronizationContext
    {
        public override void Post(SendOrPostCallback callback, object? state) => ThreadPool.QueueUserWorkItem(_ =>
        {
            SetSynchronizationContext(this);
            callback(state);
            SetSynchronizationContext(null);
        });
    }

    private static async Task Posted(Chain? up)
    {
        SynchronizationContext.SetSynchronizationContext(new Context());
        var task = PostedLeaf(On(up));
        await task;
        SynchronizationContext.SetSynchronizationContext(null);
        await Gate().ConfigureAwait(false);
        Truth.Capture("posted, resumed", up);
    }
    private static async Task PostedLeaf(Chain? up)
    {
        await Gate().ConfigureAwait(false);
        Truth.Capture("posted", up);
    }

    private readonly struct Awaiter(Task task) : INotifyCompletion
    {
        public Awaiter GetAwaiter() => this;
        public bool IsCompleted => task.IsCompleted;
        public void GetResult() => task.GetAwaiter().GetResult();
        public void OnCompleted(Action continuation) => task.ConfigureAwait(false).GetAwaiter().OnCompleted(continuation);
    }

    private static async Task Own(Chain? up) => await new Awaiter(Leaf("own awaiter", On(up)));

    private static async Task Then(Chain? up) =>
        await Leaf("ContinueWith", On(up)).ContinueWith(static task => task.Result, TaskScheduler.Default);

    private static async Task Timed(Chain? up) => await Leaf("WaitAsync", On(up)).WaitAsync(TimeSpan.FromMinutes(1));

    private static async Task Unwrapped(Chain? up) => await Task.Run(() => Leaf("Task.Run(async)", On(up)));

    private static async Task Runs(Chain? up)
    {
        await Gate();
        await Task.Run(() => Truth.Capture("?Task.Run", On(up, nameof(Runs))));
    }

    private static async Task Decoy(Task task) => await task;

    /// <summary>The task that runs has moved, and where it was lie tasks that a decoy waits for.</summary>
    private static async Task Moves(Chain? up)
    {
        await Gate();
        var chain = On(up);
        await Task.Run(() =>
        {
            Truth.Capture("Task.Run, first", chain);
            var kept = new List<object>();
            for (var i = 0; i < 40; i++)
            {
                if (i % 10 == 0)
                    GC.Collect(i % 20 == 0 ? 0 : 2, GCCollectionMode.Forced, true, true);
                for (var k = 0; k < 20; k++)
                {
                    var task = new Task(static () => { });
                    kept.Add(task);
                    kept.Add(Decoy(task));
                }
            }
            Truth.Capture("Task.Run, moved", chain);
            GC.KeepAlive(kept);
        });
    }

    // ---- nobody waits, or nothing that is known ----

    private static async Task Alone(TaskCompletionSource done)
    {
        await Gate();
        Truth.Capture("nobody", null);
        done.SetResult();
    }

    private static async void Void(TaskCompletionSource done)
    {
        await Gate();
        Truth.Capture("async void", null);
        done.SetResult();
    }

    private static async IAsyncEnumerable<int> Stream(Chain? up)
    {
        await Gate();
        Truth.Capture("?stream", up);
        yield return 1;
        await Gate();
        Truth.Capture("?stream", up);
    }

    private static async Task Reads(Chain? up)
    {
        await foreach (var one in Stream(On(up)))
            Truth.Capture("?stream, resumed", one == 1 ? up : null);
    }

    [AsyncMethodBuilder(typeof(PoolingAsyncValueTaskMethodBuilder))]
    private static async ValueTask Pooled(Chain? up)
    {
        await Gate();
        Truth.Capture("?pooled", up);
    }
    private static async Task Pools(Chain? up) => await Pooled(On(up));

    public static async Task Round()
    {
        await Plain4(On(null));
        await Free2(On(null));
        await Value3(On(null));
        await All(On(null));
        await Any(On(null));
        await Shared(On(null));
        await Again(12, On(null));
        await Again(40, On(null));
        await Decoys(3, On(null));
        await Holds(On(null));
        await Begin(On(null));
        await Cancelled(On(null));
        await Catches(On(null));
        await Own(On(null));
        await Then(On(null));
        await Timed(On(null));
        await Unwrapped(On(null));
        await Runs(On(null));
        await Moves(On(null));
        await Task.Run(() => Posted(new(nameof(Round), null)));
        await Reads(On(null));
        await Pools(On(null));
        var done = new TaskCompletionSource();
        _ = Alone(done);
        await done.Task.ConfigureAwait(ConfigureAwaitOptions.ForceYielding);
        done = new TaskCompletionSource();
        Void(done);
        await done.Task.ConfigureAwait(ConfigureAwaitOptions.ForceYielding);
    }
}
