using System.Buffers.Binary;
using System.Diagnostics;

namespace EdgeProf;

/// <summary>A local root span as samples carry it. Its name may come late (a web framework knows the route after it has
/// begun), so it is looked at again whenever work is taken up.</summary>
internal sealed class SpanState
{
    internal readonly Activity Root;
    internal readonly ulong SpanId, TraceHigh, TraceLow;
    private string? name;
    private Work? last;

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

    internal void Refresh()
    {
        var now = Root.DisplayName;
        if (ReferenceEquals(now, Root.OperationName) && Root.GetTagItem("http.route") is string route)
            now = route; // nobody has named it
        if (ReferenceEquals(now, name))
            return;
        Endpoint = string.IsNullOrEmpty(now) ? null : TagCache.Get(null, "endpoint", now, true);
        name = now;
    }

    /// <summary>Work for this span with these tags, the last one again if it was the same.</summary>
    internal Work Carry(TagNode? tags)
    {
        if (last is { } known && ReferenceEquals(known.Tags, tags))
            return known;
        return last = new Work(tags, this);
    }
}

/// <summary>
/// Follows <see cref="Activity.Current"/>: the local root of the current activity, the outermost one of this process that
/// is recorded, is the span whose work is being done. Activities that nobody records are looked at and left alone.
///   Change -> RootOf -> Work.Enter
/// Spans of sources that were asked for by name are recorded by an <see cref="ActivityListener"/> of ours, as a
/// parent-based sampler would; others have to be recorded by somebody (OpenTelemetry).
/// </summary>
internal static class Spans
{
    /// <summary>The attribute by which trace viewers find a span's profile.</summary>
    internal const string ProfileId = "pyroscope.profile.id";

    private static readonly object Gate = new();
    private static string[] sources = [];
    private static bool any, asked, follows;
    private static ActivityListener? listener;

    /// <summary>From now on, whenever the profiler runs. No names: whatever is recorded.</summary>
    internal static void Track(IEnumerable<string> names)
    {
        lock (Gate)
        {
            var given = names.ToArray();
            any |= given.Length == 0;
            sources = sources.Union(given).ToArray();
            asked = true;
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
        if (!asked)
            return;
        if (!follows)
            Activity.CurrentChanged += Change;
        follows = true;
        Listen();
    }

    internal static void End()
    {
        lock (Gate)
        {
            if (!follows)
                return;
            follows = false;
            Activity.CurrentChanged -= Change;
            listener?.Dispose();
            listener = null;
        }
    }

    private static void Listen()
    {
        listener?.Dispose();
        listener = null;
        if (sources.Length == 0)
            return;
        listener = new ActivityListener
        {
            ShouldListenTo = static source => IsNamed(source),
            Sample = static (ref ActivityCreationOptions<ActivityContext> options) => Decide(options.Parent),
            SampleUsingParentId = static (ref ActivityCreationOptions<string> _) => ActivitySamplingResult.AllDataAndRecorded,
            ActivityStarted = Mark,
        };
        ActivitySource.AddActivityListener(listener);
    }

    private static bool IsNamed(ActivitySource source)
    {
        foreach (var name in sources)
            if (name == source.Name || (name.EndsWith('*') && source.Name.AsSpan().StartsWith(name.AsSpan(0, name.Length - 1))))
                return true;
        return false;
    }

    /// <summary>As the parent was decided. A local parent that we were not asked to record (a framework makes some for its
    /// logs) has decided nothing, unless it only hands on what a remote one has.</summary>
    private static ActivitySamplingResult Decide(ActivityContext parent)
    {
        var recorded = parent == default || (parent.TraceFlags & ActivityTraceFlags.Recorded) != 0
            || (!parent.IsRemote && Activity.Current is { } local && local.SpanId == parent.SpanId && !IsNamed(local.Source)
                && !local.HasRemoteParent);
        return recorded ? ActivitySamplingResult.AllDataAndRecorded : ActivitySamplingResult.None;
    }

    private static void Mark(Activity activity)
    {
        if (ReferenceEquals(RootOf(activity), activity))
            activity.SetTag(ProfileId, activity.SpanId.ToHexString());
    }

    private static void Change(object? sender, ActivityChangedEventArgs change)
    {
        Activity? previous = change.Previous, current = change.Current;
        var root = Work.Current?.Span?.Root;
        if (root is null ? current is not { Recorded: true } : IsSameRoot(root, previous, current))
            return;
        var next = RootOf(current);
        if (!ReferenceEquals(next, root))
            Work.Enter(next is null ? null : new SpanState(next));
    }

    /// <summary>A child has begun or ended: nothing to look for.</summary>
    private static bool IsSameRoot(Activity root, Activity? previous, Activity? current) =>
        previous is not null && current is not null
        && (ReferenceEquals(current.Parent, previous)
            || (ReferenceEquals(previous.Parent, current) && !ReferenceEquals(previous, root)));

    private static Activity? RootOf(Activity? activity)
    {
        Activity? root = null;
        for (; activity is not null; activity = activity.Parent)
            if (activity is { Recorded: true, IdFormat: ActivityIdFormat.W3C } && (any || IsNamed(activity.Source)))
                root = activity;
        return root;
    }
}
