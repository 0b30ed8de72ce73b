using System.Text;

namespace EdgeProf;

public static unsafe partial class Profiler
{
    private const int IncidentNameBytes = 96; // EP_INCIDENT_NAME
    private const int LeastHistory = 16 * 1024; // EP_INCIDENT_MEMORY_MIN
    private static readonly TimeSpan LongestTail = TimeSpan.FromMinutes(1);

    /// <summary>The program is alive. After the first call an incident says what all threads do when the next one does not
    /// come in time (<see cref="ProfilerIncidents.HeartbeatLimit"/>). Call it where progress is made, such as in the main
    /// loop, not from a timer. Does nothing without a limit or without incidents.</summary>
    public static void Heartbeat()
    {
        if (Features.Incidents && Native.IsLinked)
            Native.Heartbeat();
    }

    /// <summary>Delivers the history of the last seconds as an incident, see <see cref="ProfilerOptions.Incidents"/>. Does
    /// not wait for that.</summary>
    /// <param name="name">Why, in at most 95 bytes of UTF-8; more is cut.</param>
    /// <returns>False: no history is kept, or something else was noticed at the same time. True does not mean that the
    /// limits permit another incident (<see cref="ProfilerStats.IncidentsSuppressed"/>).</returns>
    public static bool CaptureIncident(string name)
    {
        ArgumentNullException.ThrowIfNull(name);
        if (!Features.Incidents || !Native.IsLinked)
            return false;
        var bytes = stackalloc byte[IncidentNameBytes];
        CopyName(name, bytes);
        return Native.Incident(bytes) == 0;
    }

    /// <summary>Watches a piece of work until the result is disposed of: if it takes too long, that is an incident, while it
    /// still goes on or at its end. Local root spans of followed sources are watched without this. At most 64 spans are
    /// watched at a time.</summary>
    /// <param name="name">Name of the work, at most 95 bytes of UTF-8; more is cut.</param>
    /// <param name="limit">The limit. Zero: <see cref="ProfilerIncidents.SpanLimit"/>.</param>
    public static WatchedSpan WatchSpan(string name, TimeSpan limit = default)
    {
        ArgumentNullException.ThrowIfNull(name);
        ArgumentOutOfRangeException.ThrowIfLessThan(limit, TimeSpan.Zero);
        return new WatchedSpan(Features.Incidents && SpanWatch.IsOn ? BeginSpan(name, LimitMs(limit)) : 0);
    }

    internal static uint BeginSpan(string name, uint limit)
    {
        var bytes = stackalloc byte[IncidentNameBytes];
        CopyName(name, bytes);
        return Native.SpanBegin(bytes, limit);
    }

    internal static void NameSpan(uint token, string name)
    {
        var bytes = stackalloc byte[IncidentNameBytes];
        CopyName(name, bytes);
        Native.SpanName(token, bytes);
    }

    /// <summary>As many whole characters as there is room for, and a 0.</summary>
    private static void CopyName(string name, byte* bytes)
    {
        Encoding.UTF8.GetEncoder().Convert(name, new Span<byte>(bytes, IncidentNameBytes - 1), true, out _, out var used, out _);
        bytes[used] = 0;
    }

    /// <summary>At least 1 for what is not zero.</summary>
    private static uint LimitMs(TimeSpan time) => (uint)Math.Min(Math.Ceiling(time.TotalMilliseconds), uint.MaxValue);

    private static NativeIncidents Incidents(ProfilerIncidents options)
    {
        Require(options.HistoryBytes is 0 or >= LeastHistory, "Incidents.HistoryBytes", options.HistoryBytes, "16384 or more, or 0");
        Require(options.Tail >= TimeSpan.Zero && options.Tail <= LongestTail, "Incidents.Tail", (long)options.Tail.TotalMilliseconds, "at most 1 minute", " ms");
        foreach (var (name, value) in new[]
                 {
                     (nameof(options.CpuPercent), options.CpuPercent), (nameof(options.MemoryBytes), options.MemoryBytes),
                     (nameof(options.ExceptionsPerSecond), options.ExceptionsPerSecond), (nameof(options.PerDay), options.PerDay),
                     (nameof(options.BytesPerDay), options.BytesPerDay), (nameof(options.SpanLimit), options.SpanLimit.Ticks),
                     (nameof(options.PauseLimit), options.PauseLimit.Ticks), (nameof(options.HeartbeatLimit), options.HeartbeatLimit.Ticks),
                     (nameof(options.LimitTime), options.LimitTime.Ticks), (nameof(options.Gap), options.Gap.Ticks),
                 })
            Require(value >= 0, "Incidents." + name, value, "0 or more");
        return new NativeIncidents
        {
            HistoryBytes = (ulong)options.HistoryBytes,
            MemoryBytes = (ulong)options.MemoryBytes,
            Enable = options.Enabled switch { null => 0, true => 1, false => 2 },
            TailMs = LimitMs(options.Tail),
            SpanMs = LimitMs(options.SpanLimit),
            GcMs = LimitMs(options.PauseLimit),
            HeartbeatMs = LimitMs(options.HeartbeatLimit),
            CpuPct = (uint)options.CpuPercent,
            ForMs = LimitMs(options.LimitTime),
            Exceptions = (uint)options.ExceptionsPerSecond,
            GapMs = LimitMs(options.Gap),
            PerDay = (uint)options.PerDay,
            DayBytes = (uint)options.BytesPerDay,
        };
    }
}
