namespace EdgeProf;

/// Tags, spans, level and kinds.
public static unsafe partial class Profiler
{
    /// <summary>Number of this run of the profiler. A tag's number on the C side is valid for one run.</summary>
    internal static volatile int Run;

    /// <summary>Whether tags and spans are passed to the C side.</summary>
    internal static volatile bool Tracks;

    /// <summary>Whether the profiler runs and records tags and spans; reading it takes no lock.</summary>
    public static bool IsTracking => Tracks;

    /// <summary>Until the scope is disposed, everything measured carries the label <paramref name="key"/>=<paramref
    /// name="value"/>. The label follows the work through awaits, to other threads, and into tasks that it starts.
    /// Scopes nest; of two with the same key the inner one counts. The cost is about that of setting and resetting an
    /// <see cref="AsyncLocal{T}"/>, and nearly zero while no profiler runs.</summary>
    /// <param name="key">[a-zA-Z_][a-zA-Z0-9_]*; other characters become '_'.</param>
    /// <param name="value">One of at most 32 values a key; further values become "other" and are counted as a
    /// loss.</param>
    public static TagScope Tag(string key, string value) =>
        Tracks && !string.IsNullOrEmpty(key) && value is not null ? WorkContext.Push(key, value) : default;

    /// <summary>Samples carry the ids of the local root span, and its name as the label <c>endpoint</c>. The local root
    /// is the outermost <see cref="System.Diagnostics.Activity"/> of this process for which all data is requested,
    /// recorded or not. Takes effect while the profiler runs; may be called before its start and repeatedly.</summary>
    /// <param name="sources">Names of activity sources ("Microsoft.AspNetCore", "MyCompany.*") whose spans are to be
    /// created for this; what a trace records stays as it is. None: uses spans of others, such as OpenTelemetry (the
    /// package EdgeProf.OpenTelemetry calls this).</param>
    public static void TrackSpans(params string[] sources)
    {
        ArgumentNullException.ThrowIfNull(sources);
        if (Features.Spans && Native.IsLinked)
            Spans.Track(sources);
    }

    /// <summary>Samples of an ASP.NET Core request carry its route ("/orders/{id}") as the label <c>endpoint</c>, from routing on,
    /// with a span or without. <see cref="TrackSpans"/> does this for the spans of ASP.NET Core, and <c>AddEdgeProf()</c> of the
    /// package EdgeProf.Extensions.Hosting for a host. Takes effect while the profiler runs; may be called before its
    /// start.</summary>
    public static void TrackRoutes()
    {
        if (Features.Spans && Native.IsLinked)
            Spans.TrackRoutes();
    }

    /// <summary>The running profiler's level; <see cref="ProfileLevel.Default"/> when none runs. Setting it sets the
    /// level's rate and kinds; it has no effect when no profiler runs.</summary>
    /// <exception cref="ArgumentException">Set to something that is not low, medium or high.</exception>
    public static ProfileLevel Level
    {
        get => Native.IsLinked ? (ProfileLevel)Native.LevelGet() : ProfileLevel.Default;
        set
        {
            if (value is < ProfileLevel.Low or > ProfileLevel.High)
                throw new ArgumentException($"Level: must be Low, Medium or High, not {value}");
            if (Native.IsLinked)
                Native.LevelSet((uint)value); // -ESRCH: none runs
        }
    }

    /// <summary>The kinds that the running profiler collects; none when it does not run. Setting it replaces
    /// them.</summary>
    public static ProfileKinds Kinds
    {
        get => Native.IsLinked ? (ProfileKinds)Native.KindsGet() : ProfileKinds.None;
        set
        {
            RequireKinds(value);
            if (Native.IsLinked)
                Native.KindsSet((uint)value);
        }
    }

    /// <summary>Starts collecting the given kinds.</summary>
    /// <returns>Whether a profiler runs.</returns>
    public static bool Enable(ProfileKinds kinds)
    {
        RequireKinds(kinds);
        return Native.IsLinked && Native.KindsChange((uint)kinds, 0) == 0;
    }

    /// <summary>Stops collecting the given kinds.</summary>
    /// <returns>Whether a profiler runs.</returns>
    public static bool Disable(ProfileKinds kinds)
    {
        RequireKinds(kinds);
        return Native.IsLinked && Native.KindsChange(0, (uint)kinds) == 0;
    }

    private static void RequireKinds(ProfileKinds kinds) =>
        Require((kinds & ~ProfileKinds.All) == 0, nameof(kinds), (uint)kinds, "members of ProfileKinds");

    /// <summary>Tracks the spans requested by options or by the environment.</summary>
    private static void TrackOptions(ICollection<string> sources)
    {
        if (sources.Count > 0)
            Spans.Track(sources);
        else if (Environment.GetEnvironmentVariable("EDGEPROF_SPANS") is { Length: > 0 } names)
            Spans.Track(names.Split(',', StringSplitOptions.TrimEntries)); // no source has an empty name
    }
}
