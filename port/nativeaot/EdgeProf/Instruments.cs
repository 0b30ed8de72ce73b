using System.Diagnostics.Metrics;

namespace EdgeProf;

/// <summary>
/// <c>Meter("EdgeProf")</c>: the profiler's own cost, losses and delivery for OpenTelemetry and others. It exists from
/// the first start on. All instruments are observable: nothing runs while nobody collects them. Counters are totals of
/// all runs of the process, while the library's figures begin at zero with each start.
/// </summary>
internal static unsafe class Instruments
{
    private static readonly object Gate = new();
    private static readonly Dictionary<string, long> LostBefore = [];
    private static Totals before;
    private static Meter? meter;

    private readonly record struct Totals(TimeSpan Own, TimeSpan Service, long Delivered, long Bytes, long Failures)
    {
        internal static Totals Of(ProfilerStats run) =>
            new(run.OwnCpuTime, run.HandlerCpuTime, run.Delivered, run.DeliveredBytes, run.DeliveryFailures);

        public static Totals operator +(Totals a, Totals b) =>
            new(a.Own + b.Own, a.Service + b.Service, a.Delivered + b.Delivered, a.Bytes + b.Bytes, a.Failures + b.Failures);
    }

    /// <summary>Starts the native profiler; the figures of the run before are added to the totals.</summary>
    internal static int Start(NativeOptions* options, NativeTls* tls)
    {
        lock (Gate)
        {
            meter ??= CreateOrSay();
            var last = Profiler.GetStats();
            var error = Native.Start(options, tls);
            if (error == 0 || Totals.Of(Profiler.GetStats()) != Totals.Of(last)) // else it has failed before its figures changed
                Add(last);
            return error;
        }
    }

    private static void Add(ProfilerStats run)
    {
        before += Totals.Of(run);
        foreach (var loss in run.Losses)
            LostBefore[loss.Reason] = LostBefore.GetValueOrDefault(loss.Reason) + loss.Count;
    }

    private static T Read<T>(Func<ProfilerStats, T> figure)
    {
        lock (Gate)
            return figure(Profiler.GetStats());
    }

    private static Totals All(ProfilerStats run) => before + Totals.Of(run);

    private static IEnumerable<Measurement<double>> CpuTimes(ProfilerStats run)
    {
        var all = All(run);
        return [new(all.Own.TotalSeconds, By("edgeprof.cpu.threads", "profiler")),
                new(all.Service.TotalSeconds, By("edgeprof.cpu.threads", "service"))];
    }

    private static IEnumerable<Measurement<long>> Lost(ProfilerStats run)
    {
        var all = new Dictionary<string, long>(LostBefore);
        foreach (var loss in run.Losses)
            all[loss.Reason] = all.GetValueOrDefault(loss.Reason) + loss.Count;
        var lost = new List<Measurement<long>>(all.Count);
        foreach (var loss in all)
            lost.Add(new Measurement<long>(loss.Value, By("edgeprof.loss.reason", loss.Key)));
        return lost;
    }

    private static KeyValuePair<string, object?> By(string key, string value) => new(key, value);

    /// <summary>A program without reflection (IlcDisableReflection) has no meters. It is profiled all the same.</summary>
    private static Meter? CreateOrSay()
    {
        try
        {
            return Create();
        }
        catch (Exception e)
        {
            Profiler.Say($"no metrics: {e.Message}");
            return null;
        }
    }

    private static Meter Create()
    {
        var made = new Meter("EdgeProf", typeof(Instruments).Assembly.GetName().Version?.ToString(3));
        made.CreateObservableGauge("edgeprof.cost", () => Read(run => run.CostPpm / 1e6), "1",
            "Cost of profiling as a ratio of the process' CPU time, over about the last minute.");
        made.CreateObservableCounter("edgeprof.cpu.time", () => Read(CpuTimes), "s",
            "CPU time of profiling, on the profiler's threads and on the service's.");
        made.CreateObservableCounter("edgeprof.lost", () => Read(Lost), "{sample}",
            "Samples of any kind, and threads, which are missing from profiles or have less detail, by reason.");
        made.CreateObservableCounter("edgeprof.delivery.messages", () => Read(run => All(run).Delivered), "{message}",
            "Messages that the receiver has accepted.");
        made.CreateObservableCounter("edgeprof.delivery.size", () => Read(run => All(run).Bytes), "By",
            "Bytes that the receiver has accepted.");
        made.CreateObservableCounter("edgeprof.delivery.failures", () => Read(run => All(run).Failures), "{attempt}",
            "Failed delivery attempts, which are retried.");
        made.CreateObservableUpDownCounter("edgeprof.spool.messages", () => Read(run => run.SpoolMessages), "{message}",
            "Messages in the spool.");
        made.CreateObservableUpDownCounter("edgeprof.spool.size", () => Read(run => run.SpoolBytes), "By",
            "Bytes of the spool on disk.");
        return made;
    }
}
