// Tags and spans against what the program itself knows: at every hop the thread's state on the C side must be that of the
// logical flow of control, and a pool thread that has finished must have none.
//
//   Context tags | spans | otel | sampler | ratio   prints "figure NAME VALUE" and its checks; 0 when all are good
//   Context labels ENDPOINT                     uses CPU time under tags and spans and prints how much of each, for labels.py
using System.Collections.Concurrent;
using System.Diagnostics;
using System.Globalization;
using System.Runtime.CompilerServices;
using EdgeProf;
using OpenTelemetry;
using OpenTelemetry.Trace;

internal static class ContextProgram
{
    public static async Task<int> Run(string[] args)
    {
        CultureInfo.CurrentCulture = CultureInfo.InvariantCulture;
        var options = new ProfilerOptions { Service = "context", Level = ProfileLevel.Low };
        if (args is ["labels", var endpoint])
            (options.Endpoint, options.Level) = (endpoint, ProfileLevel.High);
        if (args is ["spans"] or ["sampler"] or ["labels", _])
            options.SpanSources.Add("Test.*");
        using var provider = args is ["otel"]
            ? Sdk.CreateTracerProviderBuilder().AddSource("Test.Spans").SetSampler(new AlwaysOnSampler())
                .AddEdgeProf().Build()
            : null;
        Profiler.Start(options);
        var good = args switch
        {
            ["tags"] => await Hops.TagsAsync(),
            ["spans"] or ["otel"] => await Hops.SpansAsync(),
            ["sampler"] => Sampled.Run(),
            ["ratio"] => Ratio.Measure(),
            ["labels", _] => await Labelled.RunAsync(),
            _ => throw new ArgumentException("Context: expected tags, spans, otel, sampler, ratio or labels ENDPOINT"),
        };
        Profiler.Stop(TimeSpan.FromSeconds(1));
        return good ? 0 : 1;
    }
}

internal static class Hops
{
    private const int Flows = 16, PerFlow = 7000; // 112,000
    private static int hops, moved, wrong, stale;
    private static readonly ActivitySource Source = new("Test.Spans");
    private static readonly uint[][] Sets = new uint[Flows][];

    public static async Task<bool> TagsAsync()
    {
        for (var flow = 0; flow < Flows; flow++)
        {
            var outer = Native.Set(0, "flow", $"f{flow}");
            Sets[flow] = [outer, Native.Set(outer, "step", "a"), Native.Set(outer, "step", "b")];
        }
        await Task.WhenAll(Enumerable.Range(0, Flows).Select(flow => Task.Run(() => TagFlowAsync(flow))));
        await IdleAsync();
        Edges();
        Forgets();
        return Report("tag_errors");
    }

    private static async Task TagFlowAsync(int flow)
    {
        var random = new Random(flow);
        using var outer = Profiler.Tag("flow", $"f{flow}");
        for (var i = 0; i < PerFlow; i += 3)
        {
            ExpectTags(Sets[flow][0]);
            using (Profiler.Tag("step", "a"))
            {
                await HopAsync(random);
                ExpectTags(Sets[flow][1]);
                var child = Task.Run(() => ExpectTags(Sets[flow][1])); // work that was started carries it too
                using (Profiler.Tag("unused", "x"))
                    await HopAsync(random);
                ExpectTags(Sets[flow][1]);
                await child;
            }
            ExpectTags(Sets[flow][0]);
            using (Profiler.Tag("step", "b"))
            {
                await HopAsync(random);
                ExpectTags(Sets[flow][2]);
            }
            ExpectTags(Sets[flow][0]);
        }
    }

    private static async Task HopAsync(Random random)
    {
        var before = Environment.CurrentManagedThreadId;
        switch (random.Next(40))
        {
            case 0:
                await Task.Delay(1);
                break;
            case 1:
                await Task.Run(() => Thread.SpinWait(100)).ConfigureAwait(false);
                break;
            default:
                await Task.Yield();
                break;
        }
        Interlocked.Increment(ref hops);
        if (Environment.CurrentManagedThreadId != before)
            Interlocked.Increment(ref moved);
    }

    private static void ExpectTags(uint expected)
    {
        if (Native.Tags() != expected && Interlocked.Increment(ref wrong) < 10)
            Console.WriteLine($"FAIL tags are {Native.Tags()}, expected {expected}");
    }

    /// <summary>Many pool threads with no flow of ours: none may have kept anything.</summary>
    private static async Task IdleAsync()
    {
        using var done = new CountdownEvent(400);
        for (var i = 0; i < 400; i++)
            ThreadPool.UnsafeQueueUserWorkItem(_ =>
            {
                var work = Native.Here;
                if (Native.Tags() != 0 || (work.SpanId | work.TraceHigh | work.TraceLow) != 0)
                    Interlocked.Increment(ref stale);
                Thread.Sleep(1);
                done.Signal();
            }, null);
        await Task.Run(done.Wait);
    }

    /// <summary>Scopes that do not end in order, tags that change another AsyncLocal between, suppressed flow, keys made
    /// valid, too many values.</summary>
    private static void Edges()
    {
        var other = new AsyncLocal<string?>();
        uint a = Native.Set(0, "a", "1"), b = Native.Set(0, "b", "2"), valid = Native.Set(0, "__x", "v");
        var outer = Profiler.Tag("a", "1");
        var inner = Profiler.Tag("b", "2");
        outer.Dispose();
        ExpectTags(b);
        inner.Dispose();
        ExpectTags(0);
        using (Profiler.Tag("a", "1"))
            other.Value = "kept";
        ExpectTags(0);
        if (other.Value != "kept")
            Interlocked.Increment(ref wrong);
        using (ExecutionContext.SuppressFlow())
        using (Profiler.Tag("a", "1"))
            ExpectTags(a);
        ExpectTags(0);
        using (Profiler.Tag("1-x", "v"))
            ExpectTags(valid);
        ExpectTags(0);
        for (var i = 0; i < 100; i++)
            using (Profiler.Tag("many", $"v{i}"))
                if (Native.Tags() == 0)
                    Interlocked.Increment(ref wrong);
        if (Profiler.GetStats().Losses.All(loss => !loss.Reason.Contains("tag")))
            Interlocked.Increment(ref wrong);
    }

    /// <summary>A thread that has finished its work, and lives on, keeps nothing of it: not what the work's contexts
    /// hold, and not its root span.</summary>
    private static void Forgets()
    {
        var thread = new Thread(static () =>
        {
            var (request, root) = Request();
            GC.Collect();
            Forgotten(request, "the request");
            if (root is not null)
                Forgotten(root, "the root span");
        });
        thread.Start();
        thread.Join();
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static (WeakReference Request, WeakReference? Root) Request()
    {
        var current = new AsyncLocal<object?>();
        var request = current.Value = new byte[1000];
        using var root = Source.StartActivity("request");
        for (var i = 0; i < 20; i++)
            using (Profiler.Tag("step", $"s{i % 10}"))
                GC.KeepAlive(request);
        current.Value = null;
        return (new WeakReference(request), root is null ? null : new WeakReference(root));
    }

    private static void Forgotten(WeakReference what, string name)
    {
        Console.WriteLine($"{(what.IsAlive ? "FAIL" : "ok  ")} after its work a thread does not keep {name}");
        if (what.IsAlive)
            Interlocked.Increment(ref wrong);
    }

    // ---- spans ----

    public static async Task<bool> SpansAsync()
    {
        await Task.WhenAll(Enumerable.Range(0, Flows).Select(flow => Task.Run(() => SpanFlowAsync(flow))));
        await IdleAsync();
        Forgets();
        return Report("span_errors");
    }

    private static async Task SpanFlowAsync(int flow)
    {
        var random = new Random(flow);
        for (var i = 0; i < PerFlow / 4; i++)
        {
            ExpectSpan(null, 0);
            using (var root = Source.StartActivity($"GET /{flow}")!)
            {
                var endpoint = Native.Set(0, "endpoint", $"GET /{flow}");
                if (root.GetTagItem("pyroscope.profile.id") as string != root.SpanId.ToHexString())
                    Interlocked.Increment(ref wrong);
                await HopAsync(random);
                ExpectSpan(root, endpoint);
                using (var child = Source.StartActivity("child"))
                {
                    if (child?.GetTagItem("pyroscope.profile.id") is not null)
                        Interlocked.Increment(ref wrong);
                    await HopAsync(random);
                    ExpectSpan(root, endpoint);
                }
                using (Profiler.Tag("flow", "x"))
                {
                    await HopAsync(random);
                    ExpectSpan(root, Native.Set(endpoint, "flow", "x"));
                }
                root.DisplayName = "late";
                await HopAsync(random);
                var started = Task.Run(() => ExpectSpan(root, Native.Set(0, "endpoint", "late")));
                await started;
            }
            ExpectSpan(null, 0);
        }
    }

    private static void ExpectSpan(Activity? root, uint tags)
    {
        var work = Native.Here;
        var same = root is null
            ? (work.SpanId | work.TraceHigh | work.TraceLow) == 0
            : $"{work.SpanId:x16}" == root.SpanId.ToHexString()
                && $"{work.TraceHigh:x16}{work.TraceLow:x16}" == root.TraceId.ToHexString();
        if ((!same || Native.Tags() != tags) && Interlocked.Increment(ref wrong) < 10)
            Console.WriteLine($"FAIL span {work.SpanId:x16} tags {Native.Tags()}, expected {root?.SpanId} {tags}");
    }

    private static bool Report(string figure)
    {
        Console.WriteLine($"ok   {hops} hops, {moved} of them to another thread");
        Console.WriteLine($"figure {figure} {wrong + stale} count");
        return wrong + stale == 0 && hops >= (figure == "tag_errors" ? 6 * Flows * PerFlow / 10 : 100) && moved > hops / 100;
    }
}

/// <summary>What traces record with the profiler's listener is what they record without it, and samples carry spans that
/// are not recorded too.</summary>
internal static class Sampled
{
    private const int Spans = 4000;
    private static readonly ActivityTraceId Trace = ActivityTraceId.CreateRandom();

    /// <summary>Counts recorded spans as the exporters of OpenTelemetry would.</summary>
    private sealed class Counter : BaseProcessor<Activity>
    {
        public int Recorded;

        public override void OnEnd(Activity data) => Recorded += data.Recorded ? 1 : 0;
    }

    public static bool Run()
    {
        using var alone = new ActivitySource("Test.Alone");
        using var sampled = new ActivitySource("Test.Sampled");
        var good = Check(Flags(alone, default) == "00", "nobody decides: a root is not recorded")
            & Check(Flags(alone, Remote(ActivityTraceFlags.Recorded)) == "01", "nobody decides: a recorded trace stays recorded")
            & Check(Flags(alone, Remote(ActivityTraceFlags.None)) == "00", "nobody decides: a dropped trace stays dropped");
        var counter = new Counter();
        using var provider = Sdk.CreateTracerProviderBuilder().AddSource("Test.Sampled").AddProcessor(counter)
            .SetSampler(new TraceIdRatioBasedSampler(0.1)).Build();
        var followed = 0;
        for (var i = 0; i < Spans; i++)
            using (var root = sampled.StartActivity("root")!)
            using (sampled.StartActivity("child"))
                if ($"{Native.Here.SpanId:x16}" == root.SpanId.ToHexString())
                    followed++;
        // Roots and children of a tenth; six standard deviations.
        double expected = Spans * 2 * 0.1, off = 6 * 2 * Math.Sqrt(Spans * 0.1 * 0.9);
        good &= Check(Math.Abs(counter.Recorded - expected) < off, $"a sampler of 10 % records {counter.Recorded} of {2 * Spans} spans");
        good &= Check(followed == Spans, $"samples carry {followed} of {Spans} spans");
        var dropped = ActivityTraceId.CreateFromString("7fffffffffffffff7fffffffffffffff");
        return good & Check(Flags(sampled, Remote(ActivityTraceFlags.Recorded, dropped)) == "00", "what the sampler drops of a recorded trace is dropped");
    }

    private static ActivityContext Remote(ActivityTraceFlags flags, ActivityTraceId? trace = null) =>
        new(trace ?? Trace, ActivitySpanId.CreateRandom(), flags, null, isRemote: true);

    private static string Flags(ActivitySource source, ActivityContext parent)
    {
        using var span = source.StartActivity("request", ActivityKind.Server, parent);
        return span!.Id![^2..];
    }

    private static bool Check(bool good, string what)
    {
        Console.WriteLine($"{(good ? "ok  " : "FAIL")} {what}");
        return good;
    }
}

/// <summary>CPU time under known tags and spans, on whatever thread the work goes to, and its sums by the threads' own
/// clocks.</summary>
internal static class Labelled
{
    private const int Flows = 3, Bursts = 240;
    private static readonly ActivitySource Source = new("Test.Labels");
    private static readonly ConcurrentDictionary<string, long> Truth = new();
    private static double sink;

    public static async Task<bool> RunAsync()
    {
        await Task.WhenAll(Enumerable.Range(0, Flows).Select(flow => Task.Run(() => FlowAsync(flow))));
        foreach (var (label, ns) in Truth)
            Console.WriteLine($"truth {label} {ns}");
        return !double.IsNaN(sink);
    }

    /// <summary>Flow 0 has no span; the others have one each, of different weight.</summary>
    private static async Task FlowAsync(int flow)
    {
        using var span = flow == 0 ? null : Source.StartActivity($"flow-{flow}");
        for (var i = 0; i < Bursts * (flow + 1); i++)
            using (Profiler.Tag("step", i % 4 == 0 ? "rare" : "often"))
            {
                await Task.Yield();
                var ns = Burn(i % 7);
                Truth.AddOrUpdate(i % 4 == 0 ? "step=rare" : "step=often", ns, (_, sum) => sum + ns);
                if (span is not null)
                {
                    Truth.AddOrUpdate($"span_id={span.SpanId}", ns, (_, sum) => sum + ns);
                    Truth.AddOrUpdate($"trace_id={span.TraceId}", ns, (_, sum) => sum + ns);
                    Truth.AddOrUpdate($"endpoint=flow-{flow}", ns, (_, sum) => sum + ns);
                }
            }
    }

    private static long Burn(int more)
    {
        var start = Native.ThreadCpuNs();
        long used;
        do
            for (var i = 1; i < 1000; i++)
                sink += Math.Sqrt(i);
        while ((used = Native.ThreadCpuNs() - start) < 1_500_000 + more * 300_000);
        return used;
    }
}

internal static class Ratio
{
    private const int Rounds = 41, Turns = 20_000;
    private static readonly AsyncLocal<string?> Bare = new();
    private static readonly AsyncLocal<string?>[] Others = [new(), new(), new()];

    /// <summary>Push and pop over setting a bare AsyncLocal and setting it back, ratio of medians: among other AsyncLocals,
    /// as in a web request; and in an empty context, where taking the last value away needs no new context and the bare
    /// one is at its cheapest.</summary>
    public static bool Measure()
    {
        var alone = One("alone");
        foreach (var other in Others)
            other.Value = "x";
        var among = One("among others");
        Console.WriteLine($"figure tag_ratio {among:F2} ratio");
        Console.WriteLine($"figure tag_ratio_empty_context {alone:F2} ratio");
        return among <= 1.3 && alone <= 1.3;
    }

    private static double One(string where)
    {
        var bare = new double[Rounds];
        var tag = new double[Rounds];
        for (var round = -3; round < Rounds; round++)
        {
            double b = Time(BareTurns), t = Time(TagTurns);
            if (round >= 0)
                (bare[round], tag[round]) = (b, t);
        }
        Array.Sort(bare);
        Array.Sort(tag);
        Console.WriteLine($"     {where}: bare {bare[Rounds / 2]:F1} ns, tag {tag[Rounds / 2]:F1} ns");
        return tag[Rounds / 2] / bare[Rounds / 2];
    }

    private static double Time(Action turns)
    {
        var start = Stopwatch.GetTimestamp();
        turns();
        return Stopwatch.GetElapsedTime(start).TotalNanoseconds / Turns;
    }

    private static void BareTurns()
    {
        for (var i = 0; i < Turns; i++)
        {
            Bare.Value = "value";
            Bare.Value = null;
        }
    }

    private static void TagTurns()
    {
        for (var i = 0; i < Turns; i++)
            using (Profiler.Tag("tenant", "value"))
            {
            }
    }
}
