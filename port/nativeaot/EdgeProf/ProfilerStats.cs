using System.Runtime.InteropServices;

namespace EdgeProf;

/// <summary>Something that was measured and is not in a profile as what it was.</summary>
/// <param name="Reason">Why, for people: "ring full".</param>
/// <param name="Count">How many.</param>
/// <param name="CpuTime">The CPU time that they stood for.</param>
public readonly record struct ProfilerLoss(string Reason, long Count, TimeSpan CpuTime);

/// <summary>What was measured of one kind.</summary>
/// <param name="Kind">Which.</param>
/// <param name="Name">Its name in profiles, "cpu".</param>
/// <param name="Unit">Of the value: "nanoseconds", "bytes", "count".</param>
/// <param name="Count">Samples of CPU time; of all other kinds, the events that samples stand for.</param>
/// <param name="Value">In its unit. Of the live heap: now.</param>
public readonly record struct ProfilerKind(ProfileKinds Kind, string Name, string Unit, long Count, long Value);

/// <summary>What the profiler has done since it was started; after a stop, the figures of the run that ended.</summary>
public readonly struct ProfilerStats
{
    private readonly ulong[]? figures;
    private readonly ProfilerKind[]? kinds;
    private readonly ProfilerLoss[]? losses;

    private readonly string? tlsError;

    internal ProfilerStats(ulong[] figures, ProfilerKind[] kinds, ProfilerLoss[] losses, string tlsError)
    {
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

    /// <summary>Stacks walked to the root, every frame by a rule.</summary>
    public long ExactStacks => this[Figure.Exact];

    /// <summary>Stacks walked to the root, with a guess in between.</summary>
    public long StacksWithGap => this[Figure.Gap];

    /// <summary>Stacks whose root was not reached.</summary>
    public long CutStacks => this[Figure.Cut];

    /// <summary>CPU time charged when threads ended: what they used after their last sample.</summary>
    public TimeSpan ThreadExitCpuTime => Time(Figure.ThreadExitNs);

    /// <summary>Frames whose unwinding rule was in the cache.</summary>
    public long RuleHits => this[Figure.RuleHits];

    /// <summary>Frames whose unwinding rule had to be looked up.</summary>
    public long RuleMisses => this[Figure.RuleMisses];

    /// <summary>Messages encoded.</summary>
    public long Messages => this[Figure.Messages];

    /// <summary>Bytes of the messages encoded.</summary>
    public long MessageBytes => this[Figure.MessageBytes];

    /// <summary>Messages that the receiver has accepted.</summary>
    public long Delivered => this[Figure.Delivered];

    /// <summary>Bytes that the receiver has accepted.</summary>
    public long DeliveredBytes => this[Figure.DeliveredBytes];

    /// <summary>Attempts to deliver that failed; they are repeated.</summary>
    public long DeliveryFailures => this[Figure.DeliveryFailures];

    /// <summary>Intervals that had to wait for room and were merged with the next.</summary>
    public long IntervalsMerged => this[Figure.IntervalsMerged];

    /// <summary>Of the last failed delivery, an errno value. 0: none has failed.</summary>
    public int LastError => (int)this[Figure.LastError];

    /// <summary>The same in words, of an https endpoint with the reason: "the server's certificate has expired". Empty: none has
    /// failed.</summary>
    public string LastErrorText => LastError == 0 ? "" : string.IsNullOrEmpty(tlsError) ? Marshal.GetPInvokeErrorMessage(LastError) : tlsError;

    /// <summary>CPU time of the profiler's own threads.</summary>
    public TimeSpan OwnCpuTime => Time(Figure.OwnCpuNs);

    /// <summary>CPU time that samples took of the service's own threads, estimated from those that were timed.</summary>
    public TimeSpan HandlerCpuTime => Time(Figure.HandlerNs);

    /// <summary>What profiling costs, in millionths of the process' CPU time, over about the last minute.</summary>
    public long CostPpm => this[Figure.CostPpm];

    /// <summary>How much longer than the level's the distance of samples is, so that <see cref="ProfilerOptions.BudgetPpm"/>
    /// is kept: 1 is not at all.</summary>
    public double Stretch => this[Figure.StretchPct] / 100.0;

    /// <summary>How often <see cref="Stretch"/> has changed.</summary>
    public long Stretches => this[Figure.Stretches];

    /// <summary>How often the profiler's threads have woken up.</summary>
    public long Wakeups => this[Figure.Wakeups];

    /// <summary>Threads that have a timer now.</summary>
    public int Threads => (int)this[Figure.Threads];

    /// <summary>Modules (program and libraries) known.</summary>
    public int Modules => (int)this[Figure.Modules];

    /// <summary>Bytes of the profiler's memory in use.</summary>
    public long MemoryUsed => this[Figure.MemoryUsed];

    /// <summary>Why nothing can be put into the spool (profiles wait in memory), an errno value. 0: it can, or there is none.</summary>
    public int SpoolError => (int)this[Figure.SpoolError];

    /// <summary>Messages put into the spool in this run.</summary>
    public long Spooled => this[Figure.Spooled];

    /// <summary>Messages delivered from the spool, also those of earlier runs; <see cref="Delivered"/> has them too.</summary>
    public long Replayed => this[Figure.Replayed];

    /// <summary>Messages in the spool now: neither delivered nor lost.</summary>
    public long SpoolMessages => this[Figure.SpoolMessages];

    /// <summary>Bytes that the spool has on the disk now.</summary>
    public long SpoolBytes => this[Figure.SpoolBytes];

    /// <summary>Bytes that the spool has written to the disk: flash wears.</summary>
    public long SpoolBytesWritten => this[Figure.SpoolWritten];

    /// <summary>What was measured, by kind; only kinds of which there is something.</summary>
    public IReadOnlyList<ProfilerKind> Kinds => kinds ?? [];

    /// <summary>What was lost, by reason; only reasons that occurred.</summary>
    public IReadOnlyList<ProfilerLoss> Losses => losses ?? [];
}
