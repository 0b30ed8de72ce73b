using System.Runtime.InteropServices;

namespace EdgeProf;

/// <summary>A loss: measurements missing from profiles or recorded with less detail.</summary>
/// <param name="Reason">The reason, such as "ring full".</param>
/// <param name="Count">Number of samples or threads. For kinds other than CPU: of the events that the lost samples stand
/// for, so one lost sample of allocations may count a thousand objects.</param>
/// <param name="CpuTime">Their CPU time.</param>
public readonly record struct ProfilerLoss(string Reason, long Count, TimeSpan CpuTime);

/// <summary>Totals of one kind.</summary>
/// <param name="Kind">The kind.</param>
/// <param name="Name">Its name in profiles, "cpu".</param>
/// <param name="Unit">Unit of the value: "nanoseconds", "bytes", "count".</param>
/// <param name="Count">CPU: number of samples; other kinds: number of events that the samples stand for.</param>
/// <param name="Value">Value in that unit. Live heap and heap sizes: the current value.</param>
public readonly record struct ProfilerKind(ProfileKinds Kind, string Name, string Unit, long Count, long Value);

/// <summary>A kind that this program cannot measure, because the .NET runtime in it differs from those that the package
/// knows.</summary>
/// <param name="Kind">The kind.</param>
/// <param name="Name">Its name in profiles, "alloc".</param>
/// <param name="Reason">What differs.</param>
public readonly record struct ProfilerMissing(ProfileKinds Kind, string Name, string Reason);

/// <summary>Statistics of the running profiler; after a stop, of the last run.</summary>
public readonly struct ProfilerStats
{
    private readonly ulong[]? figures;
    private readonly ProfilerKind[]? kinds;
    private readonly ProfilerLoss[]? losses;
    private readonly ProfilerMissing[]? missing;

    private readonly string? tlsError;

    internal ProfilerStats(ulong[] figures, ProfilerKind[] kinds, ProfilerLoss[] losses, ProfilerMissing[] missing, string tlsError)
    {
        this.missing = missing;
        this.tlsError = tlsError;
        this.figures = figures;
        this.kinds = kinds;
        this.losses = losses;
    }

    private long this[Figure figure] => figures is null ? 0 : (long)figures[(int)figure];

    private TimeSpan Time(Figure figure) => TimeSpan.FromTicks(this[figure] / TimeSpan.NanosecondsPerTick);

    /// <summary>Stacks captured.</summary>
    public long Samples => this[Figure.Samples];

    /// <summary>CPU time that the samples stand for.</summary>
    public TimeSpan SampledCpuTime => Time(Figure.WeightNs);

    /// <summary>Stacks walked to the root, every frame by an unwind rule.</summary>
    public long ExactStacks => this[Figure.Exact];

    /// <summary>Stacks walked to the root, with a guess in between.</summary>
    public long StacksWithGap => this[Figure.Gap];

    /// <summary>Stacks whose root was not reached.</summary>
    public long CutStacks => this[Figure.Cut];

    /// <summary>Residual CPU time: of threads after their last sample, and of threads that are not sampled.</summary>
    public TimeSpan ThreadExitCpuTime => Time(Figure.ThreadExitNs);

    /// <summary>Frames whose unwind rule was in the cache.</summary>
    public long RuleHits => this[Figure.RuleHits];

    /// <summary>Frames whose unwind rule had to be derived.</summary>
    public long RuleMisses => this[Figure.RuleMisses];

    /// <summary>Messages encoded.</summary>
    public long Messages => this[Figure.Messages];

    /// <summary>Bytes of the messages encoded.</summary>
    public long MessageBytes => this[Figure.MessageBytes];

    /// <summary>Messages that the receiver has accepted.</summary>
    public long Delivered => this[Figure.Delivered];

    /// <summary>Bytes that the receiver has accepted.</summary>
    public long DeliveredBytes => this[Figure.DeliveredBytes];

    /// <summary>Failed delivery attempts, which are retried.</summary>
    public long DeliveryFailures => this[Figure.DeliveryFailures];

    /// <summary>Intervals extended because the outbox had no room.</summary>
    public long IntervalsMerged => this[Figure.IntervalsMerged];

    /// <summary>Error of the last failed delivery, an errno value. 0: none has failed.</summary>
    public int LastError => (int)this[Figure.LastError];

    /// <summary>Explains <see cref="LastError"/> in one line, such as "the server's certificate has expired". Empty:
    /// none has failed.</summary>
    public string LastErrorText => LastError == 0 ? "" : string.IsNullOrEmpty(tlsError) ? Marshal.GetPInvokeErrorMessage(LastError) : tlsError;

    /// <summary>HTTP status of the last answer to a profile. 0: none yet.</summary>
    public int LastStatus => (int)this[Figure.LastStatus];

    /// <summary>How often the profiler was stopped while a thread still used its memory, of all runs of this process: see <see
    /// cref="Profiler.Stop"/>.</summary>
    public long BusyStops => this[Figure.BusyStops];

    /// <summary>CPU time of the profiler's own threads.</summary>
    public TimeSpan OwnCpuTime => Time(Figure.OwnCpuNs);

    /// <summary>Estimated CPU time of samples and hooks on the service's threads; some of them are timed.</summary>
    public TimeSpan HandlerCpuTime => Time(Figure.HandlerNs);

    /// <summary>Cost of profiling in millionths of the process' CPU time, over about the last minute.</summary>
    public long CostPpm => this[Figure.CostPpm];

    /// <summary>Factor by which sampling periods exceed the level's, to keep <see cref="ProfilerOptions.BudgetPpm"/>;
    /// 1: not stretched.</summary>
    public double Stretch => this[Figure.StretchPct] / 100.0;

    /// <summary>Number of changes of <see cref="Stretch"/>.</summary>
    public long Stretches => this[Figure.Stretches];

    /// <summary>Number of wake-ups of the profiler's threads.</summary>
    public long Wakeups => this[Figure.Wakeups];

    /// <summary>Threads that have a timer now.</summary>
    public int Threads => (int)this[Figure.Threads];

    /// <summary>Modules (program and libraries) known.</summary>
    public int Modules => (int)this[Figure.Modules];

    /// <summary>Bytes of the profiler's memory in use.</summary>
    public long MemoryUsed => this[Figure.MemoryUsed];

    /// <summary>Why the spool cannot store profiles (they stay in memory), an errno value. 0: it can, or there is no
    /// spool.</summary>
    public int SpoolError => (int)this[Figure.SpoolError];

    /// <summary>Messages stored in the spool in this run.</summary>
    public long Spooled => this[Figure.Spooled];

    /// <summary>Messages delivered from the spool, including those of earlier runs; also counted in <see
    /// cref="Delivered"/>.</summary>
    public long Replayed => this[Figure.Replayed];

    /// <summary>Messages in the spool now; they count neither as delivered nor as lost.</summary>
    public long SpoolMessages => this[Figure.SpoolMessages];

    /// <summary>Bytes of the spool on disk now.</summary>
    public long SpoolBytes => this[Figure.SpoolBytes];

    /// <summary>Bytes that the spool has written to disk, as a measure of flash wear.</summary>
    public long SpoolBytesWritten => this[Figure.SpoolWritten];

    /// <summary>Incidents handed to delivery, of all runs of this process.</summary>
    public long Incidents => this[Figure.Incidents];

    /// <summary>What was noticed beyond the limits of <see cref="ProfilerIncidents"/>, or while another incident was in
    /// progress; of all runs of this process.</summary>
    public long IncidentsSuppressed => this[Figure.IncidentsSuppressed];

    /// <summary>Incidents that had no room until the profiler stopped, of all runs of this process.</summary>
    public long IncidentsLost => this[Figure.IncidentsLost];

    /// <summary>Totals by kind; only kinds with data.</summary>
    public IReadOnlyList<ProfilerKind> Kinds => kinds ?? [];

    /// <summary>Kinds that this program cannot measure, with the reason; all others are available. Some reasons are only
    /// known after the first exception or collection.</summary>
    public IReadOnlyList<ProfilerMissing> Unavailable => missing ?? [];

    /// <summary>Why stacks, or some kinds of them, have no async parents although <see cref="ProfilerOptions.Awaited"/> is set.
    /// Empty: they have.</summary>
    public string AwaitedUnavailable => Features.Awaited && Native.IsLinked ? AsyncProbe.Unavailable : "";

    /// <summary>Losses by reason; only reasons that occurred.</summary>
    public IReadOnlyList<ProfilerLoss> Losses => losses ?? [];
}
