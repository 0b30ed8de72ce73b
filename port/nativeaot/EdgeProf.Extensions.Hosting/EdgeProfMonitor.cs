using System.Runtime.InteropServices;
using Microsoft.Extensions.Logging;

namespace EdgeProf.Extensions.Hosting;

/// <summary>Follows the profiler's statistics for the log and the health check: by a timer of the service, and with
/// every health check. Each cause is logged once.</summary>
internal sealed class EdgeProfMonitor(ILoggerFactory loggers)
{
    private const long LossCountsForMs = 60_000;

    private readonly ILogger log = loggers.CreateLogger("EdgeProf");
    private readonly object gate = new();
    private readonly HashSet<string> said = [];
    private long delivered, failuresBefore, lost, lostAtMs;
    private bool failing, hasRun;

    /// <summary>Why no profiler runs, if that is a problem.</summary>
    public string? Failure { get; set; }

    /// <summary>Why no profiler runs, if nobody wants one.</summary>
    public string? Idle { get; set; }

    /// <summary>The folder of the spool, for the lines about its errors.</summary>
    public string Spool { get; set; } = "";

    public ILogger Log => log;

    public static long Lost(ProfilerStats stats) => stats.Losses.Sum(static loss => loss.Count);

    /// <summary>Reads the statistics and logs what is new.</summary>
    public ProfilerStats Look()
    {
        lock (gate)
        {
            var stats = Profiler.GetStats();
            hasRun |= Profiler.IsRunning;
            if (!hasRun)
                return stats; // of a run that is not this host's
            Follow(stats);
            TakeNotices();
            foreach (var loss in stats.Losses)
                if (said.Add(loss.Reason))
                    log.Lost(loss.Count, loss.Reason);
            if (stats.SpoolError != 0 && said.Add("spool " + stats.SpoolError))
                log.SpoolFailed(Spool, Marshal.GetPInvokeErrorMessage(stats.SpoolError));
            return stats;
        }
    }

    /// <summary>For a timer, where an exception of a log would end the program.</summary>
    public void LookQuietly()
    {
        try
        {
            Look();
        }
        catch (Exception)
        {
            // the next look reads the statistics again
        }
    }

    /// <summary>Logs the lines that the profiler has kept.</summary>
    public void TakeNotices()
    {
        while (Profiler.TakeNotice() is { } line)
            Notice(line);
    }

    /// <summary>What is wrong now, in one line; null: nothing.</summary>
    public string? Problem(ProfilerStats stats)
    {
        lock (gate)
        {
            if (!Profiler.IsRunning)
                return Idle is null ? Failure ?? "the profiler does not run" : null;
            if (failing)
                return "profiles do not arrive: " + Reason(stats);
            if (stats.SpoolError != 0)
                return $"the spool in {Spool} fails: " + Marshal.GetPInvokeErrorMessage(stats.SpoolError);
            return lost > 0 && Environment.TickCount64 - lostAtMs < LossCountsForMs ? "measurements were lost in the last minute" : null;
        }
    }

    private static string Reason(ProfilerStats stats) =>
        stats.LastStatus >= 300 ? $"status {stats.LastStatus}" : stats.LastErrorText;

    /// <summary>Delivery fails if attempts have failed since the last one that succeeded, as far as looking shows.</summary>
    private void Follow(ProfilerStats stats)
    {
        if (stats.Delivered != delivered || stats.DeliveryFailures < failuresBefore) // the latter: a new run
            failuresBefore = stats.DeliveryFailures;
        delivered = stats.Delivered;
        failing = stats.DeliveryFailures > failuresBefore;
        var now = Lost(stats);
        if (now > lost)
            lostAtMs = Environment.TickCount64;
        lost = now;
    }

    private void Notice(string line)
    {
        if (line.StartsWith("profiles are accepted again", StringComparison.Ordinal))
            log.Again(line);
        else
            log.Notice(line);
    }
}
