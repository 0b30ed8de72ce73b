namespace EdgeProf;

/// Whose work is being done, and how closely to look while it is.
public static unsafe partial class Profiler
{
    /// <summary>Number of this run of the profiler: a tag's number on the C side holds for one.</summary>
    internal static volatile int Run;

    /// <summary>Whether tags and spans are told to anybody.</summary>
    internal static volatile bool Tracks;

    /// <summary>Whether the profiler runs and tags and spans count for something; reading it takes no lock.</summary>
    public static bool IsTracking => Tracks;

    /// <summary>Everything that is measured until the scope is disposed carries the label
    /// <paramref name="key"/>=<paramref name="value"/>, wherever the work goes: through awaits, to other threads, into
    /// tasks that it starts. Scopes nest; of two with the same key the inner one counts. Costs about as much as setting an
    /// <see cref="AsyncLocal{T}"/> and setting it back, and next to nothing while no profiler runs.</summary>
    /// <param name="key">[a-zA-Z_][a-zA-Z0-9_]*; other characters become '_'.</param>
    /// <param name="value">One of few: a key has room for 32 values, later ones are "other" and counted as a loss.</param>
    public static TagScope Tag(string key, string value) =>
        Tracks && !string.IsNullOrEmpty(key) && value is not null ? Work.Push(key, value) : default;

    /// <summary>Samples carry the ids of the span that they were taken in, and its name as the label <c>endpoint</c>: of the
    /// local root, the outermost recorded <see cref="System.Diagnostics.Activity"/> of this process. Takes effect when the
    /// profiler runs; may be called before and more than once.</summary>
    /// <param name="sources">Names of activity sources ("Microsoft.AspNetCore", "MyCompany.*") whose spans are to be
    /// recorded for this, in the way of a parent-based sampler. None: spans that somebody else records, as OpenTelemetry
    /// does (the package EdgeProf.OpenTelemetry calls this).</param>
    public static void TrackSpans(params string[] sources)
    {
        ArgumentNullException.ThrowIfNull(sources);
        if (Native.IsLinked)
            Spans.Track(sources);
    }

    /// <summary>How closely the running profiler looks. Setting it sets the level's rate and the level's kinds, and does
    /// nothing when no profiler runs; then it is <see cref="ProfileLevel.Default"/>.</summary>
    /// <exception cref="ArgumentException">Set to something that is not low, medium or high.</exception>
    public static ProfileLevel Level
    {
        get => Native.IsLinked ? (ProfileLevel)Native.LevelGet() : ProfileLevel.Default;
        set
        {
            if (value is < ProfileLevel.Low or > ProfileLevel.High)
                throw new ArgumentException($"Level: want Low, Medium or High, not {value}");
            if (Native.IsLinked)
                Native.LevelSet((uint)value); // -ESRCH: none runs
        }
    }

    /// <summary>What the running profiler measures; none when it does not run. Setting it replaces what was.</summary>
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

    /// <summary>Measures these kinds as well, from now on.</summary>
    /// <returns>Whether a profiler runs.</returns>
    public static bool Enable(ProfileKinds kinds)
    {
        RequireKinds(kinds);
        return Native.IsLinked && Native.KindsChange((uint)kinds, 0) == 0;
    }

    /// <summary>Measures these kinds no more.</summary>
    /// <returns>Whether a profiler runs.</returns>
    public static bool Disable(ProfileKinds kinds)
    {
        RequireKinds(kinds);
        return Native.IsLinked && Native.KindsChange(0, (uint)kinds) == 0;
    }

    private static void RequireKinds(ProfileKinds kinds) =>
        Require((kinds & ~ProfileKinds.All) == 0, nameof(kinds), kinds, "members of ProfileKinds");

    /// <summary>Spans that options or the environment ask for.</summary>
    private static void TrackOptions(ICollection<string> sources)
    {
        if (sources.Count > 0)
            Spans.Track(sources);
        else if (Environment.GetEnvironmentVariable("EDGEPROF_SPANS") is { Length: > 0 } names)
            Spans.Track(names.Split(',', StringSplitOptions.TrimEntries)); // an empty name is no source's
    }
}
