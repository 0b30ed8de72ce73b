using System.Diagnostics;

namespace EdgeProf;

/// <summary>Local root spans of followed sources as work that is watched (<see cref="Profiler.WatchSpan"/>), while the
/// profiler keeps a history. Its listener has no part in what a trace records.</summary>
internal static class SpanWatch
{
    private const string Property = "edgeprof.watched";

    private static volatile bool on;
    private static ActivityListener? listener; // under the lock of Spans

    /// <summary>Whether the running profiler keeps a history.</summary>
    internal static bool IsOn => on;

    internal static void Begin() => on = Native.IncidentsOn() != 0;

    internal static void End() => on = false;

    /// <summary>A listener is asked about a source once, so a new one is needed after the sources have changed.</summary>
    internal static void Listen()
    {
        Ignore();
        if (!on)
            return;
        listener = new ActivityListener
        {
            ShouldListenTo = static source => Spans.IsFollowed(source),
            ActivityStarted = Started,
            ActivityStopped = Stopped,
        };
        ActivitySource.AddActivityListener(listener);
    }

    internal static void Ignore()
    {
        listener?.Dispose();
        listener = null;
    }

    private static void Started(Activity activity)
    {
        if (on && ReferenceEquals(Spans.RootOf(activity), activity))
            activity.SetCustomProperty(Property, new WatchedSpan(Profiler.BeginSpan(activity.DisplayName, 0)));
    }

    /// <summary>From now on an incident of this span has the name of its request's route.</summary>
    internal static void NameByRoute(Activity root, string route)
    {
        if (on && root.GetCustomProperty(Property) is WatchedSpan span)
            span.Name(route);
    }

    private static void Stopped(Activity activity)
    {
        if (activity.GetCustomProperty(Property) is WatchedSpan span)
            span.Dispose();
    }
}
