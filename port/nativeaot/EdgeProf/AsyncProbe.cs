using System.Runtime.CompilerServices;

namespace EdgeProf;

/// <summary>Measures how the runtime represents what waits for an async method, with tasks whose waiters are known, and
/// then tries it out: port/nativeaot/async_parents.c. Only programs that ask for async parents call it.</summary>
internal static class AsyncProbe
{
    /// <summary>enum ep_async_object in glue.h.</summary>
    private enum AsyncObject
    {
        Task, Box, BoxText, BoxVoid, ActionTask, Action, Target, FlowTask, FlowAction, ThenTask, Then, ListTask, ListFirst, Count,
    }

    [InlineArray((int)AsyncObject.Count)]
    private struct Objects
    {
        private object? first;
    }

    [InlineArray(2)]
    private struct Pair
    {
        private object? first;
    }

    [InlineArray(4)]
    private struct Four
    {
        private object? first;
    }

    /// <summary>A target of delegates that is nothing else.</summary>
    private sealed class Target
    {
        public int Calls;

        public void Call() => Calls++;
    }

    private static readonly object Gate = new(), Running = new();
    private static bool? measured;
    private static bool tried, partly;
    private static uint turn;
    private static object? inner, outer;

    /// <summary>Why stacks have no async parents, or some have none; empty: they have, or nobody asked.</summary>
    public static string Unavailable =>
        Native.AsyncReason() is { Length: > 0 } reason ? reason
        : partly ? "for waits and CPU samples, because a thread's mode cannot be told in this program" : "";

    /// <summary>Call it while the profiler runs. The first call measures.</summary>
    public static void Enable(bool enable)
    {
        lock (Gate)
        {
            if (enable && !tried)
            {
                tried = true;
                // Of its own: a synchronization context or a scheduler of this one would run continuations later.
                var thread = new Thread(TryAll) { IsBackground = true, Name = "edgeprof-probe" };
                thread.Start();
                thread.Join();
                if (Unavailable is { Length: > 0 } reason)
                    Profiler.Say($"async parents are off: {reason}");
            }
            Native.AsyncEnable(enable ? 1 : 0);
        }
    }

    /// <summary>Whether pending tasks can be listed with this runtime. The first call measures.</summary>
    public static bool KnowsTasks()
    {
        lock (Gate)
            return Measured() && MeasureTasks();
    }

    /// <summary>Once: hooks use it meanwhile.</summary>
    private static bool Measured() => measured ??= Measure();

    private static unsafe bool MeasureTasks()
    {
        var failed = Task.FromException<int>(new InvalidOperationException());
        _ = failed.Exception; // observed
        Four four = default;
        four[0] = new TaskCompletionSource<int>().Task;
        four[1] = Task.FromResult(1234567);
        four[2] = failed;
        four[3] = Task.FromCanceled<int>(new CancellationToken(true));
        return Native.TasksMeasure(Unsafe.AsPointer(ref four), 4) == 0;
    }

    private static unsafe bool Measure()
    {
        var open = new TaskCompletionSource<int>[7];
        for (var i = 0; i < open.Length; i++)
            open[i] = new TaskCompletionSource<int>();
        var target = new Target();
        Action action = target.Call, flowing = target.Call;
        Objects objects = default;
        objects[(int)AsyncObject.Task] = open[0].Task;
        objects[(int)AsyncObject.Box] = Number(open[0].Task);
        objects[(int)AsyncObject.BoxText] = Text(open[1].Task);
        objects[(int)AsyncObject.BoxVoid] = Nothing(open[2].Task);
        objects[(int)AsyncObject.ActionTask] = open[3].Task;
        objects[(int)AsyncObject.Action] = action;
        objects[(int)AsyncObject.Target] = target;
        open[3].Task.ConfigureAwait(false).GetAwaiter().UnsafeOnCompleted(action);
        objects[(int)AsyncObject.FlowTask] = open[4].Task;
        objects[(int)AsyncObject.FlowAction] = flowing;
        open[4].Task.ConfigureAwait(false).GetAwaiter().OnCompleted(flowing);
        objects[(int)AsyncObject.ThenTask] = open[5].Task;
        objects[(int)AsyncObject.Then] = open[5].Task.ContinueWith(static task => task.Id, TaskScheduler.Default);
        objects[(int)AsyncObject.ListTask] = open[6].Task;
        objects[(int)AsyncObject.ListFirst] = Number(open[6].Task);
        _ = Text(open[6].Task);
        _ = Nothing(open[6].Task);
        var fits = Native.AsyncMeasure(Unsafe.AsPointer(ref objects), (uint)AsyncObject.Count) == 0;
        foreach (var one in open)
            one.SetResult(0);
        return fits;
    }

    private static void TryAll()
    {
        if (Measured())
        {
            RunTasks();
            for (var i = 0; i < 3; i++)
                Try();
        }
        for (turn = 0; turn < 3 && Environment.Version.Major >= 11; turn++)
            TryRuntimeAsync();
        inner = outer = null;
        partly = Native.ModeMeasure() != 0;
    }

    /// <summary>The runtime's two ways to run a task: in this thread, and in the pool. A pool that has no thread for it in a second
    /// is not waited for; then delegates of tasks have no parents.</summary>
    private static void RunTasks()
    {
        var task = new Task(() => Ran(0));
        inner = task;
        task.RunSynchronously(TaskScheduler.Default);
        var ran = new ManualResetEventSlim();
        task = new Task(() =>
        {
            lock (Running)
                Ran(1);
            ran.Set();
        });
        inner = task;
        task.Start(TaskScheduler.Default);
        ran.Wait(1000);
        lock (Running)
            inner = null;
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static unsafe void Ran(uint number)
    {
        Pair pair = default;
        pair[0] = inner;
        if (inner is not null)
            Native.AsyncTask(Unsafe.AsPointer(ref pair), number);
    }

    /// <summary>A completion runs the continuation before it returns.</summary>
    private static void Try()
    {
        var open = new TaskCompletionSource<int>();
        inner = Inner(open.Task);
        outer = Outer((Task<int>)inner);
        open.SetResult(0);
    }

    /// <summary>.NET 11's library copies streams by a method that is runtime-async. Pipe is called by it when it has been resumed.</summary>
    private static unsafe void TryRuntimeAsync()
    {
        var open = new TaskCompletionSource<int>();
        var pipe = new Pipe(open.Task);
        inner = pipe.CopyToAsync(pipe, 16);
        outer = Copied((Task)inner);
        Pair pair = default;
        pair[0] = inner;
        pair[1] = open.Task;
        Native.AsyncSuspended(Unsafe.AsPointer(ref pair));
        open.SetResult(1);
    }

    private static async Task<string> Copied(Task copy)
    {
        await copy.ConfigureAwait(false);
        return "";
    }

    /// <summary>A stream with one byte, when it comes.</summary>
    private sealed class Pipe(Task<int> comes) : Stream
    {
        private int reads;

        public override bool CanRead => true;
        public override bool CanSeek => false;
        public override bool CanWrite => true;
        public override long Length => 0;
        public override long Position { get => 0; set { } }

        public override ValueTask<int> ReadAsync(Memory<byte> buffer, CancellationToken cancel = default) =>
            reads++ == 0 ? new ValueTask<int>(comes) : new ValueTask<int>(0);

        public override unsafe ValueTask WriteAsync(ReadOnlyMemory<byte> buffer, CancellationToken cancel = default)
        {
            Pair pair = default;
            pair[0] = inner;
            pair[1] = outer;
            _ = Native.AsyncResumed(Unsafe.AsPointer(ref pair), turn);
            return default;
        }

        public override int Read(byte[] buffer, int offset, int count) => 0;
        public override void Write(byte[] buffer, int offset, int count) { }
        public override void Flush() { }
        public override long Seek(long offset, SeekOrigin origin) => 0;
        public override void SetLength(long value) { }
    }

    private static async Task<int> Inner(Task<int> open)
    {
        var result = await open.ConfigureAwait(false);
        Check();
        return result;
    }

    private static async Task<string> Outer(Task<int> open) => (await open.ConfigureAwait(false)).ToString();

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static unsafe void Check()
    {
        Pair pair = default;
        pair[0] = inner;
        pair[1] = outer;
        Native.AsyncCheck(Unsafe.AsPointer(ref pair), turn++);
    }

    private static async Task<int> Number(Task<int> open) => await open.ConfigureAwait(false) + 1;

    private static async Task<string> Text(Task<int> open) => (await open.ConfigureAwait(false)).ToString();

    private static async Task Nothing(Task<int> open) => await open.ConfigureAwait(false);
}
