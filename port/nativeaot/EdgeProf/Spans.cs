using System.Buffers.Binary;
using System.Diagnostics;
using System.Runtime.CompilerServices;

namespace EdgeProf;

/// <summary>A local root span as samples carry it. Its name may change after its start, so it is read again whenever a
/// thread takes up the work, until a route replaces it (<see cref="Routes"/>).</summary>
internal sealed class SpanState
{
    internal readonly Activity Root;
    internal readonly ulong SpanId, TraceHigh, TraceLow;
    private string? name;
    private WorkContext? last;
    private volatile bool routed;

    internal SpanState(Activity root)
    {
        Root = root;
        Span<byte> bytes = stackalloc byte[16];
        root.SpanId.CopyTo(bytes[..8]);
        SpanId = BinaryPrimitives.ReadUInt64BigEndian(bytes);
        root.TraceId.CopyTo(bytes);
        TraceHigh = BinaryPrimitives.ReadUInt64BigEndian(bytes);
        TraceLow = BinaryPrimitives.ReadUInt64BigEndian(bytes[8..]);
        Refresh();
    }

    internal TagNode? Endpoint { get; private set; }

    /// <summary>Names the endpoint by the request's route, once: an error page that the request ends in has one of its own.</summary>
    /// <returns>Whether the endpoint has changed.</returns>
    internal bool NameByRoute(string route)
    {
        if (routed)
            return false;
        routed = true;
        Endpoint = TagNode.OfEndpoint(route);
        if (Features.Incidents)
            SpanWatch.NameByRoute(Root, route);
        return true;
    }

    internal void Refresh()
    {
        if (routed)
            return;
        var now = Root.DisplayName;
        if (ReferenceEquals(now, Root.OperationName) && Root.GetTagItem("http.route") is string route)
            now = route; // it has no name of its own
        if (ReferenceEquals(now, name))
            return;
        Endpoint = string.IsNullOrEmpty(now) ? null : TagNode.OfEndpoint(now);
        name = now;
    }

    /// <summary>The context for this span with these tags; reuses the last one if it is the same.</summary>
    internal WorkContext Carry(TagNode? tags)
    {
        if (last is { } known && ReferenceEquals(known.Tags, tags))
            return known;
        return last = new WorkContext(tags, this);
    }
}

/// <summary>
/// Follows <see cref="Activity.Current"/>. The span of the current work is the local root of the current activity: the
/// outermost one of this process for which somebody wants all data. Other activities are ignored.
///   Change -> RootOf -> WorkContext.Enter
/// An <see cref="ActivityListener"/> of this class creates local roots of the requested sources, but never decides what
/// a trace records: their flags are those that they would have without it. Other spans must be created by others
/// (OpenTelemetry).
/// </summary>
internal static class Spans
{
    /// <summary>The attribute by which trace viewers find a span's profile.</summary>
    internal const string ProfileId = "pyroscope.profile.id";

    private const int OthersForMs = 10_000;

    private sealed class Answer
    {
        internal long Until;
        internal volatile bool Decide;
    }

    private static readonly ConditionalWeakTable<ActivitySource, Answer> Others = [];
    private static readonly object Gate = new();

    [ThreadStatic]
    private static bool probes;

    private static string[] sources = [];
    private static bool any, asked, routes, follows;
    private static ActivityListener? listener;

    /// <summary>Tracks spans from now on, whenever the profiler runs. No names: all recorded spans.</summary>
    internal static void Track(ICollection<string> names)
    {
        lock (Gate)
        {
            var known = new List<string>(sources);
            foreach (var name in names)
                if (!known.Contains(name))
                    known.Add(name);
            any |= names.Count == 0;
            sources = known.ToArray();
            asked = true;
            routes |= any || IsNamed(Routes.Source);
            if (Profiler.Tracks)
                BeginLocked();
        }
    }

    /// <summary>Labels requests by route from now on, whenever the profiler runs, with spans and without.</summary>
    internal static void TrackRoutes()
    {
        lock (Gate)
        {
            routes = true;
            if (Profiler.Tracks)
                BeginLocked();
        }
    }

    internal static void Begin()
    {
        lock (Gate)
            BeginLocked();
    }

    private static void BeginLocked()
    {
        if (Features.Routes && routes)
            Routes.Listen();
        if (!asked)
            return;
        if (!follows)
            Activity.CurrentChanged += Change;
        follows = true;
        Listen();
        if (Features.Incidents)
            SpanWatch.Listen();
    }

    internal static void End()
    {
        lock (Gate)
        {
            if (Features.Routes)
                Routes.Ignore();
            if (!follows)
                return;
            follows = false;
            Activity.CurrentChanged -= Change;
            listener?.Dispose();
            listener = null;
            if (Features.Incidents)
                SpanWatch.Ignore();
        }
    }

    /// <summary>Whether spans of the source can be local roots.</summary>
    internal static bool IsFollowed(ActivitySource source) => any || IsNamed(source.Name);

    private static void Listen()
    {
        listener?.Dispose();
        listener = null;
        if (sources.Length == 0)
            return;
        listener = new ActivityListener
        {
            ShouldListenTo = static source => IsNamed(source.Name),
            Sample = static (ref ActivityCreationOptions<ActivityContext> options) => Decide(ref options),
            SampleUsingParentId = static (ref ActivityCreationOptions<string> _) => probes ? ActivitySamplingResult.None
                : ActivitySamplingResult.AllData,
            ActivityStarted = Mark,
        };
        ActivitySource.AddActivityListener(listener);
    }

    private static bool IsNamed(string source)
    {
        foreach (var name in sources)
            if (name == source || (name.EndsWith('*') && source.AsSpan().StartsWith(name.AsSpan(0, name.Length - 1))))
                return true;
        return false;
    }

    /// <summary>A child of a span that is followed is not needed. A span that continues a recorded trace stays
    /// recorded if nobody else decides, as its flags go on to other services.</summary>
    private static ActivitySamplingResult Decide(ref ActivityCreationOptions<ActivityContext> options)
    {
        var parent = options.Parent;
        if (probes || (!parent.IsRemote && Activity.Current is { } local && local.SpanId == parent.SpanId && RootOf(local) is not null))
            return ActivitySamplingResult.None;
        return (parent.TraceFlags & ActivityTraceFlags.Recorded) != 0 && !OthersDecide(ref options)
            ? ActivitySamplingResult.AllDataAndRecorded
            : ActivitySamplingResult.AllData;
    }

    /// <summary>Whether another listener takes part in this source's spans. A listener cannot see the others' answers,
    /// so this tries to create the span without its own.</summary>
    private static bool OthersDecide(ref ActivityCreationOptions<ActivityContext> options)
    {
        var known = Others.GetOrCreateValue(options.Source);
        var now = Environment.TickCount64;
        if (now < known.Until)
            return known.Decide;
        probes = true;
        try
        {
            using var other = options.Source.CreateActivity(options.Name, options.Kind, options.Parent, options.Tags, options.Links);
            known.Decide = other is not null;
        }
        finally
        {
            probes = false;
        }
        known.Until = now + OthersForMs;
        return known.Decide;
    }

    private static void Mark(Activity activity)
    {
        if (ReferenceEquals(RootOf(activity), activity))
            activity.SetTag(ProfileId, activity.SpanId.ToHexString());
    }

    private static void Change(object? sender, ActivityChangedEventArgs change)
    {
        Activity? previous = change.Previous, current = change.Current;
        var root = WorkContext.Current?.Span?.Root;
        if (root is null ? current is not { IsAllDataRequested: true } : IsSameRoot(root, previous, current))
            return;
        var next = RootOf(current);
        if (!ReferenceEquals(next, root))
            WorkContext.Enter(next is null ? null : new SpanState(next));
    }

    /// <summary>True if only a child has begun or ended, so the root is the same.</summary>
    private static bool IsSameRoot(Activity root, Activity? previous, Activity? current) =>
        previous is not null && current is not null
        && (ReferenceEquals(current.Parent, previous)
            || (ReferenceEquals(previous.Parent, current) && !ReferenceEquals(previous, root)));

    internal static Activity? RootOf(Activity? activity)
    {
        Activity? root = null;
        for (; activity is not null; activity = activity.Parent)
            if (activity is { IsAllDataRequested: true, IdFormat: ActivityIdFormat.W3C } && IsFollowed(activity.Source))
                root = activity;
        return root;
    }
}
